"""What the time to the first token is made of, of all requests and of the slow ones."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.attribution import TTFT_PARTS
from sim.explain.bands import BANDS, Band, band
from sim.explain.words import WORDS
from sim.one_run import OneRun, point_in_words
from sim.plots.bars import Part, percent_bars
from sim.plots.colours import HATCHED_PART, PART_COLOURS
from sim.plots.style import legend_below, panels, title
from sim.tables import seconds_in_words


def attribution(runs: list[OneRun]) -> Figure:
    """Mean parts of TTFT in percent of it, a bar for each band of requests, a panel a run.

    runs: each serves somebody.
    """
    figure, panel_axes = panels([run.system for run in runs], 1.5, "% of TTFT", shares_y=False)
    for axes, run in zip(panel_axes, runs, strict=True):
        _draw_bars(axes, [band(run.requests, "ttft", percent) for percent in BANDS])
    legend_below(figure, most_columns=3)
    title(figure, f"Where TTFT comes from, {point_in_words(runs[0])}")
    return figure


def _draw_bars(axes: Axes, bands: list[Band]) -> None:
    names = [
        f"{words}: {seconds_in_words(b.mean_s)}"
        for words, b in zip(BANDS.values(), bands, strict=True)
    ]
    parts = [
        Part(
            WORDS[name].label,
            PART_COLOURS[name],
            np.array([100 * b.share(name) for b in bands]),
            is_hatched=name == HATCHED_PART,
        )
        for name in TTFT_PARTS
    ]
    percent_bars(axes, names, parts)
