"""Iteration-level batching: who runs is decided anew at every step, by the rules of vLLM V1."""

from bisect import insort

from engine.request import Sequence, Status
from engine.scheduler import Scheduler, Step


class ContinuousScheduler(Scheduler):
    """First come first served, running sequences first, preemption by recomputation.

    Prefill and decode are the same thing: a sequence needs its known tokens that are not computed
    yet, as many as the step's token budget still holds.
    """

    def _fill(self, step: Step) -> None:
        # Counted once, before anything is scheduled.
        num_in_system = len(self.running) + len(self.waiting)
        threshold = self.config.long_prefill_token_threshold
        is_capped = threshold and (num_in_system > 1 or self.config.rules < (0, 31))
        cap = threshold if is_capped else self.config.max_num_batched_tokens
        self._schedule_running(step, cap)
        if not step.preempted:
            self._admit_waiting(step, cap)

    def _schedule_running(self, step: Step, cap: int) -> None:
        """Give running sequences their next tokens, in order, at most `cap` each."""
        last_position = self.config.max_model_len - 1
        place = 0
        while place < len(self.running) and (budget := self._budget(step)):
            seq = self.running[place]
            start = seq.num_computed_tokens
            num_tokens = min(self._num_wanted(seq) - start, cap, budget, last_position - start)
            if num_tokens > 0:
                if not self._grow(seq, num_tokens, step):
                    break
                if step.preempted:  # some before it may have left
                    place = self.running.index(seq)
                self._take(step, seq, start, num_tokens)
            place += 1

    def _budget(self, step: Step) -> int:
        return self.config.max_num_batched_tokens - step.num_tokens

    def _num_wanted(self, seq: Sequence) -> int:
        """Length to compute a running sequence to: the tokens known and those about to come.

        Nothing more, once those about to come reach the length at which it ends.
        """
        num_expected = seq.num_tokens + seq.num_placeholders
        if seq.num_placeholders and num_expected >= seq.max_num_tokens:
            return seq.num_computed_tokens
        return num_expected

    def _grow(self, seq: Sequence, num_tokens: int, step: Step) -> bool:
        """Find room, preempting others or, at the worst, `seq` itself: then False."""
        while not self.kv.grow(seq, num_tokens):
            victim = self._victim()
            self._preempt(victim, step)
            if victim is seq:
                return False
        return True

    def _victim(self) -> Sequence:
        """The running sequence to preempt next."""
        return self.running[-1]

    def _preempt(self, seq: Sequence, step: Step) -> None:
        self.running.remove(seq)
        self.kv.release(seq)
        seq.status = Status.WAITING
        seq.num_preemptions += 1
        seq.num_stale += seq.num_placeholders
        seq.num_placeholders = 0
        self._requeue(seq)
        step.preempted.append(seq)

    def _requeue(self, seq: Sequence) -> None:
        """Put a preempted sequence back into the queue."""
        self.waiting.appendleft(seq)

    def _admit_waiting(self, step: Step, cap: int) -> None:
        """Admit from the head of the queue; the first that does not fit stops admission."""
        config = self.config
        place = 0  # in the queue; those before it wait for tokens still in flight
        while place < len(self.waiting) and len(self.running) < config.max_num_seqs:
            budget = self._budget(step)
            if not budget:
                break
            seq = self.waiting[place]
            if seq.num_stale:
                place += 1
                continue
            prefix = self.kv.cached_prefix(seq)
            num_cached = len(prefix) * config.block_size
            num_tokens = min(seq.num_tokens - num_cached, cap)
            if num_tokens > budget and not config.enable_chunked_prefill:
                if config.rules < (0, 12):  # stepped over, and the next may be admitted
                    place += 1
                    continue
                break
            num_tokens = min(num_tokens, budget)
            if not self.kv.admit(
                seq,
                prefix,
                num_tokens,
                fit_tokens=seq.num_tokens if config.reserve_full_isl else 0,
                watermark_blocks=self._watermark_blocks if self.running else 0,
            ):
                break
            del self.waiting[place]
            self._start(step, seq, num_cached)
            self._take(step, seq, num_cached, num_tokens)

    @property
    def _watermark_blocks(self) -> int:
        # vLLM takes the share of its own block count, which includes one null block.
        return int(self.config.watermark * (self.config.num_blocks + 1))

    def _take(self, step: Step, seq: Sequence, start: int, num_tokens: int) -> None:
        # Published while scheduling: a later sequence of this step can share the block already,
        # since every layer writes all K/V of the step before any attention reads.
        self.kv.publish(seq, min(seq.num_computed_tokens, seq.num_tokens))
        seq.num_placeholders += step.add(seq, start, num_tokens)


class PriorityScheduler(ContinuousScheduler):
    """The lowest priority number first, of equals the first to come; the last of them is preempted.

    Unlike with first come first served, the victim may have its place in this step already.
    """

    def add(self, seq: Sequence) -> None:
        """Queue a new sequence at its rank."""
        self._requeue(seq)

    def _requeue(self, seq: Sequence) -> None:
        insort(self.waiting, seq, key=_rank)

    def _victim(self) -> Sequence:
        return max(self.running, key=_rank)

    def _preempt(self, seq: Sequence, step: Step) -> None:
        chunk = step.remove(seq)
        if chunk:
            seq.num_placeholders -= chunk.samples
            self.kv.retract(seq, chunk.start)
        super()._preempt(seq, step)


def _rank(seq: Sequence) -> tuple[int, int]:
    return seq.request.priority, seq.arrival
