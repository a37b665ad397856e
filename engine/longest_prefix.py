"""Admission in the order of what the prefix cache holds of those who wait: SGLang's `lpm`."""

from engine.continuous import ContinuousScheduler
from engine.prefill_first import PrefillFirstScheduler
from engine.sequence import Sequence
from engine.step import Blocked, Step

MOST_MATCHED = 128  # that wait; of more, SGLang leaves the queue as it is


class LongestPrefixScheduler(ContinuousScheduler):
    """Whoever finds the longest prefix in the cache first, of equals the first in the queue.

    The queue is put into this order at each step that may admit. Once there was no room for the
    first, nobody is looked up again until the queue or who runs changes, as with SGLang.
    """

    def _admit_waiting(self, step: Step, cap: int) -> None:
        if self._stuck_by is not None:
            self._block(step, self._stuck_by)
            return
        if 1 < len(self.waiting) <= MOST_MATCHED:
            by_prefix = sorted(self.waiting, key=self._num_cached_blocks, reverse=True)
            self.waiting.clear()
            self.waiting.extend(by_prefix)
        super()._admit_waiting(step, cap)

    def _num_cached_blocks(self, seq: Sequence) -> int:
        return len(self.kv.cached_prefix(seq))

    def _note_shortage(self, step: Step) -> None:
        self._block(step, Blocked.BLOCKS, is_stuck=True)


class LongestPrefixPrefillFirstScheduler(LongestPrefixScheduler, PrefillFirstScheduler):
    """The same with prompts in steps of their own."""
