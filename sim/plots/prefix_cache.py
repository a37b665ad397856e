"""What the prefix cache found of prompts, and why not more."""

import pandas as pd
from matplotlib.figure import Figure

from sim.one_run import OneRun, point_in_words
from sim.plots.bars import Part, percent_bars
from sim.plots.colours import PREFIX_COLOURS
from sim.plots.style import legend_below, title

LABELS = {
    "hit": "found",
    "partial": "not in full blocks",
    "unseen": "never seen",
    "evicted": "seen and evicted",
}


def prefix_cache(runs: list[OneRun]) -> Figure:
    """Shares of the prompt tokens that were looked for, a bar for each run that has looked."""
    shares = prefix_shares(runs)
    figure = Figure(figsize=(8, 1.6 + 0.4 * len(shares)), layout="constrained")
    axes = figure.add_subplot()
    parts = [
        Part(LABELS[name], colour, 100 * shares[name].to_numpy())
        for name, colour in PREFIX_COLOURS.items()
    ]
    percent_bars(axes, list(shares.index), parts)
    axes.set_xlabel("% of prompt tokens")
    legend_below(figure)
    title(figure, f"What the prefix cache found, {point_in_words(runs[0])}")
    return figure


def prefix_shares(runs: list[OneRun]) -> pd.DataFrame:
    """A row for each system that has looked for anything; columns as LABELS, which add up to 1."""
    columns = ("cached_tokens", "partial_tokens", "unseen_tokens", "evicted_tokens")
    sums = {run.system: run.requests[[*columns]].sum() for run in runs if has_looked(run)}
    shares = {system: (row / row.sum()).to_list() for system, row in sums.items()}
    return pd.DataFrame.from_dict(shares, orient="index", columns=[*LABELS])


def has_looked(run: OneRun) -> bool:
    """Whether any prompt was looked up in a prefix cache."""
    return bool(run.requests["queried_tokens"].sum())
