"""Tables of measured times, read and checked."""

from pathlib import Path

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
    path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = ()
) -> pd.DataFrame:
    """The named columns of a CSV, plain or with .gz at the end of its name.

    optional: columns that may be missing. All but those of `_TEXT` hold numbers, from 0; a cell of
    an optional one may be empty.

    Raises UserError for a file that is missing, or has other columns or values.
    """
    found = find_table(path)
    if found is None:
        raise UserError(f"{path}: no such file, nor one with .gz")
    try:
        table = pd.read_csv(found, skipinitialspace=True)
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise UserError(f"{found}: {' '.join(str(error).split())}") from None
    missing = [name for name in columns if name not in table.columns]
    if missing or table.empty:
        what = f"no column {missing[0]!r}" if missing else "no rows"
        raise UserError(f"{found}: {what}, expected columns {', '.join(columns)}")
    present = [*columns, *(name for name in optional if name in table.columns)]
    for name in present:
        if name not in _TEXT:
            where = f"{found}, column {name!r}"
            table[name] = _numbers(table[name], where, may_be_empty=name in optional)
    return table[present]


def _numbers(column: "pd.Series[float]", where: str, *, may_be_empty: bool) -> "pd.Series[float]":
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    is_bad = ~(np.isfinite(numbers) & (numbers >= 0))
    if may_be_empty:
        is_bad &= column.notna()
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise UserError(
            f"{where}, line {row + 2}: got {column.iloc[row]!r}, expected a number >= 0"
        )
    return numbers
