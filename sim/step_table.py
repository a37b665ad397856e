"""One row per step, or per as many steps as keep the table of a long run small."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.kv_manager import KVUsage
from sim.ledger import Int64Array, UsageArrays

MOST_ROWS = 1 << 16
_CHUNK = 1 << 13  # steps that are added to the table at a time

_SUMMED = ("duration_ns", "steps", "decodes", "prefill_tokens", "preempted")
_AVERAGED = ("running", "waiting", *KVUsage._fields, "saved")

_Columns = dict[str, npt.NDArray[Any]]  # of int64 or, where means were taken, of float64


class StepRows(NamedTuple):
    """Rows of single steps, or of spells in which the engine idled (no steps), without gaps.

    All of shape [rows]. running, waiting: when the row begins; usage: the ledger meanwhile; saved:
    slots that sharing saves meanwhile.
    """

    start_ns: Int64Array
    duration_ns: Int64Array
    steps: Int64Array
    decodes: Int64Array
    prefill_tokens: Int64Array
    running: Int64Array
    waiting: Int64Array
    preempted: Int64Array
    saved: Int64Array
    usage: UsageArrays


class StepTable:
    """A table of at most MOST_ROWS rows (and a chunk).

    In a longer run a row stands for 2, 4, 8, ... steps in a row: their sums, and of what a step
    has throughout (running, waiting, the ledger) the mean over time. What a row covers depends on
    the steps alone, not on how they were handed in.
    """

    def __init__(self) -> None:
        self._rows_per_row = 1
        self._parts: list[_Columns] = []  # each of _CHUNK rows as they came
        self._rest: _Columns = {}  # fewer than that

    def extend(self, rows: StepRows) -> None:
        """Add rows, the first where the last one ended."""
        new = rows._asdict() | rows.usage._asdict()
        del new["usage"]
        if self._rest:
            new = {name: np.concatenate((self._rest[name], new[name])) for name in new}
        num_rows = len(new["start_ns"])
        for first in range(0, num_rows - _CHUNK + 1, _CHUNK):
            part = {name: column[first : first + _CHUNK] for name, column in new.items()}
            self._parts.append(_merged(part, self._rows_per_row))
            if len(self._parts) * _CHUNK // self._rows_per_row > MOST_ROWS:
                self._parts = [_merged(part, 2) for part in self._parts]
                self._rows_per_row *= 2
        first = num_rows - num_rows % _CHUNK
        self._rest = {name: column[first:] for name, column in new.items()}

    def frame(self) -> pd.DataFrame:
        """The table: start_ns, what is summed, what is averaged."""
        parts = [*self._parts, _merged(self._rest, self._rows_per_row)] if self._rest else []
        names = ("start_ns", *_SUMMED, *_AVERAGED)
        if not parts:
            return pd.DataFrame({name: np.zeros(0, np.int64) for name in names})
        return pd.DataFrame(
            {name: np.concatenate([part[name] for part in parts]) for name in names}
        )


def _merged(rows: _Columns, num_rows: int) -> _Columns:
    """Rows that each stand for num_rows of the given ones, the last perhaps for fewer."""
    if num_rows == 1 or not len(rows["start_ns"]):
        return rows
    first = np.arange(0, len(rows["start_ns"]), num_rows)
    merged: _Columns = {"start_ns": rows["start_ns"][first]}
    for name in _SUMMED:
        merged[name] = np.add.reduceat(rows[name], first)
    duration_ns = rows["duration_ns"].astype(np.float64)
    total_ns = np.add.reduceat(duration_ns, first)
    for name in _AVERAGED:
        merged[name] = np.add.reduceat(rows[name] * duration_ns, first) / total_ns
    return merged
