"""Iteration-level batching in which steps compute prompts alone, or decodes alone."""

from itertools import islice

from engine.config import EngineConfig
from engine.continuous import ContinuousScheduler
from engine.kv_manager import KVManager
from engine.sequence import Sequence
from engine.step import Blocked, Step


class PrefillFirstScheduler(ContinuousScheduler):
    """Steps of whole prompts alone while any can be admitted, and of decodes alone else."""

    def _fill(self, step: Step) -> None:
        cap = self.config.max_num_batched_tokens
        if self.waiting:
            self._admit_waiting(step, cap)
        if not step.chunks:
            self._schedule_running(step, cap)
            if step.preempted:
                self._block(step, Blocked.BLOCKS)
            else:
                self._swap_in(step, cap)
        elif self.decodes is not None:  # they miss this step
            for seq in self.decodes.members():
                self._leave_decodes(seq, step)


class TGIScheduler(PrefillFirstScheduler):
    """The router of text-generation-inference: prompts pause the decodes only now and then.

    Running requests, each with its prompt and all that it may get, keep within
    `max_batch_total_tokens`. While some run, others join when at least `waiting_served_ratio` times
    as many wait and fit, or, however few, once `max_waiting_tokens` tokens have been produced since
    the last prompts, whose own first one counts. Prompts that join others are followed by decodes.
    Where memory is shorter than the budget, fewer join.
    """

    def __init__(self, config: EngineConfig, kv: KVManager, *, stepwise: bool) -> None:
        super().__init__(config, kv, stepwise=stepwise)
        self._num_total_tokens = 0  # of running requests, those they may still get included
        self._num_waiting_tokens = 0  # steps since the last prompts, theirs included
        self._must_decode = False

    def _fill(self, step: Step) -> None:
        has_company = bool(self.running)
        super()._fill(step)
        if step.admitted:
            self._num_waiting_tokens = 1
            self._must_decode = has_company
        elif step.num_tokens:
            self._count_decodes(1)

    def advance(self, num_steps: int) -> list[int]:
        """See Scheduler."""
        self._count_decodes(num_steps)
        return super().advance(num_steps)

    def _count_decodes(self, num_steps: int) -> None:
        self._num_waiting_tokens += num_steps
        self._must_decode = False

    def _steps_without_admission(self, most: int) -> int:
        if not self.waiting or self._stuck_by is not None:
            return most
        if self._must_decode or self._is_due():
            return 0
        return min(most, self.config.max_waiting_tokens - self._num_waiting_tokens)

    @property
    def blocked_ahead(self) -> Blocked | None:
        """See Scheduler."""
        is_free = self.waiting and self._stuck_by is None
        return Blocked.BATCH if is_free else super().blocked_ahead

    def _admit_waiting(self, step: Step, cap: int) -> None:
        if self._is_due():
            super()._admit_waiting(step, cap)
        else:
            self._block(step, Blocked.BATCH)

    def _is_due(self) -> bool:
        """Whether those who wait may pause the others."""
        if not self.running:
            return True
        if self._must_decode:
            return False
        if self._num_waiting_tokens >= self.config.max_waiting_tokens:
            return True
        fewest = int(self.config.waiting_served_ratio * len(self.running))
        return len(self.waiting) >= fewest and self._do_fit(fewest)

    def _do_fit(self, num_seqs: int) -> bool:
        """Whether the first so many in the queue fit into a step of prompts and into the batch."""
        config = self.config
        seqs = list(islice(self.waiting, num_seqs))
        num_total_tokens = self._num_total_tokens + sum(seq.max_num_tokens for seq in seqs)
        return (
            len(self.running) + num_seqs <= config.max_num_seqs
            and sum(seq.num_tokens for seq in seqs) <= config.max_num_batched_tokens
            and num_total_tokens <= config.max_batch_total_tokens
        )

    def _find_room(self, seq: Sequence, prefix: list[int], num_tokens: int) -> bool:
        num_total_tokens = self._num_total_tokens + seq.max_num_tokens
        is_within = num_total_tokens <= self.config.max_batch_total_tokens
        return is_within and super()._find_room(seq, prefix, num_tokens)

    def _start(self, step: Step, seq: Sequence, num_cached_tokens: int) -> None:
        super()._start(step, seq, num_cached_tokens)
        self._num_total_tokens += seq.max_num_tokens

    def _stop(self, seq: Sequence) -> None:
        super()._stop(seq)
        self._num_total_tokens -= seq.max_num_tokens

    def check(self) -> None:
        """See Scheduler."""
        super().check()
        assert self._num_total_tokens == sum(seq.max_num_tokens for seq in self.running)
        assert self._num_total_tokens <= self.config.max_batch_total_tokens
