"""Where the time of each request goes: parts of its TTFT, and of the time from then to its end.

The parts of a request add up to these times, to the nanosecond. `sim.definitions` defines them.
"""

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.step import Blocked, Chunk, Step

# Those of `Blocked` first, in its order.
_WAITS = tuple(f"ttft_{reason.name.lower()}_ns" for reason in Blocked)
_IN_STEPS = ("ttft_prefill_ns", "ttft_other_prefills_ns", "ttft_decodes_ns")
_EARLY_PARTS = (*_WAITS, *_IN_STEPS, "ttft_preempted_ns", "ttft_recompute_ns")
TTFT_PARTS = ("ttft_step_ns", *_EARLY_PARTS)  # the first: all time but the others
UNTIL_ADMITTED = ("ttft_step_ns", *_WAITS)  # of which the first and the budget may go on later
_LATE_PARTS = ("decode_stalls_ns", "decode_preempted_ns", "decode_recompute_ns")
DECODE_PARTS = ("decode_steps_ns", *_LATE_PARTS)  # here too

# What an output is at, up to its first token and after it.
_NEW, _COMPUTING, _PREEMPTED = 0, 1, 2  # new: none of its prompt is computed (again) yet
_DECODING, _PREEMPTED_LATE, _RESUMED = 3, 4, 5  # resumed: and has got no token since

Columns = dict[str, pd.arrays.IntegerArray]


