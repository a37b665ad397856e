"""The part of a run that is looked at."""

import math
from typing import NamedTuple

from sim.errors import UserError


class WindowOver(Exception):  # noqa: N818, no mistake
    """Nobody wants to see more of the simulation."""


class Window(NamedTuple):
    """From start_ns on, to before end_ns; None: to the end of the run."""

    start_ns: int = 0
    end_ns: int | None = None

    @property
    def text(self) -> str:
        """As it is asked for, FROM,TO in seconds."""
        end = "" if self.end_ns is None else f"{self.end_ns / 1e9:g}"
        return f"{self.start_ns / 1e9:g},{end}"

    def has(self, start_ns: int, end_ns: int) -> bool:
        """Whether anything of this stretch is in it."""
        return end_ns > self.start_ns and not self.is_past(start_ns)

    def is_past(self, time_ns: int) -> bool:
        """Whether it is over by then."""
        return self.end_ns is not None and time_ns >= self.end_ns


def parse_window(text: str | None) -> Window:
    """FROM,TO in seconds; either may be left out. Raises UserError for anything else."""
    if text is None:
        return Window()
    start, comma, end = text.partition(",")
    try:
        start_s = float(start or 0)
        end_s = float(end or math.inf)
    except ValueError:
        start_s = end_s = math.nan
    if start_s >= end_s >= 0:
        raise UserError(f"--window: got {text!r}, expected FROM less than TO")
    if not (comma and 0 <= start_s < math.inf and end_s >= 0):
        raise UserError(f"--window: got {text!r}, expected FROM,TO in seconds, such as 2,3.5")
    return Window(round(start_s * 1e9), None if end_s == math.inf else round(end_s * 1e9))
