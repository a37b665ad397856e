"""Tables of measured times, read and checked."""

from pathlib import Path

import numpy as np
import pandas as pd

from sim.errors import UserError


def find_table(path: Path) -> Path | None:
    """A table that may be compressed; None where there is none."""
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    return None


def read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """The named columns of a CSV, plain or with .gz at the end of its name.

    All but `layer` and those that name a type hold numbers, from 0.

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
    for name in columns:
        if not (name == "layer" or name.endswith("_dtype")):
            table[name] = _numbers(table[name], f"{found}, column {name!r}")
    return table[list(columns)]


def _numbers(column: "pd.Series[float]", where: str) -> "pd.Series[float]":
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    is_bad = ~(np.isfinite(numbers) & (numbers >= 0))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise UserError(
            f"{where}, line {row + 2}: got {column.iloc[row]!r}, expected a number >= 0"
        )
    return numbers
