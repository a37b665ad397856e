"""Columns of the table of steps over time, in equal bins."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.kv_manager import KVUsage

FloatArray = npt.NDArray[np.float64]

_MOST_BINS = 400
BINS_IN_WORDS = f"means over spells of equal length, at most {_MOST_BINS}"


def binned(steps: pd.DataFrame, columns: list[str]) -> tuple[FloatArray, FloatArray]:
    """Time-weighted means of columns: edges of the bins in seconds [bins + 1], [columns, bins].

    steps: at least one. Of several replicas, whose steps cover the same time: their sums.
    """
    parts = [part for _, part in steps.groupby("replica")] if "replica" in steps else [steps]
    num_bins = min(_MOST_BINS, max(map(len, parts)))
    means = [_of_one(part, columns, num_bins) for part in parts]
    return means[0][0], np.sum([values for _, values in means], axis=0)


def _of_one(
    steps: pd.DataFrame, columns: list[str], num_bins: int
) -> tuple[FloatArray, FloatArray]:
    duration_s = steps["duration_ns"].to_numpy() / 1e9
    edges_s = np.concatenate(([0.0], np.cumsum(duration_s)))
    bins_s = np.linspace(0, edges_s[-1], num_bins + 1)
    means = []
    for name in columns:
        integral = np.concatenate(([0.0], np.cumsum(steps[name].to_numpy() * duration_s)))
        means.append(np.diff(np.interp(bins_s, edges_s, integral)) / np.diff(bins_s))
    return bins_s, np.array(means)


def pool_shares(steps: pd.DataFrame, ledger_classes: list[str]) -> tuple[FloatArray, FloatArray]:
    """Shares of the slots of all pools over time, from 0 to 1; see `binned`."""
    edges_s, slots = binned(steps, list(KVUsage._fields))
    shares = slots / slots.sum(axis=0)
    return edges_s, shares[[KVUsage._fields.index(name) for name in ledger_classes]]
