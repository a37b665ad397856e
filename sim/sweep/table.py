"""The table of a sweep: what is looked at in it, and how it is read back."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sim.csv_rows import read_rows
from sim.errors import UserError

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
    try:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        frame = read_rows(folder / TABLE)
    except OSError as error:
        raise UserError(f"{error.filename}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        raise UserError(f"{folder}: is no folder that `kvsim sweep` has left") from None
    return Sweep(frame, about)


def swept_keys(frame: pd.DataFrame) -> list[str]:
    """The keys of which there is more than one value."""
    keys = frame.columns[1 : frame.columns.get_loc("seed")]
    return [key for key in keys if frame[key].nunique(dropna=False) > 1]
