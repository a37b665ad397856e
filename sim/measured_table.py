"""Tables of what was measured, read from CSV files and checked."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sim.errors import UserError

_MOST = 1e9  # of any number: sums of them stay exact, and as many seconds are 32 years


def find_table(path: Path) -> Path | None:
    """A table that may be compressed; None where there is none."""
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    return None


def read_table(
    path: Path,
    columns: tuple[str, ...],
    *,
    optional: tuple[str, ...] = (),
    text: tuple[str, ...] = (),
    positive: tuple[str, ...] = (),
    whole: tuple[str, ...] = (),
) -> pd.DataFrame:
    """The named columns of a CSV, plain or with .gz at the end of its name.

    optional: columns that may be missing, and have empty cells. All but those of `text` hold
    numbers, from 0; those of `positive` above it, those of `whole` without a fraction.

    Raises UserError for a file that is missing, or has other columns or values.
    """
    found = find_table(path)
    if found is None:
        raise UserError(f"{path}: no such file, nor one with .gz")
    try:
        table = pd.read_csv(found, skipinitialspace=True, dtype=dict.fromkeys(text, str))
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
        if name in text:
            _refuse(table[name], table[name].isna(), where, "text")
            continue
        numbers = pd.to_numeric(table[name], errors="coerce").astype(float)
        is_good = numbers.between(0, _MOST) & ((numbers > 0) | (name not in positive))
        is_good &= (numbers % 1 == 0) | (name not in whole)
        is_good |= table[name].isna() & (name in optional)
        kind = "a whole number" if name in whole else "a number"
        bound = f"{'above' if name in positive else 'from'} 0, at most {_MOST:.0e}"
        _refuse(table[name], ~is_good, where, f"{kind} {bound}")
        table[name] = numbers
    return table[present]


def _refuse(column: "pd.Series[Any]", is_bad: Any, where: str, expected: str) -> None:
    """Raise UserError for the first bad cell of a column, if there is one."""
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        value = column.iloc[row]
        got = repr(value) if isinstance(value, str) else f"{value:g}"
        got = "nothing" if pd.isna(value) else got
        raise UserError(f"{where}, line {row + 2}: got {got}, expected {expected}")
