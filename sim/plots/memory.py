"""Where KV memory goes: the ledger over time, and its means."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from engine.kv_manager import KVUsage
from sim.binned import BINS_IN_WORDS, pool_shares
from sim.one_run import OneRun, point_in_words
from sim.plots.bars import Part, percent_bars
from sim.plots.colours import LEDGER_COLOURS
from sim.plots.style import legend_below, panels, title


def kv_memory(runs: list[OneRun]) -> Figure:
    """The ledger over time, stacked, a panel for each run, each serving somebody.

    All panels reach to the end of the longest run.
    """
    systems = [run.system for run in runs]
    figure, panel_axes = panels(systems, 2.1, "simulated time (s)", shares_y=True)
    shown = used_classes(runs)
    over_time = [pool_shares(run.steps, shown) for run in runs]
    for axes, (edges_s, shares) in zip(panel_axes, over_time, strict=True):
        axes.stackplot(
            np.repeat(edges_s, 2)[1:-1],  # each bin as a step
            100 * np.repeat(shares, 2, axis=1),
            labels=[name.replace("_", "-") for name in shown],
            colors=[LEDGER_COLOURS[name] for name in shown],
        )
        axes.set_ylim(0, 100)
    panel_axes[0].set_xlim(0, max(edges_s[-1] for edges_s, _ in over_time))
    figure.supylabel("% of KV slots", fontsize="medium")
    legend_below(figure, note=BINS_IN_WORDS)
    title(figure, f"KV memory over time, {point_in_words(runs[0])}")
    return figure


def used_classes(runs: list[OneRun]) -> list[str]:
    """The classes of the ledger that any slot is in at any time."""
    return [name for name in KVUsage._fields if any(run.steps[name].any() for run in runs)]


def kv_shares(rows: pd.DataFrame, run: OneRun) -> Figure:
    """Means over time of the ledger's shares, a stacked bar for each system.

    rows: of the summary, at one point of the sweep; their mean over the seeds is drawn. run: one
        of those that they are of.
    """
    means = rows.groupby("system", sort=False)[[f"{name}_share" for name in KVUsage._fields]].mean()
    figure = Figure(figsize=(8, 1.6 + 0.4 * len(means)), layout="constrained")
    axes = figure.add_subplot()
    parts = [
        Part(name.replace("_", "-"), colour, 100 * means[f"{name}_share"].to_numpy())
        for name, colour in LEDGER_COLOURS.items()
    ]
    percent_bars(axes, list(means.index), parts)
    axes.set_xlabel("% of KV slots, mean over time")
    legend_below(figure)
    title(figure, f"KV memory, {point_in_words(run, rows['seed'].nunique())}")
    return figure
