"""Checks of values that a user wrote, and the wording of what is wrong with them."""

import math
import reprlib
from collections.abc import Iterable
from itertools import islice
from typing import TypeGuard

import numpy as np

from workloads.errors import WorkloadError

# Far above any context length, and small enough that sums over requests stay inside int64.
LARGEST_COUNT = 1_000_000_000
COUNT_EXPECTED = f"an integer from 1 to {LARGEST_COUNT}"

LATEST_NS = 9e18  # 285 years; int64 ends at 9.22e18

_short = reprlib.Repr()
_short.maxstring = 60
_short.maxlist = 20
_LONGEST_SHOWN = 100  # letters of a value, so that a line can be read
_MOST_NAMES = 20


def shown(value: object) -> str:
    """`repr` on one line, shortened where it is long."""
    return cut(_short.repr(value), _LONGEST_SHOWN)


def cut(text: str, most: int) -> str:
    """A text of at most so many letters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def listed(names: Iterable[str]) -> str:
    """Names from a file in one line: the first of them, each as it is or, if odd, as its `repr`."""
    first = (name if name.isprintable() else shown(name) for name in islice(names, _MOST_NAMES))
    return cut(", ".join(cut(name, 60) for name in first), _LONGEST_SHOWN)


def problem(where: str, value: object, expected: str) -> str:
    """The wording of a wrong value: `where: got value, expected ...`."""
    return f"{where}: got {shown(value)}, expected {expected}"


def require_count(name: str, value: object) -> None:
    """Raise WorkloadError unless `value` is an integer from 1 to LARGEST_COUNT."""
    if not (_is_integer(value) and 1 <= value <= LARGEST_COUNT):
        raise WorkloadError(problem(name, value, COUNT_EXPECTED))


def require_between(name: str, value: object, low: float, high: float) -> None:
    """Raise WorkloadError unless `value` is a number and low <= value <= high (NaN never is)."""
    if not (_is_number(value) and low <= value <= high):
        raise WorkloadError(problem(name, value, f"a number from {low:g} to {high:g}"))


def require_positive(name: str, value: object) -> None:
    """Raise WorkloadError unless `value` is a finite number above 0."""
    if not (_is_number(value) and 0 < value < math.inf):
        raise WorkloadError(problem(name, value, "a finite number above 0"))


def require_not_negative(name: str, value: object) -> None:
    """Raise WorkloadError unless `value` is a finite number, 0 or above."""
    if not (_is_number(value) and 0 <= value < math.inf):
        raise WorkloadError(problem(name, value, "a finite number, 0 or above"))


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return _is_integer(value) or isinstance(value, float | np.floating)
