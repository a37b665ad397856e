"""The table of a sweep: what is looked at in it, and how it is read back."""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sim.about_file import read_about
from sim.csv_rows import read_rows

SHOWN = {  # metric -> what it is called
    "output_tokens_per_s": "output tokens per second",
    "ttft_p99_s": "time to first token, p99",
}
TABLE, ABOUT = "table.csv", "sweep.json"


class Sweep(NamedTuple):
    """frame: see `as_frame`. about: versions, code, and notes on how runs were measured."""

    frame: pd.DataFrame
    about: dict[str, Any]


def read_sweep(folder: Path) -> Sweep:
    """What `kvsim sweep` has left in a folder. Raises UserError where it is not there."""
    about = read_about(folder / ABOUT, "run the sweep again, which finds its results")
    return Sweep(read_rows(folder / TABLE), about)


def swept_keys(frame: pd.DataFrame) -> list[str]:
    """The keys of which there is more than one value."""
    keys = frame.columns[1 : frame.columns.get_loc("seed")]
    return [key for key in keys if frame[key].nunique(dropna=False) > 1]
