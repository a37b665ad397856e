"""How often each of many whole numbers came, without an object for any of them."""

from array import array

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

_LEAST_BUFFERED = 1 << 16


def merged(totals: list[tuple[Int64Array, Int64Array]]) -> tuple[Int64Array, Int64Array]:
    """The totals of several together, see ValueCounts.totals."""
    values, place = np.unique(np.concatenate([v for v, _ in totals]), return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, place, np.concatenate([c for _, c in totals]))
    return values, counts


class ValueCounts:
    """Counts of values, 16 bytes for each value that is distinct (and for a buffer)."""

    def __init__(self) -> None:
        self._values = array("q")
        self._counts = array("q")
        self._most_buffered = _LEAST_BUFFERED

    def add(self, value: int, count: int = 1) -> None:
        """A value came so many times more."""
        self._values.append(value)
        self._counts.append(count)
        if len(self._values) > self._most_buffered:
            self._compact()

    def extend(self, values: list[int], count: int) -> None:
        """Each of these values came so many times more."""
        self._values.extend(values)
        self._counts.extend([count] * len(values))
        if len(self._values) > self._most_buffered:
            self._compact()

    def _compact(self) -> None:
        values, counts = self.totals()
        self._values, self._counts = array("q"), array("q")
        self._values.frombytes(values.data.cast("B"))
        self._counts.frombytes(counts.data.cast("B"))
        self._most_buffered = 2 * len(values) + _LEAST_BUFFERED

    def totals(self) -> tuple[Int64Array, Int64Array]:
        """The distinct values in rising order, and how often each came."""
        if not self._values:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        values = np.frombuffer(self._values, np.int64)
        order = np.argsort(values, kind="stable")
        values = values[order]
        first = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
        distinct = values[first]
        del values  # there may be many
        return distinct, np.add.reduceat(np.frombuffer(self._counts, np.int64)[order], first)
