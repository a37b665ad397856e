"""Where KV memory goes: the ledger over time, and its means."""

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from engine.kv_manager import KVUsage
from sim.experiment import Result
from sim.plots.style import point_in_words, text_colour

_CLASS_COLOURS = {
    "live": "#0072B2",
    "tail": "#56B4E9",
    "reserved": "#F0E442",
    "over_reserved": "#D55E00",
    "cached": "#009E73",
    "unusable": "#999999",
    "free": "#EEEEEE",
}
_NUM_BINS = 400
_MOST_IN_A_COLUMN = 4
_LEAST_LABELLED_PERCENT = 4  # narrower ones have no room for a number


def kv_memory(results: list[Result]) -> Figure:
    """The ledger over time, stacked, a panel for each system."""
    num_columns = 1 if len(results) <= _MOST_IN_A_COLUMN else 2
    num_rows = math.ceil(len(results) / num_columns)
    figure = Figure(figsize=(4 + 4 * num_columns, 1.2 + 2.1 * num_rows), layout="constrained")
    panels = [*figure.subplots(num_rows, num_columns, sharex=True, sharey=True, squeeze=False).flat]
    for axes in panels[len(results) :]:
        axes.remove()
    shown = [name for name in KVUsage._fields if _is_ever_used(results, name)]
    for axes, result in zip(panels, results, strict=False):
        edges_s, shares = _binned_shares(result.records.steps, shown)
        axes.stackplot(
            np.repeat(edges_s, 2)[1:-1],  # each bin as a step
            100 * np.repeat(shares, 2, axis=1),
            labels=[name.replace("_", "-") for name in shown],
            colors=[_CLASS_COLOURS[name] for name in shown],
        )
        axes.set_title(result.job.system, loc="left", fontsize="medium")
        axes.set_ylim(0, 100)
        axes.margins(x=0)
        axes.set_xlim(left=0)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    for axes in panels[len(results) - num_columns : len(results)]:
        axes.set_xlabel("simulated time (s)")
        axes.tick_params(labelbottom=True)
    figure.supylabel("% of KV slots", fontsize="medium")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(labels))
    figure.suptitle(
        f"KV memory over time, {point_in_words(results[0])}; means over 1/{_NUM_BINS} of the time",
        x=0.01,
        ha="left",
        fontsize="large",
    )
    return figure


def kv_shares(rows: pd.DataFrame, result: Result) -> Figure:
    """Means over time of the ledger's shares, a stacked bar for each system.

    rows: of the summary, at one point of the sweep; their mean over the seeds is drawn. result: one
        of those that they are of.
    """
    means = rows.groupby("system", sort=False)[[f"{name}_share" for name in KVUsage._fields]].mean()
    figure = Figure(figsize=(8, 1.6 + 0.4 * len(means)), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(means))[::-1]
    left = np.zeros(len(means))
    for name in KVUsage._fields:
        percents = 100 * means[f"{name}_share"].to_numpy()
        if not percents.any():
            continue
        colour = _CLASS_COLOURS[name]
        bars = axes.barh(
            places, percents, 0.7, left, label=name.replace("_", "-"), color=colour, linewidth=0
        )
        labels = [f"{p:.0f}" if p >= _LEAST_LABELLED_PERCENT else "" for p in percents]
        axes.bar_label(bars, labels, label_type="center", color=text_colour(colour))
        left += percents
    axes.set_yticks(places, means.index)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_ylim(-0.6, len(means) - 0.4)
    axes.set_xlabel("% of KV slots, mean over time")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(labels))
    where = point_in_words(result, rows["seed"].nunique())
    figure.suptitle(f"KV memory, {where}", x=0.01, ha="left", fontsize="large")
    return figure


def _is_ever_used(results: list[Result], ledger_class: str) -> bool:
    return any(result.records.steps[ledger_class].any() for result in results)


def _binned_shares(
    steps: pd.DataFrame, ledger_classes: list[str]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Time-weighted mean shares of the pool in equal bins: edges [bins + 1], [classes, bins].

    Of several replicas, whose steps cover the same time: of their pools together.
    """
    parts = [part for _, part in steps.groupby("replica")] if "replica" in steps else [steps]
    num_bins = min(_NUM_BINS, max(map(len, parts)))
    binned = [_binned_shares_of_one(part, ledger_classes, num_bins) for part in parts]
    return binned[0][0], np.mean([shares for _, shares in binned], axis=0)


def _binned_shares_of_one(
    steps: pd.DataFrame, ledger_classes: list[str], num_bins: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    duration_s = steps["duration_ns"].to_numpy() / 1e9
    edges_s = np.concatenate(([0.0], np.cumsum(duration_s)))
    bins_s = np.linspace(0, edges_s[-1], num_bins + 1)
    num_slots = steps[list(KVUsage._fields)].iloc[0].sum()
    shares = []
    for name in ledger_classes:
        integral = np.concatenate(([0.0], np.cumsum(steps[name].to_numpy() * duration_s)))
        shares.append(np.diff(np.interp(bins_s, edges_s, integral)) / np.diff(bins_s) / num_slots)
    return bins_s, np.array(shares)
