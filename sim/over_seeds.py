"""A metric along one column of a table of runs: means over the seeds, with intervals."""

import numpy as np
import pandas as pd

from sim.metrics import half_width_95


def over_seeds(rows: pd.DataFrame, key: str, metric: str) -> pd.DataFrame:
    """Of each value of the key (index): `mean`, and the `half_width` of its 95 % interval.

    Whatever else differs at a value is averaged seed by seed first, or nothing is known there if it
    is not of all of that: it would be the mean of other points than elsewhere. nan where nothing is
    known, and for the interval of one seed. In order of size or, of no number, as they come.
    """
    of_seeds = rows.groupby([key, "seed"], dropna=False, sort=False)[metric]
    by_seed = of_seeds.agg(lambda values: values.mean(skipna=False)).astype("float64")
    groups = by_seed.groupby(level=0, sort=is_number(rows[key]), dropna=False)
    half_widths = groups.apply(lambda values: half_width_95(np.asarray(values.dropna(), float)))
    return pd.DataFrame({"mean": groups.mean(), "half_width": half_widths.astype(float)})


def is_number(column: pd.Series) -> bool:
    """Whether there is something between its values; of true and false there is nothing."""
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))
