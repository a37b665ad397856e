"""Tables of what was measured, read from CSV files and checked."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sim.errors import UserError

_TEXT = ("layer", "gemm_dtype", "model", "measured", "backend_version")


def find_table(path: Path) -> Path | None:
    """A table that may be compressed; None where there is none."""
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    return None


def read_table(
    path: Path,
    columns: tuple[str, ...],
    optional: tuple[str, ...] = (),
    positive: tuple[str, ...] = (),
) -> pd.DataFrame:
    """The named columns of a CSV, plain or with .gz at the end of its name.

    optional: columns that may be missing. All but those of `_TEXT` hold numbers, from 0, those of
    `positive` above it; a cell of an optional one may be empty.

    Raises UserError for a file that is missing, or has other columns or values.
    """
    found = find_table(path)
    if found is None:
        raise UserError(f"{path}: no such file, nor one with .gz")
    try:
        table = pd.read_csv(found, skipinitialspace=True, dtype=dict.fromkeys(_TEXT, str))
    except (OSError, ValueError, EOFError, zlib.error) as error:  # pandas' own are ValueErrors
        raise UserError(f"{found}: {' '.join(str(error).split())}") from None
    if not isinstance(table.index, pd.RangeIndex):  # pandas took the first column for names of rows
        raise UserError(f"{found}, line 2: more cells than the header has")
    missing = [name for name in columns if name not in table.columns]
    if missing or table.empty:
        what = f"no column {missing[0]!r}" if missing else "no rows"
        raise UserError(f"{found}: {what}, expected columns {', '.join(columns)}")
    present = [*columns, *(name for name in optional if name in table.columns)]
    for name in present:
        where = f"{found}, column {name!r}"
        if name in _TEXT:
            _refuse(table[name], table[name].isna(), where, "text")
        else:
            table[name] = _numbers(
                table[name], where, may_be_empty=name in optional, is_positive=name in positive
            )
    return table[present]


def _numbers(
    column: "pd.Series[float]", where: str, *, may_be_empty: bool, is_positive: bool
) -> "pd.Series[float]":
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    is_good = np.isfinite(numbers) & ((numbers > 0) if is_positive else (numbers >= 0))
    if may_be_empty:
        is_good |= column.isna()
    _refuse(column, ~is_good, where, f"a number {'>' if is_positive else '>='} 0")
    return numbers


def _refuse(column: "pd.Series[Any]", is_bad: Any, where: str, expected: str) -> None:
    """Raise UserError for the first bad cell of a column, if there is one."""
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        value = column.iloc[row]
        got = repr(value) if isinstance(value, str) else f"{value:g}"
        got = "nothing" if pd.isna(value) else got
        raise UserError(f"{where}, line {row + 2}: got {got}, expected {expected}")
