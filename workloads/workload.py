"""`Workload`: all requests of a run, as columns."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from workloads.arrivals import ClosedLoop
from workloads.beams import BeamModel
from workloads.content import AnswerTokens, SegmentPrompt
from workloads.errors import WorkloadError

Int64Column = npt.NDArray[np.int64]


def int64_column(values: Iterable[int]) -> Int64Column:
    """[n] of so many numbers."""
    return np.array(list(values), dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """n requests in order of arrival; objects of one request are made when asked for.

    arrival_ns: [n] from the start of the run, never falling; None for a closed loop. Of a request
        that waits for an answer, when the first that it waits for comes.
    closed_loop: who sends the requests, in order, when arrival_ns is None.
    prompt_tokens: [n] length of the prompt.
    priority: [n] lower goes first, under a policy that looks at it; None: all are 0.
    class_numbers: [n] to which of class_names a request belongs; None: there are no classes.
    num_outputs: outputs of each request, all of one length.
    beams: how they share ancestors, if a beam search finds them; None: they are parallel samples.
    output_tokens: [n] true length of each of them, which no scheduler may read.
    max_new_tokens: [n] the output limit that the request states.
    segment_offsets: [n + 1] request i has segments segment_offsets[i] to [i + 1] - 1.
    segment_ids, segment_tokens: [all segments] content id and length of each.
    answer_ids: [n] content id of the first output; those that follow belong to the others.
    previous: [n] the earlier request, of the same session, that must have been answered before it
        is sent; -1 for none. No two wait for the same. None: nobody waits.
    think_time_ns: [n] how long after that answer it is sent.
    notes: what was changed or skipped while it was made, a line each, to be shown to the user.

    Raises WorkloadError for columns that do not agree.
    """

    arrival_ns: Int64Column | None
    closed_loop: ClosedLoop | None
    prompt_tokens: Int64Column
    output_tokens: Int64Column
    max_new_tokens: Int64Column
    segment_offsets: Int64Column
    segment_ids: Int64Column
    segment_tokens: Int64Column
    answer_ids: Int64Column
    previous: Int64Column | None = None
    think_time_ns: Int64Column | None = None
    priority: Int64Column | None = None
    class_numbers: Int64Column | None = None
    class_names: tuple[str, ...] = ()
    num_outputs: int = 1
    beams: BeamModel | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        num_requests, num_segments = len(self.prompt_tokens), len(self.segment_ids)
        self._check_column("prompt_tokens", num_requests, lowest=1)
        self._check_column("output_tokens", num_requests, lowest=1)
        self._check_column("max_new_tokens", num_requests, lowest=1)
        self._check_column("answer_ids", num_requests, lowest=0)
        self._check_column("segment_offsets", num_requests + 1, lowest=0)
        self._check_column("segment_ids", num_segments, lowest=0)
        self._check_column("segment_tokens", num_segments, lowest=1)
        self._check_arrivals(num_requests)
        self._check_segments(num_segments)
        self._check_sessions(num_requests)
        for name in ("priority", "class_numbers"):
            if getattr(self, name) is not None:
                self._check_column(name, num_requests, lowest=-(2**31))

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @cached_property
    def following(self) -> dict[int, tuple[int, int]]:
        """Request -> the one that follows its answer, and how many ns later."""
        if self.previous is None or self.think_time_ns is None:
            return {}
        numbers = np.flatnonzero(self.previous >= 0)
        later = zip(numbers.tolist(), self.think_time_ns[numbers].tolist(), strict=True)
        return dict(zip(self.previous[numbers].tolist(), later, strict=True))

    @property
    def first_of_sessions(self) -> Int64Column:
        """The requests that wait for no answer."""
        if self.previous is None:
            return np.arange(len(self), dtype=np.int64)
        return np.flatnonzero(self.previous < 0)

    @property
    def session_numbers(self) -> Int64Column:
        """[n] the session of each request, from 0 in the order in which they begin."""
        return numbers_of_sessions(self.previous, len(self))

    @property
    def turn_numbers(self) -> Int64Column:
        """[n] which request of its session each is, from 1."""
        turns: list[int] = []
        for before in [] if self.previous is None else self.previous.tolist():
            turns.append(1 if before < 0 else turns[before] + 1)
        return int64_column(turns) if turns else np.ones(len(self), dtype=np.int64)

    def prompt(self, i: int) -> "WorkloadPrompt":
        """The prompt of request i, from 0 to len - 1."""
        return WorkloadPrompt(self, i)

    def segments(self, i: int, output: int = 0) -> SegmentPrompt:
        """The segments that make up the prompt of request i, followed by one of its answers."""
        offsets, ids, tokens, answer_ids = self._views
        first, stop = offsets[i], offsets[i + 1]
        segments = list(zip(ids[first:stop].tolist(), tokens[first:stop].tolist(), strict=True))
        return SegmentPrompt(segments, answer_ids[i] + output)

    @cached_property
    def _views(self) -> tuple["memoryview[int]", ...]:
        # Single numbers come out of a memoryview several times faster than out of an array.
        columns = (self.segment_offsets, self.segment_ids, self.segment_tokens, self.answer_ids)
        return tuple(np.ascontiguousarray(column).data.cast("B").cast("q") for column in columns)

    def answer(self, i: int, output: int = 0) -> AnswerTokens:
        """A true output of request i, from 0 to len - 1."""
        return AnswerTokens(int(self.answer_ids[i]) + output, int(self.output_tokens[i]))

    def _check_column(self, name: str, length: int, lowest: int) -> None:
        column: Int64Column = getattr(self, name)
        if column.shape != (length,) or column.dtype != np.int64:
            raise WorkloadError(
                f"{name}: got {column.dtype} of shape {column.shape}, expected int64 of ({length},)"
            )
        if length and column.min() < lowest:
            raise WorkloadError(f"{name}: got {column.min()}, expected every value >= {lowest}")

    def _check_arrivals(self, num_requests: int) -> None:
        if (self.arrival_ns is None) == (self.closed_loop is None):
            raise WorkloadError("arrival_ns, closed_loop: expected one of the two")
        if self.arrival_ns is not None:
            self._check_column("arrival_ns", num_requests, lowest=0)
            if (np.diff(self.arrival_ns) < 0).any():
                raise WorkloadError("arrival_ns: expected times that never fall")

    def _check_sessions(self, num_requests: int) -> None:
        if (self.previous is None) != (self.think_time_ns is None):
            raise WorkloadError("previous, think_time_ns: expected both or none")
        if self.previous is None:
            return
        self._check_column("previous", num_requests, lowest=-1)
        self._check_column("think_time_ns", num_requests, lowest=0)
        waited_for = self.previous[self.previous >= 0]
        if (self.previous >= np.arange(num_requests)).any():
            raise WorkloadError("previous: expected earlier requests")
        if len(np.unique(waited_for)) < len(waited_for):
            raise WorkloadError("previous: expected that no two wait for the same request")

    def _check_segments(self, num_segments: int) -> None:
        offsets = self.segment_offsets
        if offsets[0] != 0 or offsets[-1] != num_segments or (np.diff(offsets) < 1).any():
            raise WorkloadError(
                f"segment_offsets: expected to rise from 0 to {num_segments}, the end of segments"
            )
        tokens_before = np.concatenate(([0], np.cumsum(self.segment_tokens)))
        if not np.array_equal(np.diff(tokens_before[offsets]), self.prompt_tokens):
            raise WorkloadError("prompt_tokens: expected the sum of each request's segment_tokens")


def numbers_of_sessions(previous: Int64Column | None, num_requests: int) -> Int64Column:
    """[n] the session of each request, from 0 as they begin; previous: see Workload."""
    if previous is None:
        return np.arange(num_requests, dtype=np.int64)
    numbers: list[int] = []
    num_sessions = 0
    for before in previous.tolist():
        numbers.append(num_sessions if before < 0 else numbers[before])
        num_sessions += before < 0
    return int64_column(numbers)


class WorkloadPrompt:
    """The prompt of one request of a workload. What it holds is looked up when it is asked for."""

    __slots__ = ("_num_tokens", "_number", "_output", "_segments", "_workload")

    def __init__(self, workload: Workload, number: int, output: int = 0) -> None:
        self._workload = workload
        self._number = number
        self._output = output
        self._num_tokens = int(workload.prompt_tokens[number])
        self._segments: SegmentPrompt | None = None

    def __len__(self) -> int:
        return self._num_tokens

    def _content(self) -> SegmentPrompt:
        if self._segments is None:
            self._segments = self._workload.segments(self._number, self._output)
        return self._segments

    def for_output(self, index: int) -> "WorkloadPrompt":
        """The same prompt followed by another of its answers."""
        return WorkloadPrompt(self._workload, self._number, index)

    def token_ids(self, start: int, stop: int) -> list[int]:
        """See SegmentPrompt."""
        return self._content().token_ids(start, stop)

    def block_runs(
        self, block_size: int, first: int, stop: int, output_token_ids: list[int]
    ) -> list[tuple[Hashable, int, int]]:
        """See SegmentPrompt."""
        return self._content().block_runs(block_size, first, stop, output_token_ids)
