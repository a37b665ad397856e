"""`Trace`, what every trace reader returns, and how one is made of the rows of a file."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from workloads.content import Segment
from workloads.workload import Int64Column, Workload, numbers_of_sessions


@dataclass(frozen=True, eq=False, kw_only=True)
class Segments:
    """What the prompts of n requests hold, as in `Workload`.

    offsets: [n + 1] request i has segments offsets[i] to offsets[i + 1] - 1. ids, tokens: [all
    segments] content id and length. block_tokens: the blocks in which the trace knows content.
    """

    offsets: Int64Column
    ids: Int64Column
    tokens: Int64Column
    block_tokens: int

    def of(self, request: int) -> list[Segment]:
        """The segments of a request."""
        places = slice(int(self.offsets[request]), int(self.offsets[request + 1]))
        return list(zip(self.ids[places].tolist(), self.tokens[places].tolist(), strict=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Requests of a trace, in order of arrival.

    arrival_ns: [n] from the first request; None where the trace does not say. Of a request that
        waits for an answer, when the first that it waits for comes.
    prompt_tokens, output_tokens: [n].
    segments: what prompts hold; None: the trace does not say, so they share nothing.
    previous, think_time_ns: [n] as in `Workload`, where requests are turns of sessions.
    answer_ids: [n] content id of each answer, where segments quote answers.
    priority: [n] lower goes first; None: nobody does.
    num_rows: rows of the file, those that were left out included.
    format: name of the format. notes: what was changed or skipped, a line each, for the user.
    """

    arrival_ns: Int64Column | None
    prompt_tokens: Int64Column
    output_tokens: Int64Column
    segments: Segments | None = None
    previous: Int64Column | None = None
    think_time_ns: Int64Column | None = None
    answer_ids: Int64Column | None = None
    priority: Int64Column | None = None
    num_rows: int
    format: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.prompt_tokens)


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Requests as they stand in a file, at least one.

    time_ns: [n] None where there are no times. lines: [n] of the file, or of what `counted` names.
    contents: [n] segments of each prompt; None where nobody knows. block_tokens: see Segments.
    previous: [n] row of the request that must have been answered before, -1 for none; of such a
        request the time is that of the first row of its session.
    think_time_ns: [n] how long after that answer.
    answer_ids: [n] content id of each answer, where contents quote answers.
    """

    time_ns: Int64Column | None
    prompt_tokens: Int64Column
    output_tokens: Int64Column
    lines: Sequence[int]
    contents: Sequence[Sequence[Segment]] | None = None
    block_tokens: int = 1
    previous: Int64Column | None = None
    think_time_ns: Int64Column | None = None
    answer_ids: Int64Column | None = None
    priority: Int64Column | None = None
    counted: str = "line"


def trace_from_rows(
    rows: Rows, *, format: str, num_rows: int | None = None, notes: tuple[str, ...] = ()
) -> Trace:
    """The trace of rows, of which some of `num_rows` may have been left out, as `notes` say.

    Rows out of time order are sorted, equal times keep the order of the file, and a note counts
    the rows that came earlier than the row before; turns that wait for an answer are not counted.
    Times count from the first request.
    """
    num_kept = len(rows.prompt_tokens)
    order, time_ns = np.arange(num_kept), rows.time_ns
    if time_ns is not None:
        order = np.argsort(time_ns, kind="stable")
        starts = np.arange(num_kept) if rows.previous is None else np.flatnonzero(rows.previous < 0)
        backward = np.flatnonzero(np.diff(time_ns[starts]) < 0)
        if len(backward):
            first_line = rows.lines[int(starts[backward[0] + 1])]
            steps = "1 backward step" if len(backward) == 1 else f"{len(backward)} backward steps"
            notes = (*notes, f"sorted by time: {steps}, the first at {rows.counted} {first_line}")
    return Trace(
        arrival_ns=None if time_ns is None else time_ns[order] - time_ns.min(),
        prompt_tokens=rows.prompt_tokens[order],
        output_tokens=rows.output_tokens[order],
        segments=_segments(rows, order),
        previous=_previous(rows, order),
        think_time_ns=None if rows.think_time_ns is None else rows.think_time_ns[order],
        answer_ids=None if rows.answer_ids is None else rows.answer_ids[order],
        priority=None if rows.priority is None else rows.priority[order],
        num_rows=num_kept if num_rows is None else num_rows,
        format=format,
        notes=notes,
    )


def _segments(rows: Rows, order: Int64Column) -> Segments | None:
    if rows.contents is None:
        return None
    contents = [rows.contents[row] for row in order.tolist()]
    flat = np.array([s for content in contents for s in content], dtype=np.int64).reshape(-1, 2)
    counts = [0, *(len(content) for content in contents)]
    return Segments(
        offsets=np.cumsum(counts, dtype=np.int64),
        ids=np.ascontiguousarray(flat[:, 0]),
        tokens=np.ascontiguousarray(flat[:, 1]),
        block_tokens=rows.block_tokens,
    )


def _previous(rows: Rows, order: Int64Column) -> Int64Column | None:
    if rows.previous is None:
        return None
    place_of = np.empty_like(order)
    place_of[order] = np.arange(len(order))
    previous = rows.previous[order]
    return np.where(previous < 0, -1, place_of[previous])


def trace_of_workload(workload: Workload, format: str) -> Trace:
    """A workload as a trace: times count from its first request, None for a closed loop.

    Of several outputs of a request only the first is known.
    """
    arrival_ns = workload.arrival_ns
    return Trace(
        arrival_ns=None if arrival_ns is None else arrival_ns - arrival_ns[0],
        prompt_tokens=workload.prompt_tokens,
        output_tokens=workload.output_tokens,
        segments=Segments(
            offsets=workload.segment_offsets,
            ids=workload.segment_ids,
            tokens=workload.segment_tokens,
            block_tokens=1,
        ),
        previous=workload.previous,
        think_time_ns=workload.think_time_ns,
        answer_ids=workload.answer_ids,
        priority=workload.priority,
        num_rows=len(workload),
        format=format,
        notes=workload.notes,
    )


def session_numbers(trace: Trace) -> Int64Column:
    """[n] the session of each request, counted from 0 as they begin; each is one without any."""
    return numbers_of_sessions(trace.previous, len(trace))


_COLUMNS = (
    "arrival_ns",
    "prompt_tokens",
    "output_tokens",
    "think_time_ns",
    "answer_ids",
    "priority",
)


def take(trace: Trace, places: Int64Column, notes: tuple[str, ...]) -> Trace:
    """Some requests of a trace, in order, of which none waits for one that is left out."""
    columns = {
        field.name: getattr(trace, field.name)[places]
        for field in fields(trace)
        if field.name in _COLUMNS and getattr(trace, field.name) is not None
    }
    place_of = np.full(len(trace), -1, dtype=np.int64)
    place_of[places] = np.arange(len(places))
    previous = trace.previous
    if previous is not None:
        before = previous[places]
        columns["previous"] = np.where(before < 0, -1, place_of[before])
    return Trace(
        **{"arrival_ns": None, **columns},
        segments=None if trace.segments is None else take_segments(trace.segments, places),
        num_rows=trace.num_rows,
        format=trace.format,
        notes=(*trace.notes, *notes),
    )


def take_segments(segments: Segments, places: Int64Column) -> Segments:
    """The segments of some requests, in this order."""
    counts = np.diff(segments.offsets)[places]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    starts = segments.offsets[:-1][places]
    kept = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
    return Segments(
        offsets=offsets,
        ids=segments.ids[kept],
        tokens=segments.tokens[kept],
        block_tokens=segments.block_tokens,
    )
