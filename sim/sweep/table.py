"""The table of a sweep: what is looked at in it, and how it is read back."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sim.about_file import read_about
from sim.csv_rows import read_rows
from sim.over_seeds import is_number
from sim.scenario.value_text import value_text

Swept = Mapping[str, list[Any]]  # of a scenario: key -> its values, in the order given
SHOWN = {  # metric -> what it is called
    "output_tokens_per_s": "output tokens per second",
    "ttft_p99_s": "time to first token, p99",
}
METRICS = {  # whose intervals are watched -> what they are called
    "output_tokens_per_s": "output tokens/s",
    "ttft_mean_s": "mean TTFT",
    "tpot_mean_s": "mean TPOT",
}
OF_SAMPLE = "each dot is a point of the sample; other keys differ"
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


def is_grid(frame: pd.DataFrame) -> bool:
    """Whether there is a point for every combination of values; those of a sample are some."""
    keys = swept_keys(frame)
    num_combinations = math.prod(frame[key].nunique(dropna=False) for key in keys)
    return not keys or len(frame[keys].drop_duplicates()) == num_combinations


def values_in_order(frame: pd.DataFrame, key: str, swept: Swept) -> list[Any]:
    """The values of a key that are there: numbers by size, all else as they were given."""
    found = list(frame[key].unique())
    if is_number(frame[key]):
        return sorted(found)
    given = {value_text(value): place for place, value in enumerate(swept[key])}
    return sorted(found, key=lambda value: given.get(value, len(given)))


def point_means(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Of each point its swept keys and the mean over the seeds; nan where nothing is known.

    rows: of one system.
    """
    keys = list(rows.columns[1 : rows.columns.get_loc("seed")])
    return rows.groupby(keys, sort=False, dropna=False)[metric].mean().reset_index()
