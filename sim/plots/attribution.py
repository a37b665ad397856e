"""What the time to the first token is made of, of all requests and of the slow ones."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.attribution import TTFT_PARTS
from sim.experiment import Result
from sim.explain.bands import Band, band
from sim.explain.words import WORDS
from sim.plots.style import point_in_words, text_colour

# Okabe and Ito again, and greys; hatched: what preemptions cost.
_COLOURS = {
    "ttft_step_ns": "#DDDDDD",
    "ttft_slots_ns": "#56B4E9",
    "ttft_blocks_ns": "#0072B2",
    "ttft_budget_ns": "#CC79A7",
    "ttft_batch_ns": "#F0E442",
    "ttft_prefill_ns": "#009E73",
    "ttft_other_prefills_ns": "#E69F00",
    "ttft_decodes_ns": "#999999",
    "ttft_preempted_ns": "#D55E00",
    "ttft_recompute_ns": "#D55E00",
}
_HATCHED = "ttft_recompute_ns"
_BANDS = {0: "all", 50: "p50 and above", 90: "p90 and above", 99: "p99 and above"}
_MOST_IN_A_COLUMN = 4
_LEAST_LABELLED_PERCENT = 5  # narrower ones have no room for a number


def attribution(results: list[Result]) -> Figure:
    """Mean parts of TTFT in percent of it, a bar for each band of requests, a panel a system.

    results: in each of them a request is served.
    """
    num_columns = 1 if len(results) <= _MOST_IN_A_COLUMN else 2
    num_rows = math.ceil(len(results) / num_columns)
    size = (4 + 4 * num_columns, 1.7 + 1.5 * num_rows)
    figure = Figure(figsize=size, layout="constrained")
    panels = [*figure.subplots(num_rows, num_columns, sharex=True, squeeze=False).flat]
    for axes in panels[len(results) :]:
        axes.remove()
    bands = [
        [band(result.records.requests, "ttft", percent) for percent in _BANDS] for result in results
    ]
    shown = [
        name
        for name in TTFT_PARTS
        if any(b.parts_s[name] for of_result in bands for b in of_result)
    ]
    for axes, result, of_result in zip(panels, results, bands, strict=False):
        _draw_bars(axes, of_result, shown)
        axes.set_title(result.job.system, loc="left", fontsize="medium")
    for axes in panels[len(results) - num_columns : len(results)]:
        axes.set_xlabel("% of TTFT")
        axes.tick_params(labelbottom=True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=3)
    where = point_in_words(results[0])
    figure.suptitle(f"Where TTFT comes from, {where}", x=0.01, ha="left", fontsize="large")
    return figure


def _seconds(mean_s: float) -> str:
    return f"{mean_s:.3g} s" if mean_s >= 1 else f"{1000 * mean_s:.3g} ms"


def _draw_bars(axes: Axes, bands: list[Band], shown: list[str]) -> None:
    places = range(len(bands))[::-1]
    left = np.zeros(len(bands))
    for name in shown:
        percents = np.array([100 * b.share(name) for b in bands])
        colour = _COLOURS[name]
        bars = axes.barh(
            places,
            percents,
            0.75,
            left,
            label=WORDS[name].label,
            color=colour,
            edgecolor="white",
            linewidth=0,
            hatch="////" if name == _HATCHED else None,
        )
        labels = [f"{p:.0f}" if p >= _LEAST_LABELLED_PERCENT else "" for p in percents]
        axes.bar_label(bars, labels, label_type="center", color=text_colour(colour))
        left += percents
    ticks = [
        f"{words}: {_seconds(b.mean_s)}" for words, b in zip(_BANDS.values(), bands, strict=True)
    ]
    axes.set_yticks(places, ticks)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
