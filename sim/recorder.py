"""Stamps what happens in a replica, in columns."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from engine.kv_manager import KVUsage
from engine.replay_engine import Progress
from engine.request import RequestId, TokenOutput
from engine.sequence import PrefixMisses, Sequence
from engine.step import Step
from sim.attribution import Attribution
from sim.ledger import Int64Array, LedgerIntegral, UsageArrays, decoded_on, integral
from sim.records import Records
from sim.request_columns import NEVER, RequestColumns
from sim.step_table import StepRows, StepTable
from sim.value_counts import ValueCounts

Queues = tuple[int, int]  # sequences running and waiting
_MOST_WAITING = 1 << 14  # rows that are still spells


# Steps of equal make-up in a row, or one row of any other kind. A plain tuple, for there are many:
# (start_ns; of each step its duration_ns; the blocks that decodes begin in it; tokens by which the
# K/V grows in each step beyond the usage; steps: 1, or 0 where the engine idled; decodes;
# prefill_tokens; running; waiting; preempted; slots that sharing saves; usage).
_Spell = tuple[int, list[int], list[int], int, int, int, int, int, int, int, int, KVUsage]
_NO_BLOCKS = [0]


class Recorder:
    """The steps of an engine, and the requests that it serves.

    num_requests, on_finished, num_outputs: see RequestColumns.
    dates_evictions: keep the times of steps that may evict, for requests that miss what they did.
    beside: the recorder of another engine that serves others of the same requests.

    attribution: of the times of requests; told directly of decisions over many steps at once.
    """

    def __init__(
        self,
        num_requests: int,
        block_size: int,
        on_finished: Callable[[int], None],
        *,
        num_outputs: int,
        dates_evictions: bool = True,
        beside: "Recorder | None" = None,
    ) -> None:
        self._block_size = block_size
        self._dates_evictions = dates_evictions
        self._requests: RequestColumns = (
            beside._requests if beside else RequestColumns(num_requests, on_finished, num_outputs)
        )
        # Looked at for every token: by names of their own.
        self._times, self._counts = self._requests.times, self._requests.counts
        self._num_outputs = num_outputs
        self._num_unfinished = self._requests.num_unfinished
        self._output_tokens = self._requests.output_tokens
        self._last_token_ns = self._requests.last_token_ns
        self._spells: list[_Spell] = []
        self._num_waiting = 0  # rows that they will be
        self._steps = StepTable()
        self._itl_ns = ValueCounts()
        self._ledger = LedgerIntegral()
        self._covered_ns = 0  # the rows of steps describe the time up to here
        self._committed_ns = 0  # when the last tokens were taken
        self._saved_slot_ns = 0
        self._idle: tuple[KVUsage, int, Queues] | None = None  # the state since then, between steps
        self._num_steps = 0
        self._dated_steps = array("q")  # steps in which something may have been evicted
        self._dated_ns = array("q")  # when each of them was scheduled
        self._evicted_for_ns = ValueCounts()
        others = beside.attribution if beside else None
        self.attribution: Attribution = Attribution(num_requests, num_outputs, others)

    def arrived(self, request_id: RequestId, now_ns: int) -> None:
        """A client has sent a request."""
        self._times["arrival_ns"][int(request_id)] = now_ns
        self.attribution.arrived(int(request_id))

    def arrival_ns(self, request_id: RequestId) -> int:
        """When a client sent a request."""
        return self._times["arrival_ns"][int(request_id)]

    def refused(self, request_id: RequestId, reason: str) -> None:
        """The engine has refused a request."""
        self._requests.first_refusal = self._requests.first_refusal or reason
        self.attribution.refused()
        self._requests.done_with(int(request_id), "refused")

    def scheduled(self, step: Step, now_ns: int) -> None:
        """The scheduler has admitted and preempted, whether or not there is anything to compute."""
        self._num_steps = step.index + 1
        self.attribution.decided(step.blocked_by, now_ns)
        if self._dates_evictions:
            self._dated_steps.append(step.index)
            self._dated_ns.append(now_ns)
        for seq, num_cached in step.admitted:
            index = int(seq.request.request_id)
            self.attribution.admitted(index * self._num_outputs + seq.index, now_ns)
            if self._times["admitted_ns"][index] == NEVER:
                self._times["admitted_ns"][index] = now_ns
                if seq.prefix_misses is not None:
                    self._looked_up(index, seq, num_cached, seq.prefix_misses)
            else:
                num_restored = min(num_cached, seq.num_lost_tokens)
                self._counts["restored_tokens"][index] += num_restored
                self._counts["recomputed_tokens"][index] += seq.num_lost_tokens - num_restored
        for seq in step.left:
            self._last_token_ns[self._place(seq)] = self._committed_ns
        for seq in step.preempted:
            self._counts["preemptions"][int(seq.request.request_id)] += 1
            self.attribution.preempted(self._place(seq), now_ns)
            if seq.is_beam and not seq.num_output_tokens:
                self._started_over(seq, now_ns)

    def _started_over(self, first: Sequence, now_ns: int) -> None:
        """What the beams of a request had written is thrown away."""
        index = int(first.request.request_id)
        if self._times["first_token_ns"][index] != NEVER:
            self.attribution.started_over(index, self._times["first_token_ns"][index], now_ns)
        self._times["first_token_ns"][index] = NEVER
        for beam in first.outputs:
            self._output_tokens[self._place(beam)] = 0
            self._last_token_ns[self._place(beam)] = NEVER

    def _looked_up(self, index: int, seq: Sequence, num_cached: int, misses: PrefixMisses) -> None:
        """What the prefix cache had for a request at its first admission, and why no more."""
        num_partial, num_unseen, evicted_at = misses
        self._counts["queried_tokens"][index] = seq.num_prompt_tokens
        self._counts["cached_tokens"][index] = num_cached
        self._counts["partial_tokens"][index] = num_partial
        self._counts["unseen_tokens"][index] = num_unseen
        self._counts["evicted_tokens"][index] = len(evicted_at) * self._block_size
        now_ns = self._dated_ns[-1]
        for step in evicted_at:
            place = bisect_left(self._dated_steps, step)
            self._evicted_for_ns.add(now_ns - self._dated_ns[place])

    def began(self, step: Step, start_ns: int) -> None:
        """A step begins to be computed. Nothing to note before it has been."""

    def ran(
        self,
        step: Step,
        start_ns: int,
        end_ns: int,
        usage: KVUsage,
        saved_slots: int,
        queues: Queues,
    ) -> None:
        """A step has been computed; `usage` is the ledger meanwhile, `queues` as it began."""
        num_decodes, num_running, num_waiting = step.num_decodes - step.num_padded, *queues
        num_prefill_tokens = step.num_tokens - step.num_decodes
        self.attribution.ran(step, start_ns, end_ns, num_prefill_tokens)
        num_preempted = len(step.preempted)
        counts = (1, num_decodes, num_prefill_tokens, num_running, num_waiting, num_preempted)
        spell = (start_ns, [end_ns - start_ns], _NO_BLOCKS, 0, *counts, saved_slots, usage)
        self._add_spell(spell, end_ns)

    def decoded(
        self,
        start_ns: int,
        durations_ns: list[int],
        num_seqs: int,
        begun: list[int],
        usage: KVUsage,
        saved_slots: int,
        queues: Queues,
    ) -> None:
        """The same num_seqs sequences have decoded in steps in a row, and nothing else was done.

        durations_ns, begun: of each step, how long it took and how many blocks were begun in it.
        usage, queues: the ledger before the first, and the queues as it began. saved_slots: nobody
            begins or ends to share meanwhile.
        """
        *starts_ns, end_ns = accumulate(durations_ns, initial=start_ns)
        self._committed_ns = end_ns
        if self._dates_evictions and usage.cached:
            for step, (count, now_ns) in enumerate(
                zip(begun, starts_ns, strict=True), start=self._num_steps
            ):
                if count:
                    self._dated_steps.append(step)
                    self._dated_ns.append(now_ns)
        self._num_steps += len(begun)
        self.attribution.decode_step_ns = durations_ns[-1]
        self._itl_ns.extend(durations_ns, num_seqs)
        counts = (1, num_seqs, 0, *queues, 0)
        spell = (start_ns, durations_ns, begun, num_seqs, *counts, saved_slots, usage)
        self._add_spell(spell, end_ns)

    def idles(self, usage: KVUsage, saved_slots: int, queues: Queues) -> None:
        """The engine has nothing to do from the last step on until the next."""
        if self._idle is None:
            self._idle = (usage, saved_slots, queues)

    def _add_spell(self, spell: _Spell, end_ns: int) -> None:
        self.idled_until(spell[0])
        self._idle = None
        self._spells.append(spell)
        self._covered_ns = end_ns
        self._num_waiting += len(spell[1])
        if self._num_waiting > _MOST_WAITING:
            self._flush()

    def idled_until(self, end_ns: int) -> None:
        """If it idles, it has done so until then: until the next step or the end of the run."""
        if self._idle and end_ns > self._covered_ns:
            usage, saved_slots, queues = self._idle
            counts = (0, 0, 0, *queues, 0, saved_slots)
            idle_ns = end_ns - self._covered_ns
            self._spells.append((self._covered_ns, [idle_ns], _NO_BLOCKS, 0, *counts, usage))
            self._covered_ns = end_ns

    @property
    def end_ns(self) -> int:
        """When the last step ended."""
        return self._covered_ns

    def _flush(self) -> None:
        """Make rows of the spells."""
        rows = _rows(self._spells, self._block_size)
        self._spells.clear()
        self._num_waiting = 0
        self._ledger.add(rows.usage, rows.duration_ns)
        self._saved_slot_ns += integral(rows.saved, rows.duration_ns)
        self._steps.extend(rows)

    def handed_out(self, outputs: list[TokenOutput], now_ns: int) -> None:
        """The tokens of a step are taken."""
        for request_id, _, _, finished, finish_reason, output in outputs:
            index = int(request_id)
            place = index * self._num_outputs + output
            self._got_token(index, place, now_ns)
            if finished:
                self._finished(index, place, now_ns, finish_reason)
        self._committed_ns = now_ns

    def progressed(self, progress: Progress, now_ns: int) -> None:
        """The same where most tokens are only counted."""
        for seq in progress.sampled:
            self._got_token(int(seq.request.request_id), self._place(seq), now_ns)
        if progress.num_decoded:
            self._itl_ns.add(now_ns - self._committed_ns, progress.num_decoded)
        self.ended(progress.ended, now_ns)
        self._committed_ns = now_ns

    def ended(self, seqs: list[Sequence], now_ns: int) -> None:
        """These have got their last tokens."""
        for seq in seqs:
            place = self._place(seq)
            self._output_tokens[place] = seq.num_output_tokens
            self._finished(int(seq.request.request_id), place, now_ns, seq.finish_reason)

    def _place(self, seq: Sequence) -> int:
        """Of an output among all of them."""
        return int(seq.request.request_id) * self._num_outputs + seq.index

    def _got_token(self, index: int, place: int, now_ns: int) -> None:
        before_ns = self._last_token_ns[place]
        if before_ns != NEVER:
            self._itl_ns.add(now_ns - before_ns)
        elif self._times["first_token_ns"][index] == NEVER:
            self._times["first_token_ns"][index] = now_ns
        self._last_token_ns[place] = now_ns
        self._output_tokens[place] += 1

    def _finished(self, index: int, place: int, now_ns: int, reason: str | None) -> None:
        """One of the outputs of a request has; the request has with its last."""
        assert reason is not None
        self.attribution.ended(place, now_ns)
        self._num_unfinished[index] -= 1
        if not self._num_unfinished[index]:
            self._times["finished_ns"][index] = now_ns
            self._requests.done_with(index, reason)

    def records(self, prompt_tokens: npt.NDArray[np.int64], notes: tuple[str, ...]) -> Records:
        """Everything recorded; prompt_tokens and notes are those of the workload.

        Nothing can be recorded afterwards: the columns are not copied, for they may be large.
        """
        if self._spells:
            self._flush()
        stamps = ("arrival_ns", "first_token_ns", "finished_ns")
        times = (np.frombuffer(self._requests.times[name], np.int64) for name in stamps)
        parts = self.attribution.columns(*times)
        return Records(
            requests=self._requests.frame(prompt_tokens, parts),
            steps=self._steps.frame().rename_axis("step"),
            itl_ns=self._itl_ns.totals(),
            evicted_for_ns=self._evicted_for_ns.totals(),
            slot_ns=self._ledger.slot_ns,
            saved_slot_ns=self._saved_slot_ns,
            notes=notes,
            num_outputs=self._num_outputs,
            first_refusal=self._requests.first_refusal,
        )


def _rows(spells: list[_Spell], block_size: int) -> StepRows:
    """The rows that spells stand for."""
    starts_ns, durations_ns, blocks, growths, *counts, usages = zip(*spells, strict=True)
    num_steps = np.array([len(durations) for durations in durations_ns])
    duration_ns = np.array(list(chain.from_iterable(durations_ns)), np.int64)
    begun = np.array(list(chain.from_iterable(blocks)), np.int64)
    first = np.cumsum(num_steps) - num_steps  # row of each spell's first step

    def per_step(values: Iterable[int]) -> Int64Array:
        return np.repeat(np.fromiter(values, np.int64, len(spells)), num_steps)

    def before(values: Int64Array) -> Int64Array:
        """Sum over the earlier steps of the same spell."""
        total = np.cumsum(values) - values
        earlier: Int64Array = np.repeat(total[first], num_steps)
        return total - earlier

    usage = UsageArrays(*(per_step(slots) for slots in zip(*usages, strict=True)))
    growth = per_step(growths)
    usage = decoded_on(usage, before(growth) + growth, (before(begun) + begun) * block_size)
    start_ns = per_step(starts_ns) + before(duration_ns)
    # The counts of a spell are those of StepRows in number and order, which mypy cannot know.
    rows = (start_ns, duration_ns, *(per_step(count) for count in counts), usage)
    return StepRows(*rows)  # type: ignore[arg-type]  # columns and usage, in its order
