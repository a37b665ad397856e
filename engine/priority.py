"""Iteration-level batching in the order of priorities."""

from bisect import insort

from engine.continuous import ContinuousScheduler
from engine.sequence import Sequence
from engine.step import Step


class PriorityScheduler(ContinuousScheduler):
    """The lowest priority number first, of equals the first to come; the last of them is preempted.

    Unlike with first come first served, the victim may have its place in this step already.
    """

    def add(self, seq: Sequence) -> None:
        """Queue a new sequence at its rank."""
        self._requeue(seq)
        self._stuck_by = None

    def _requeue(self, seq: Sequence) -> None:
        insort(self.waiting, seq, key=_rank)

    def _can_decode_together(self, step: Step, cap: int) -> bool:
        """Only with room for all: the rank of a victim is looked up among all that run."""
        assert self.decodes is not None
        block_size = self.config.block_size
        num_blocks = len(self.decodes.beginning(step.index)) + sum(
            1 + self._num_wanted(seq) // block_size for seq in self.others
        )
        return num_blocks <= self.kv.num_growable_blocks and super()._can_decode_together(step, cap)

    def _victim(self) -> Sequence:
        return max(self.running, key=_rank)

    def _preempt(self, seq: Sequence, step: Step) -> None:
        chunk = step.remove(seq)
        if chunk:
            seq.num_placeholders -= chunk.samples
        super()._preempt(seq, step)
        if chunk:  # which is not computed
            seq.num_lost_tokens -= chunk.num_tokens


def _rank(seq: Sequence) -> tuple[int, int]:
    return seq.request.priority, seq.arrival
