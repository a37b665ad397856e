"""What the prefix cache found of prompts, and why not more."""

from matplotlib.figure import Figure

from sim.one_run import OneRun, point_in_words
from sim.plots.bars import Part, percent_bars
from sim.plots.colours import PREFIX_COLOURS
from sim.plots.style import legend_below, title
from sim.prefix_shares import LABELS, prefix_shares


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
