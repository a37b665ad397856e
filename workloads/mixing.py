"""Several workloads made one: by shares of common arrivals, or each at its own times."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.arrivals import Arrivals, ClosedLoop
from workloads.checks import require_count
from workloads.content import MOST_CONTENT_IDS
from workloads.errors import WorkloadError
from workloads.streams import stream
from workloads.trace import Segments, take_segments
from workloads.workload import Int64Column, Workload


@dataclass(frozen=True, eq=False)
class Part:
    """A workload of one output a request, and the priority of all its requests; None: their own."""

    workload: Workload
    priority: int | None = None


def overlaid(parts: dict[str, Part], limit: int | None = None) -> Workload:
    """All requests at the times they have, or the first `limit`; class: the name of their part.

    Raises WorkloadError for a part in a closed loop, which has no times.
    """
    for name, part in parts.items():
        if part.workload.arrival_ns is None:
            raise WorkloadError(
                f"{name}: got requests without times, expected arrivals, of it or of the mix"
            )
    arrival_ns = np.concatenate(
        [
            part.workload.arrival_ns
            for part in parts.values()
            if part.workload.arrival_ns is not None
        ]
    )
    places = np.argsort(arrival_ns, kind="stable")
    notes: tuple[str, ...] = ()
    if limit is not None:
        require_count("limit", limit)
        if limit > len(places):
            notes = (f"{limit} requests asked for, the mix gives {len(places)}",)
        places = places[:limit]
    return _taken(parts, places, arrival_ns[places], None, notes)


def mixed(
    parts: dict[str, Part],
    shares: dict[str, float],
    *,
    num_requests: int,
    arrivals: Arrivals | ClosedLoop,
    seed: int,
) -> Workload:
    """So many requests, each session the next one of a part that is drawn by the shares.

    arrivals: when sessions start, whatever times the parts have. The last session is cut where
    the number of requests is reached.

    Raises WorkloadError where a part has too few sessions.
    """
    require_count("num_requests", num_requests)
    weights = np.array([shares[name] for name in parts])
    ends = np.cumsum(weights) / weights.sum()
    draws = stream(seed, "mix").random(num_requests)
    drawn = np.searchsorted(ends[:-1], draws, side="right")  # [sessions] more than are needed
    first_rows, sizes = _sessions_in_turn(parts, drawn)
    stops = np.cumsum(sizes)
    num_sessions = int(np.searchsorted(stops, num_requests)) + 1
    is_missing = sizes[:num_sessions] == 0
    if is_missing.any():
        raise _too_few(parts, drawn[:num_sessions], is_missing, num_requests)
    session = np.repeat(np.arange(num_sessions), sizes[:num_sessions])[:num_requests]
    turn = np.arange(num_requests) - (stops - sizes)[session]
    places = _by_session(parts)[first_rows[session] + turn]
    arrival_ns = None
    if not isinstance(arrivals, ClosedLoop):
        arrival_ns = arrivals.times_ns(num_sessions, stream(seed, "arrivals"))[session]
    closed_loop = arrivals if isinstance(arrivals, ClosedLoop) else None
    return _taken(parts, places, arrival_ns, closed_loop, ())


def _sessions_in_turn(
    parts: dict[str, Part], drawn: Int64Column
) -> tuple[Int64Column, Int64Column]:
    """[sessions] first place in `_by_session`, and requests, of each; 0 where its part has ended.

    drawn: [sessions] number of the part.
    """
    first_rows, sizes = np.zeros_like(drawn), np.zeros_like(drawn)
    start = 0
    for number, part in enumerate(parts.values()):
        counts = np.bincount(part.workload.session_numbers)
        wanted = np.flatnonzero(drawn == number)[: len(counts)]
        sizes[wanted] = counts[: len(wanted)]
        first_rows[wanted] = start + (np.cumsum(counts) - counts)[: len(wanted)]
        start += len(part.workload)
    return first_rows, sizes


def _by_session(parts: dict[str, Part]) -> Int64Column:
    """The requests of all parts, one after the other, each session by session."""
    order, start = [], 0
    for part in parts.values():
        order.append(start + np.argsort(part.workload.session_numbers, kind="stable"))
        start += len(part.workload)
    return np.concatenate(order)


def _too_few(
    parts: dict[str, Part], drawn: Int64Column, is_missing: npt.NDArray[np.bool_], num_requests: int
) -> WorkloadError:
    name = list(parts)[int(drawn[np.flatnonzero(is_missing)[0]])]
    num_there = int(parts[name].workload.session_numbers.max()) + 1
    what = "single requests" if parts[name].workload.previous is None else "sessions"
    return WorkloadError(
        f"{name}: got {num_there} {what}, expected more for its share of {num_requests} requests "
        "(a trace can be repeated with new content: `shape: {repeat: N}`)"
    )


def _taken(
    parts: dict[str, Part],
    places: Int64Column,
    arrival_ns: Int64Column | None,
    closed_loop: ClosedLoop | None,
    notes: tuple[str, ...],
) -> Workload:
    """The requests at these places of all parts one after the other, in that order."""
    place_of = np.full(sum(len(part.workload) for part in parts.values()), -1, dtype=np.int64)
    place_of[places] = np.arange(len(places))
    first_ids = _first_ids(parts)
    all_columns = _columns(parts, first_ids)
    columns: dict[str, Any] = {name: column[places] for name, column in all_columns.items()}
    before = columns["previous"]
    columns["previous"] = np.where(before < 0, -1, place_of[before])
    segments = take_segments(_segments(parts, first_ids), places)
    of_parts = (f"{name}: {note}" for name, part in parts.items() for note in part.workload.notes)
    return Workload(
        **columns,
        arrival_ns=arrival_ns,
        closed_loop=closed_loop,
        segment_offsets=segments.offsets,
        segment_ids=segments.ids,
        segment_tokens=segments.tokens,
        class_names=tuple(parts),
        notes=(*of_parts, *notes),
    )


def _columns(parts: dict[str, Part], first_ids: list[int]) -> dict[str, Int64Column]:
    """What parts have of each request, one after the other; content ids and places are moved on."""
    columns: dict[str, list[Int64Column]] = {}
    start = 0
    for number, (part, first_id) in enumerate(zip(parts.values(), first_ids, strict=True)):
        workload, num = part.workload, len(part.workload)
        nothing = np.zeros(num, dtype=np.int64)
        previous = np.full(num, -1) if workload.previous is None else workload.previous
        think_ns = nothing if workload.think_time_ns is None else workload.think_time_ns
        priority = nothing if workload.priority is None else workload.priority
        for name, column in {
            "prompt_tokens": workload.prompt_tokens,
            "output_tokens": workload.output_tokens,
            "max_new_tokens": workload.max_new_tokens,
            "answer_ids": workload.answer_ids + first_id,
            "previous": np.where(previous < 0, -1, previous + start),
            "think_time_ns": think_ns,
            "priority": priority if part.priority is None else nothing + part.priority,
            "class_numbers": nothing + number,
        }.items():
            columns.setdefault(name, []).append(column)
        start += num
    return {name: np.concatenate(of_parts) for name, of_parts in columns.items()}


def _first_ids(parts: dict[str, Part]) -> list[int]:
    """From where on the content ids of each part are counted, so that none shares another's."""
    first_ids, next_id = [], 0
    for part in parts.values():
        first_ids.append(next_id)
        next_id += 1 + max(
            int(part.workload.segment_ids.max()), int(part.workload.answer_ids.max())
        )
    if next_id >= MOST_CONTENT_IDS:
        raise WorkloadError(f"got content ids up to {next_id} in all parts, expected smaller ones")
    return first_ids


def _segments(parts: dict[str, Part], first_ids: list[int]) -> Segments:
    offsets, num_segments = [np.zeros(1, dtype=np.int64)], 0
    for part in parts.values():
        offsets.append(num_segments + part.workload.segment_offsets[1:])
        num_segments += len(part.workload.segment_ids)
    workloads = [part.workload for part in parts.values()]
    return Segments(
        offsets=np.concatenate(offsets),
        ids=np.concatenate(
            [one.segment_ids + first for one, first in zip(workloads, first_ids, strict=True)]
        ),
        tokens=np.concatenate([one.segment_tokens for one in workloads]),
        block_tokens=1,
    )
