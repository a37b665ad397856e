"""Reads back the tables that kvsim has left."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def read_rows(path: Path, types: dict[str, Any] | None = None) -> pd.DataFrame:
    """A table as it was written. types: of columns, beside `system`, which is a word.

    A system or a swept value may be called "null" or "NA"; only an empty cell is no value.

    Raises OSError and ValueError, those of pandas among them, for a file that is no table.
    """
    words = {"system": str, **(types or {})}
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=words, low_memory=False)
    for key in table.select_dtypes(bool):  # swept, and a word as in scenarios: not `True`
        table[key] = np.where(table[key], "true", "false")
    return table
