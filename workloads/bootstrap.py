"""Other traces like one there is: stretches of its time, drawn with replacement."""

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from workloads.checks import problem
from workloads.errors import WorkloadError
from workloads.streams import stream
from workloads.trace import Segments, Trace, take
from workloads.workload import Int64Column

MOST_STRETCHES = 10_000


def bootstrapped(trace: Trace, stretch_s: float, seed: int) -> Trace:
    """As many stretches as the trace has, each one of its own drawn at random (Künsch, Ann.
    Statist. 17, 1989, for stretches that do not overlap).

    What happens within a stretch stays together; sessions belong to that in which they begin.
    What is drawn a second time has new content.

    Raises WorkloadError for a trace without times, and for more than MOST_STRETCHES.
    """
    if trace.arrival_ns is None:
        raise WorkloadError(f"bootstrap_s: the trace ({trace.format}) has no times, expected none")
    stretch_ns = round(stretch_s * 1e9)
    num = int(trace.arrival_ns[-1]) // stretch_ns + 1
    if num > MOST_STRETCHES:
        expected = f"stretches of which there are at most {MOST_STRETCHES}, got {num}"
        raise WorkloadError(problem("bootstrap_s", stretch_s, expected))
    stretch_of = trace.arrival_ns // stretch_ns  # of a later turn that of its session
    order = np.argsort(stretch_of, kind="stable")
    starts = np.searchsorted(stretch_of[order], np.arange(num + 1))
    drawn = stream(seed, "bootstrap").integers(num, size=num).tolist()
    uses = [count() for _ in range(num)]
    pieces: list[Trace] = []
    for place, source in enumerate(drawn):
        rows = order[starts[source] : starts[source + 1]]
        if len(rows):
            shift_ns = (place - source) * stretch_ns
            pieces.append(_piece(trace, np.sort(rows), shift_ns, next(uses[source])))
    if not pieces:
        raise WorkloadError(
            problem("bootstrap_s", stretch_s, "longer stretches, for all are empty")
        )
    note = f"{num} stretches of {stretch_s:g} s drawn from it with replacement"
    return _joined(trace, pieces, note)


def _piece(trace: Trace, rows: Int64Column, shift_ns: int, use: int) -> Trace:
    """Some rows, moved in time, with content of their own from the second use on."""
    piece = take(trace, rows, ())
    assert piece.arrival_ns is not None
    shift = use * num_contents(trace)
    segments = piece.segments
    return replace(
        piece,
        arrival_ns=piece.arrival_ns + shift_ns,
        segments=None if segments is None else replace(segments, ids=segments.ids + shift),
        answer_ids=None if piece.answer_ids is None else piece.answer_ids + shift,
    )


def num_contents(trace: Trace) -> int:
    """Content ids below which all of a trace are."""
    columns = [trace.answer_ids, trace.segments.ids if trace.segments else None]
    return max((int(ids.max()) + 1 for ids in columns if ids is not None), default=0)


def _joined(trace: Trace, pieces: list[Trace], note: str) -> Trace:
    """Pieces one after the other in time. Times count from where the trace begins."""
    firsts = np.cumsum([0, *(len(piece) for piece in pieces)]).tolist()
    columns: dict[str, Any] = {}
    for name in ("arrival_ns", "prompt_tokens", "output_tokens", "think_time_ns", "answer_ids"):
        if getattr(trace, name) is not None:
            columns[name] = np.concatenate([getattr(piece, name) for piece in pieces])
    if trace.priority is not None:
        columns["priority"] = np.concatenate([piece.priority for piece in pieces])
    if trace.previous is not None:
        columns["previous"] = np.concatenate(
            [
                np.where(piece.previous < 0, -1, piece.previous + first)
                for piece, first in zip(pieces, firsts, strict=False)
                if piece.previous is not None
            ]
        )
    return replace(
        trace,
        **columns,
        segments=_joined_segments([piece.segments for piece in pieces if piece.segments]),
        notes=(*trace.notes, note),
    )


def _joined_segments(parts: list[Segments]) -> Segments | None:
    if not parts:
        return None
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    return Segments(
        offsets=np.concatenate(([0], np.cumsum(counts))),
        ids=np.concatenate([part.ids for part in parts]),
        tokens=np.concatenate([part.tokens for part in parts]),
        block_tokens=parts[0].block_tokens,
    )