class Attribution:
    """Columns of parts for num_requests requests of num_outputs outputs each.

    An output has a place: that of request r with index i is at r * num_outputs + i. What it is at
    changes at few instants; only at these is the time since the last of them, its mark, given to a
    part. What happens meanwhile in steps is in sums over all steps, of which an output takes the
    differences; while it decodes its mark is such a sum. Methods are called for each request or
    step, so the common cases come first.

    beside: of another engine that serves others of the same requests; they share the columns.

    decode_step_ns: duration of the last step of decodes alone.
    """

    def __init__(
        self, num_requests: int, num_outputs: int, beside: "Attribution | None" = None
    ) -> None:
        num_places = num_requests * num_outputs
        names = (*_EARLY_PARTS, *_LATE_PARTS)
        self._num_outputs = num_outputs
        self._parts: dict[str, array[int]]
        self._states: array[int]
        self._marks_ns: array[int]
        self._parts = beside._parts if beside else {n: array("q", [0]) * num_places for n in names}
        self._states = beside._states if beside else array("b", [_NEW]) * num_places
        self._marks_ns = beside._marks_ns if beside else array("q", [0]) * num_places
        self._newcomers: list[int] = []  # places of those that the scheduler has not seen
        self._waits_at: dict[int, tuple[int, ...]] = {}  # place -> the sums when it was seen
        self._waits_ns = (0,) * len(Blocked)  # time that admission was blocked, by the reason
        self._blocked_by: Blocked | None = None
        self._summed_ns = 0  # up to when
        self._stalled_ns = 0  # of all steps, what those with prompt tokens took beyond decodes
        self.decode_step_ns = 0
        # Request of several outputs -> when the last one ended, and its place.
        self._last_ended: dict[int, tuple[int, int]] = beside._last_ended if beside else {}
        self._prefill_part = self._parts["ttft_prefill_ns"]
        self._stall_part = self._parts["decode_stalls_ns"]

    def arrived(self, request: int) -> None:
        """A client has sent a request."""
        self._newcomers.append(request * self._num_outputs)

    def refused(self) -> None:
        """The engine has refused the request that came last."""
        self._newcomers.pop()

    def decided(self, blocked_by: Blocked | None, now_ns: int) -> None:
        """The scheduler has decided; those who wait do so for this reason until the next time.

        While nobody waits it need not be told, for then nobody takes a difference.
        """
        if blocked_by is self._blocked_by and not self._newcomers:
            return
        self._sum_waits(now_ns)
        self._blocked_by = blocked_by
        if blocked_by is not None:  # else they are admitted at once
            for place in self._newcomers:
                self._waits_at[place] = self._waits_ns
        self._newcomers.clear()

    def _sum_waits(self, now_ns: int) -> None:
        """Bring the sums of blocked time up to date."""
        if self._blocked_by is not None and now_ns > self._summed_ns:
            waits_ns = list(self._waits_ns)
            waits_ns[self._blocked_by] += now_ns - self._summed_ns
            self._waits_ns = tuple(waits_ns)
        self._summed_ns = now_ns

    def admitted(self, place: int, now_ns: int) -> None:
        """A sequence runs, or runs again, from the step on that was just decided."""
        state = self._states[place]
        if state != _NEW:
            self._pass_preempted(place, now_ns)
            self._states[place] = _NEW if state == _PREEMPTED else _RESUMED
            self._marks_ns[place] = now_ns
        elif place in self._waits_at:
            self._sum_waits(now_ns)
            before = self._waits_at.pop(place)
            for name, start, end in zip(_WAITS, before, self._waits_ns, strict=True):
                self._parts[name][place] = end - start

    def preempted(self, place: int, now_ns: int) -> None:
        """A sequence runs no longer from the step on that was just decided."""
        state = self._states[place]
        if state == _DECODING:
            self._stall_part[place] += self._stalled_ns - self._marks_ns[place]
        elif state != _NEW:
            part = "decode_recompute_ns" if state == _RESUMED else "ttft_budget_ns"
            self._parts[part][place] += now_ns - self._marks_ns[place]
        self._states[place] = _PREEMPTED_LATE if state in (_DECODING, _RESUMED) else _PREEMPTED
        self._marks_ns[place] = now_ns

    def started_over(self, request: int, first_token_ns: int, now_ns: int) -> None:
        """The outputs of a request, just preempted, have lost what they wrote since a first token.

        They, which do everything together, are at the beginning again.
        """
        first = request * self._num_outputs
        parts = self._parts
        parts["ttft_preempted_ns"][first] += parts["decode_preempted_ns"][first]
        parts["ttft_recompute_ns"][first] += (
            now_ns - first_token_ns - parts["decode_preempted_ns"][first]
        )
        for place in range(first, first + self._num_outputs):
            for name in _LATE_PARTS:
                parts[name][place] = 0
            self._states[place] = _NEW
        self._states[first] = _PREEMPTED

    def ran(self, step: Step, start_ns: int, end_ns: int, num_prefill_tokens: int) -> None:
        """A step has been computed."""
        duration_ns = end_ns - start_ns
        if num_prefill_tokens:
            decodes_ns = min(duration_ns, self.decode_step_ns) if step.num_decodes else 0
            self._stalled_ns += duration_ns - decodes_ns
        else:
            decodes_ns = self.decode_step_ns = duration_ns
        states = self._states
        for chunk in step.chunks:
            seq = chunk[0]
            place = int(seq.request.request_id) * self._num_outputs + seq.index
            state = states[place]
            if state == _DECODING:
                continue
            if state <= _COMPUTING:
                if state == _COMPUTING:
                    self._parts["ttft_budget_ns"][place] += start_ns - self._marks_ns[place]
                if seq.index == 0:  # the others fork from it
                    self._share_out(place, chunk, duration_ns, decodes_ns, num_prefill_tokens)
            elif state == _RESUMED:
                self._resume(place, chunk, start_ns, end_ns, decodes_ns)
            else:
                self._got_late(place, chunk, end_ns)
                continue
            if chunk.samples:
                states[place] = _DECODING
                self._marks_ns[place] = self._stalled_ns
            else:
                self._marks_ns[place] = end_ns
                if state == _NEW:
                    states[place] = _COMPUTING

    def _share_out(
        self, place: int, chunk: Chunk, step_ns: int, decodes_ns: int, num_prefill_tokens: int
    ) -> None:
        """A step that has computed a chunk of a prompt, before the first token.

        decodes_ns: what the decodes of the step take by themselves.
        """
        seq, start, num_tokens, _ = chunk
        if start < seq.num_lost_tokens:
            self._parts["ttft_recompute_ns"][place] += step_ns
            return
        own_ns = prefills_ns = step_ns - decodes_ns
        if num_tokens == 1 and chunk.is_decode:  # the prompt was given
            own_ns, decodes_ns, prefills_ns = decodes_ns, 0, step_ns
        elif num_tokens != num_prefill_tokens:
            own_ns = prefills_ns * num_tokens // num_prefill_tokens
        self._prefill_part[place] += own_ns
        if prefills_ns != own_ns:
            self._parts["ttft_other_prefills_ns"][place] += prefills_ns - own_ns
        if decodes_ns:
            self._parts["ttft_decodes_ns"][place] += decodes_ns

    def _resume(
        self, place: int, chunk: Chunk, start_ns: int, end_ns: int, decodes_ns: int
    ) -> None:
        """A step on the way from being admitted again to the next token."""
        mark_ns = self._marks_ns[place]
        if chunk.num_tokens > 1 or not chunk.is_decode:
            self._parts["decode_recompute_ns"][place] += end_ns - mark_ns
        else:
            self._parts["decode_preempted_ns"][place] += start_ns - mark_ns
            self._stall_part[place] += end_ns - start_ns - decodes_ns

    def _got_late(self, place: int, chunk: Chunk, end_ns: int) -> None:
        """A step has computed a chunk of a sequence that was preempted meanwhile."""
        if self._states[place] == _PREEMPTED and chunk.samples:  # its first token, nevertheless
            self._pass_preempted(place, end_ns)
            self._states[place] = _PREEMPTED_LATE
            self._marks_ns[place] = end_ns

    def _pass_preempted(self, place: int, now_ns: int) -> None:
        is_early = self._states[place] == _PREEMPTED
        part = "ttft_preempted_ns" if is_early else "decode_preempted_ns"
        self._parts[part][place] += now_ns - self._marks_ns[place]

    def ended(self, place: int, now_ns: int) -> None:
        """An output has its last token."""
        if self._states[place] == _DECODING:
            self._stall_part[place] += self._stalled_ns - self._marks_ns[place]
        else:  # preempted after the step that yields it was scheduled
            self._pass_preempted(place, now_ns)
        if self._num_outputs > 1:
            request = place // self._num_outputs
            if request not in self._last_ended or self._last_ended[request][0] < now_ns:
                self._last_ended[request] = (now_ns, place)

    def columns(
        self,
        arrival_ns: npt.NDArray[np.int64],
        first_token_ns: npt.NDArray[np.int64],
        finished_ns: npt.NDArray[np.int64],
    ) -> Columns:
        """All parts of each request, NA where its first token, or its end, never came (< 0).

        Of several outputs those of the first up to the first token, which comes to all at once;
        afterwards those of the last to end, and of the first of these.
        """
        first = slice(None, None, self._num_outputs)  # a view, for columns may be large
        last: slice | npt.NDArray[np.int64] = first
        if self._last_ended:
            last = np.arange(0, len(self._states), self._num_outputs)
            for request, (_, place) in self._last_ended.items():
                last[request] = place
        early = {name: self._column(name, first) for name in _EARLY_PARTS}
        late = {name: self._column(name, last) for name in _LATE_PARTS}
        step_ns = first_token_ns - arrival_ns - sum(early.values())
        decode_steps_ns = finished_ns - first_token_ns - sum(late.values())
        return {
            **_with_gaps({"ttft_step_ns": step_ns, **early}, first_token_ns < 0),
            **_with_gaps({"decode_steps_ns": decode_steps_ns, **late}, finished_ns < 0),
        }

    def _column(self, name: str, places: slice | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        column: npt.NDArray[np.int64] = np.frombuffer(self._parts[name], np.int64)[places]
        return column


def waits_ns(requests: Any) -> dict[str, Any]:
    """The time up to admission, in the order of UNTIL_ADMITTED; what is beyond it is left out.

    requests: a row of `requests.csv`, or its table; the parts are numbers or columns accordingly.
    """
    left_ns = requests["admitted_ns"] - requests["arrival_ns"]
    waits = {}
    for name in UNTIL_ADMITTED:
        waits[name] = np.minimum(requests[name], left_ns)
        left_ns = left_ns - waits[name]
    return waits


def _with_gaps(
    columns: dict[str, npt.NDArray[np.int64]], is_missing: npt.NDArray[np.bool_]
) -> Columns:
    return {name: pd.arrays.IntegerArray(values, is_missing) for name, values in columns.items()}
