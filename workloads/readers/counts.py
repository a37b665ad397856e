"""Notes that count rows."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def note_rows(
    is_such: npt.NDArray[np.bool_],
    lines: Sequence[int],
    what: str,
    noun: str = "row",
    counted: str = "line",
) -> tuple[str, ...]:
    """`3 rows without output left out, the first at line 7`; nothing where there is none."""
    places = np.flatnonzero(is_such)
    if not len(places):
        return ()
    rows = f"1 {noun}" if len(places) == 1 else f"{len(places)} {noun}s"
    return (f"{rows} {what}, the first at {counted} {lines[int(places[0])]}",)
