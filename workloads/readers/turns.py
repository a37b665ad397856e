"""Sessions of a file whose rows name their session."""

from collections.abc import Sequence

import numpy as np

from workloads.checks import problem
from workloads.files import bad_file
from workloads.source import Source
from workloads.workload import Int64Column, numbers_of_sessions


def in_turn(
    source: Source, lines: Sequence[int], session: Sequence[int], turn: Sequence[int] | None
) -> tuple[Int64Column, Int64Column]:
    """places: [n] row at each place, so that turns come in order; previous: [n] as in `Rows`.

    lines, session, turn: [n] of each row; session -1 is none, and turn None the order of rows. The
    turns of a session stand at the places of its rows.

    Raises WorkloadError for turns of a session that are not 1, 2, ... (line, turn, and the one that
    is missing).
    """
    places_of: dict[int, list[int]] = {}
    for row, number in enumerate(session):
        if number >= 0:
            places_of.setdefault(number, []).append(row)
    rows = np.arange(len(session), dtype=np.int64)
    previous = np.full(len(session), -1, dtype=np.int64)
    problems = []
    for places in places_of.values():
        ordered = places if turn is None else sorted(places, key=turn.__getitem__)
        rows[places] = ordered
        previous[places[1:]] = places[:-1]
        for expected, row in enumerate(ordered if turn else [], start=1):
            if turn and turn[row] != expected:
                where = f"{source.counted} {lines[row]}, turn of its session"
                problems.append(problem(where, turn[row], str(expected)))
                break
    if problems:
        raise bad_file(source.name, problems)
    return rows, previous


def first_of_session(previous: Int64Column) -> Int64Column:
    """[n] place of the first turn of each one's session; of a request that waits, earlier."""
    return np.flatnonzero(previous < 0)[numbers_of_sessions(previous, len(previous))]
