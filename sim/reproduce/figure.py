"""Ours by published, as a figure."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from sim.reproduce.paper import Paper
from sim.reproduce.report import value
from sim.reproduce.run import Result

_COLOURS = {True: "#0072B2", False: "#D55E00", None: "#999999"}
_WORDS = {True: "inside its tolerance", False: "outside", None: "no tolerance"}
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
_MOST = 10.0  # times too large or too small: further off is at the edge


def draw_ratios(paper: Paper, results: list[Result]) -> Figure:
    """A dot for each value on a line of its own, its tolerance as a bar; zeros are left out."""
    shown = [r for r in results if r.published > 0 and r.ours > 0]
    places = np.arange(len(shown))[::-1]
    figure = Figure(figsize=(9, 1.6 + 0.22 * len(shown)), layout="constrained")
    axes = figure.subplots()
    for place, r in zip(places, shown, strict=True):
        if r.is_inside is not None:
            part = r.tolerance / r.published if r.series.absolute else r.tolerance
            axes.barh(place, 2 * part, left=1 - part, height=0.7, color="#E8E8E8", zorder=1)
    for verdict, colour in _COLOURS.items():
        chosen = [number for number, r in enumerate(shown) if r.is_inside is verdict]
        if chosen:
            ratios = [_ratio(shown[number]) for number in chosen]
            at = places[chosen]
            axes.scatter(ratios, at, color=colour, s=26, zorder=3, label=_WORDS[verdict])
    axes.axvline(1, color="#555555", lw=0.8, zorder=2)
    low, high = axes.get_xlim()
    axes.set_xscale("log")
    ticks = [tick for tick in _TICKS if 0.9 * min(low, 0.7) <= tick <= 1.1 * max(high, 1.5)]
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(places, [_label(r) for r in shown], fontsize="small")
    axes.set_ylim(-0.8, len(shown) - 0.2)
    right = axes.secondary_yaxis("right")
    words = [f"{value(r.metric, r.published)} → {value(r.metric, r.ours)}" for r in shown]
    right.set_yticks(places, words, fontsize="small")
    for side in (axes, right):
        side.tick_params(axis="y", length=0)
    for spine in (*axes.spines.values(), *right.spines.values()):
        spine.set_visible(False)
    axes.set_xlabel("ours / published; bars: tolerance; right: published → ours")
    figure.suptitle(paper.title, x=0.01, ha="left", fontsize="large")
    figure.legend(loc="outside upper right", ncols=3, frameon=False, fontsize="small")
    return figure


def _ratio(result: Result) -> float:
    return min(max(result.ours / result.published, 1 / _MOST), _MOST)


def _label(result: Result) -> str:
    metric = result.metric.removesuffix("_s") if "_per_s" not in result.metric else result.metric
    return f"{result.series.title}, {result.at}, {metric.replace('_', ' ')}"
