"""Iteration-level batching: who runs is decided anew at every step, by the rules of vLLM V1."""

from itertools import islice

from engine.config import EngineConfig
from engine.decode_batch import Deadlines, DecodeBatch
from engine.kv_manager import KVManager
from engine.scheduler import Scheduler, running_order
from engine.sequence import Sequence, Status
from engine.step import Blocked, Step


class ContinuousScheduler(Scheduler):
    """First come first served, running sequences first, preemption of the last.

    Prefill and decode are the same thing: a sequence needs its known tokens that are not computed
    yet, as many as the step's token budget still holds.

    With a decode batch the same decisions are taken by looking only at the sequences that need
    something: a block, a place in the trie, a chunk of a prompt.
    """

    def __init__(self, config: EngineConfig, kv: KVManager, *, stepwise: bool) -> None:
        super().__init__(config, kv, stepwise=stepwise)
        # vLLM takes the share of its own block count, which includes one null block.
        self._watermark_blocks = int(config.watermark * (config.num_blocks + 1))
        self._limits = Deadlines()  # the step that computes a member's last possible token

    def _fill(self, step: Step) -> None:
        # Counted once, before anything is scheduled.
        num_in_system = len(self.running) + len(self.waiting)
        threshold = self.config.long_prefill_token_threshold
        is_capped = threshold and (num_in_system > 1 or self.config.rules < (0, 31))
        cap = threshold if is_capped else self.config.max_num_batched_tokens
        self._schedule_running(step, cap)
        if step.preempted:
            self._block(step, Blocked.BLOCKS)
        elif self.waiting:
            self._swap_in(step, cap)
            self._admit_waiting(step, cap)

    def _schedule_running(self, step: Step, cap: int) -> None:
        if self.decodes is not None and self.config.async_scheduling:
            self._pass_over_limited(step)
        if self.decodes is not None and self._can_decode_together(step, cap):
            self._decode_together(step, cap)
        else:
            for seq in self.decodes.members() if self.decodes is not None else ():
                self._leave_decodes(seq, step)
            self._schedule_one_by_one(step, cap)
        # Before anybody is admitted, who can then share what this step computes: every layer writes
        # all K/V of the step before any attention reads.
        if self.config.enable_prefix_caching:
            self._publish_full(step.index, [chunk.seq for chunk in step.chunks])

    # --- each sequence by itself: the rules as they are ---

    def _schedule_one_by_one(self, step: Step, cap: int) -> None:
        """Give running sequences their next tokens, in order, at most `cap` each."""
        for seq in list(self.running):
            if not self._budget(step):
                break
            if seq.status is Status.RUNNING and not self._schedule_chunk(seq, step, cap):
                break

    def _schedule_chunk(self, seq: Sequence, step: Step, cap: int, num_others: int = 0) -> bool:
        """Give a running sequence its next tokens; False if it was preempted for want of room.

        num_others: tokens of the budget that are spoken for besides.
        """
        if seq.is_beam and not self._is_computing_prompt(seq):
            return self._schedule_beams(seq, step, self._budget(step) - num_others)
        start = seq.num_computed_tokens
        num_tokens = min(self._num_wanted(seq), cap, self._budget(step) - num_others)
        if num_tokens > 0:
            if not self._grow(seq, num_tokens, step):
                return False
            self._take(step, seq, start, num_tokens)
        return True

    @staticmethod
    def _is_computing_prompt(seq: Sequence) -> bool:
        return seq.group is not None and not seq.group.is_forked

    def _parts(self, seq: Sequence) -> list[Sequence]:
        """Those that hold memory and lose it together with a sequence, itself first."""
        return [seq] if self._is_computing_prompt(seq) else seq.gang

    def _schedule_beams(self, seq: Sequence, step: Step, budget: int) -> bool:
        """Give all beams of a request their next token; False if they were preempted."""
        beams = seq.outputs
        if seq.num_placeholders or len(beams) > budget:
            return True  # they have it already, or must wait
        while not self.kv.grow_together(beams):
            if not self._make_room(seq, step):
                return False
        for beam in beams:
            self._take(step, beam, beam.num_computed_tokens - 1, 1)
        return True

    def _budget(self, step: Step) -> int:
        return self.config.max_num_batched_tokens - step.num_tokens

    def _num_wanted(self, seq: Sequence) -> int:
        """Tokens that a running sequence needs: those known and about to come, less the computed.

        Nothing more, once those about to come reach the length at which it ends; nothing, while
        another sequence computes its prompt.
        """
        if seq.awaits_fork:
            return 0
        num_expected = seq.num_tokens + seq.num_placeholders
        if seq.num_placeholders and num_expected >= seq.max_num_tokens:
            return 0
        start = seq.num_computed_tokens
        return min(num_expected, self.config.max_model_len - 1) - start

    def _grow(self, seq: Sequence, num_tokens: int, step: Step) -> bool:
        """Find room, preempting others or, at the worst, `seq` itself: then False."""
        while not self.kv.grow(seq, num_tokens):
            if not self._make_room(seq, step):
                return False
        return True

    def _make_room(self, seq: Sequence, step: Step) -> bool:
        """Preempt somebody for the sake of `seq`; False if it was itself."""
        victim = self._victim()
        if victim.awaits_fork or victim.is_beam:
            victim = victim.outputs[0]
        self._preempt(victim, step)
        return seq.status is Status.RUNNING

    def _victim(self) -> Sequence:
        """The running sequence to preempt next."""
        return next(reversed(self.running))

    def _preempt(self, seq: Sequence, step: Step) -> None:
        if seq.lead is not None:
            self._leave_decodes(seq, step)
        parts = self._parts(seq)
        num_computed, num_of_output = seq.num_computed_tokens, seq.num_output_tokens - 1
        seq.num_lost_tokens = num_computed + (len(parts) - 1) * num_of_output
        is_swapped = self.config.preemption == "swap" and self.kv.swap_out(parts)
        for part in parts:
            self._stop(part)
            if not is_swapped:
                self.kv.release(part)
            part.status = Status.SWAPPED if is_swapped else Status.WAITING
        if len(parts) > 1 and not is_swapped:  # beams have nothing to show before their end
            assert seq.group
            seq.group.start_over()
        seq.num_given_tokens = 0  # and computed here the next time
        seq.num_preemptions += 1
        seq.num_stale += seq.num_placeholders
        seq.num_placeholders = 0
        self._requeue(seq)
        step.preempted.append(seq)

    def _requeue(self, seq: Sequence) -> None:
        """Put a preempted sequence back into the queue."""
        self.waiting.appendleft(seq)

    # --- those that decode, together ---

    def _join_decodes(self, seq: Sequence) -> None:
        super()._join_decodes(seq)
        if self.config.async_scheduling:
            num_left = seq.max_num_tokens - seq.num_tokens - seq.num_placeholders
            self._limits.add(self.num_steps - 1 + num_left, seq)

    def _pass_over_limited(self, step: Step) -> None:
        """Members whose tokens in flight reach the length at which they end need no step more."""
        for seq in self._limits.due(step.index - 1):
            self._leave_decodes(seq, step)

    def _can_decode_together(self, step: Step, cap: int) -> bool:
        """Whether the budget holds all members of the decode batch, wherever in order they stand.

        It does when all that is wanted fits, or when those who want more than a token come last.
        """
        assert self.decodes is not None
        budget = self.config.max_num_batched_tokens
        if not self.others:
            return self.decodes.size <= budget
        wanted = {seq: num for seq in self.others if (num := min(self._num_wanted(seq), cap)) > 0}
        if self.decodes.size + sum(wanted.values()) <= budget:
            return True
        are_last = all(seq in wanted for seq in islice(reversed(self.running), len(wanted)))
        return are_last and self.decodes.size <= budget

    def _decode_together(self, step: Step, cap: int) -> None:
        """Give every member its token, and the other running sequences theirs, in order."""
        batch = self.decodes
        assert batch is not None
        beginning = batch.beginning(step.index)
        if not self.others and len(beginning) <= self.kv.num_growable_blocks:
            self._begin_blocks(beginning)
        else:
            self._serve_in_order(beginning, step, cap)
        step.add_decodes(batch.size, batch.context_tokens)
        self.kv.fill(batch.size)

    def _begin_blocks(self, beginning: dict[int, Sequence]) -> None:
        """Give members the blocks they begin, in order; there is room."""
        if beginning:
            has_room = self.kv.begin([beginning[place] for place in sorted(beginning)])
            assert has_room

    def _serve_in_order(self, beginning: dict[int, Sequence], step: Step, cap: int) -> None:
        """Serve those who need anything in running order, preempting for want of room."""
        assert self.decodes is not None
        others = sorted(self.others, key=running_order)
        if (
            beginning
            and len(beginning) <= self.kv.num_growable_blocks
            and max(beginning) < others[0].place
        ):
            self._begin_blocks(beginning)
            needy = others
        else:
            needy = sorted([*others, *beginning.values()], key=running_order)
        for seq in needy:
            if seq.status is not Status.RUNNING:
                continue  # preempted just now
            if seq.lead is None:
                has_room = self._schedule_chunk(seq, step, cap, self.decodes.size)
            else:
                has_room = self._begin_block(seq, step)
            if not has_room:
                break

    def _begin_block(self, seq: Sequence, step: Step) -> bool:
        """Give a member its next block, as `_grow` does."""
        while not self.kv.begin([seq]):
            if not self._make_room(seq, step):
                return False
        return True

    def _serve_ahead(self, batch: DecodeBatch, steps: range) -> list[int]:
        """See Scheduler. There is room for all."""
        if batch.has_publishers:
            begun = [self._serve_and_publish(batch, index) for index in steps]
        else:
            begun, seqs, begun_in = batch.beginning_ahead(len(steps))
            has_room = self.kv.begin(seqs, begun_in)
            assert has_room
            self._published_step = steps[-1]
        self.kv.fill(len(steps) * batch.size)
        return begun

    def _serve_and_publish(self, batch: DecodeBatch, index: int) -> int:
        """One step of them; returns how many blocks were begun."""
        beginning = batch.beginning(index)
        self.kv.begin_step(index)
        self._begin_blocks(beginning)
        self._publish_full(index, [])
        return len(beginning)

    def steps_ahead(self, most: int) -> int:
        """See Scheduler."""
        batch = self.decodes
        assert batch is not None
        if self.others or not 0 < batch.size <= self.config.max_num_batched_tokens:
            return 0
        most = self._steps_without_admission(most)
        limit = self._limits.next_step()
        if limit is not None:  # in the step after this one somebody is passed over
            most = min(most, limit - self.num_steps + 1)
        return batch.steps_within(self.kv.num_growable_blocks, most)

    def _steps_without_admission(self, most: int) -> int:
        """How many of the next `most` steps admit nobody, as far as is certain."""
        return 0 if self.waiting and self._stuck_by is None else most

    # --- admission ---

    def _swap_in(self, step: Step, cap: int) -> None:
        """Bring back what was swapped out, from the head of the queue on while there is room."""
        while self.waiting and self.waiting[0].status is Status.SWAPPED:
            seq = self.waiting[0]
            parts = self._parts(seq)
            num_tokens = min(self._num_wanted(seq), cap, self._budget(step))
            if self._budget(step) < len(parts):
                self._block(step, Blocked.BUDGET)
                break
            watermark_blocks = self._watermark_blocks if self.running else 0
            if not self._has_place_for(seq):
                self._block(step, Blocked.SLOTS, is_stuck=True)
                break
            if not self.kv.swap_in(parts, num_tokens, watermark_blocks=watermark_blocks):
                self._block(step, Blocked.BLOCKS, is_stuck=True)
                break
            self.waiting.popleft()
            self._start(step, seq, seq.num_lost_tokens)
            for part in parts:
                self._take(step, part, part.num_computed_tokens - num_tokens, num_tokens)

    def _has_place_for(self, seq: Sequence) -> bool:
        num_seqs = len(seq.gang) if seq.group else 1
        return len(self.running) + num_seqs <= self.config.max_num_seqs

    def _admit_waiting(self, step: Step, cap: int) -> None:
        """Admit from the head of the queue; the first that does not fit stops admission."""
        config = self.config
        place = 0  # in the queue; those before it wait for tokens still in flight
        while place < len(self.waiting):
            seq = self.waiting[place]
            if seq.status is Status.SWAPPED:
                if step.blocked_by is None:  # else `_swap_in` said why
                    self._block(step, Blocked.BLOCKS)
                break
            if not self._has_place_for(seq):
                self._block(step, Blocked.SLOTS, is_stuck=True)
                break
            budget = self._budget(step)
            if not budget:
                self._block(step, Blocked.BUDGET)
                break
            if seq.num_stale:
                self._block(step, Blocked.BLOCKS)
                place += 1
                continue
            prefix = self.kv.cached_prefix(seq)
            num_cached = len(prefix) * config.block_size
            start = num_cached + seq.num_given_tokens
            num_tokens = min(seq.num_tokens - start, cap)
            if num_tokens > budget and not config.enable_chunked_prefill:
                self._block(step, Blocked.BUDGET)
                if config.rules < (0, 12):  # stepped over, and the next may be admitted
                    place += 1
                    continue
                break
            num_tokens = min(num_tokens, budget)
            if not self._find_room(seq, prefix, seq.num_given_tokens + num_tokens):
                self._note_shortage(step)
                break
            del self.waiting[place]
            self._start(step, seq, num_cached)
            self._take(step, seq, start, num_tokens)
            if config.enable_prefix_caching:
                self.kv.publish(seq, min(seq.num_computed_tokens, seq.num_tokens))

    def _find_room(self, seq: Sequence, prefix: list[int], num_tokens: int) -> bool:
        """Give a waiting sequence what `KVManager.admit` gives, if it is there."""
        return self.kv.admit(
            seq,
            prefix,
            num_tokens,
            fit_tokens=seq.num_tokens if self.config.reserve_full_isl else 0,
            watermark_blocks=self._watermark_blocks if self.running else 0,
        )

    def _note_shortage(self, step: Step) -> None:
        """There is no room for the next to be admitted."""
        # Those that decode only take more blocks; but what they publish may be a new hit.
        is_stuck = not self.config.enable_prefix_caching
        self._block(step, Blocked.BLOCKS, is_stuck=is_stuck)

    def _take(self, step: Step, seq: Sequence, start: int, num_tokens: int) -> None:
        seq.num_placeholders += step.add(seq, start, num_tokens)
