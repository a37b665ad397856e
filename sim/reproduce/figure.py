"""Ours by published, as a figure."""

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from sim.plots.style import SMALL
from sim.reproduce.outcome import Outcome, Range
from sim.reproduce.paper import Paper
from sim.reproduce.run import Result
from sim.reproduce.words import metric_words, value

_COLOURS = {True: "#0072B2", False: "#D55E00", None: "#999999"}
_WORDS = {True: "inside", False: "outside", None: "nothing expected"}
_DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5.5, "zorder": 3}
_EXPECTED, _PUBLISHED = "#E8E8E8", "#555555"
_GAP = 0.7  # in lines
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10)
_NARROW_TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 1.8, 2)
_NARROW = 3.0  # the upper by the lower end of an axis that has room for these
_MOST = 10.0  # times too large or too small: further off is an arrow at the edge


class _Row(NamedTuple):
    """A line of the figure; ours and both ranges by what was published.

    published: around 1; the same twice for a single number.
    """

    label: str
    published: Range
    ours: float
    expected: Range | None
    is_inside: bool | None
    words: str


def draw_ratios(paper: Paper, results: list[Result], outcomes: list[Outcome]) -> Figure | None:
    """A dot for each value, and each thing that follows and is a number, on a line of its own.

    What is expected is a bar. Zeros are left out; None if nothing is left.
    """
    rows, common = _rows_of_values([r for r in results if r.published > 0 and r.ours > 0])
    num_values = len(rows)
    rows += [row for outcome in outcomes if (row := _row_of_outcome(outcome))]
    if not rows:
        return None
    # What follows stands below the values, with a gap between.
    gaps = np.repeat([0, _GAP if num_values else 0], [num_values, len(rows) - num_values])
    places = -np.arange(len(rows)) - gaps
    figure = Figure(figsize=(9, 1.8 + 0.22 * (len(rows) + gaps[-1])), layout="constrained")
    axes = figure.subplots()
    low, high = _limits(rows)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(places[-1] - 0.8, 0.8)
    for place, row in zip(places, rows, strict=True):
        if row.expected:
            left, right = max(row.expected[0], low), min(row.expected[1], high)
            axes.barh(place, right - left, left=left, height=0.7, color=_EXPECTED, zorder=1)
        if row.published[0] < row.published[1]:
            axes.plot(row.published, [place, place], color=_PUBLISHED, lw=2.5, zorder=2)
        marker = "<" if row.ours < 1 / _MOST else ">" if row.ours > _MOST else "o"
        axes.plot(_cut(row.ours), place, color=_COLOURS[row.is_inside], **_DOT | {"marker": marker})
    axes.axvline(1, color=_PUBLISHED, lw=0.8, zorder=2)
    ticks = _NARROW_TICKS if high < _NARROW * low else _TICKS
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(places, [row.label for row in rows], fontsize="small")
    right_side = axes.secondary_yaxis("right")
    right_side.set_yticks(places, [row.words for row in rows], fontsize="small")
    for side in (axes, right_side):
        side.tick_params(axis="y", length=0)
    for spine in (*axes.spines.values(), *right_side.spines.values()):
        spine.set_visible(False)
    axes.set_xlabel("ours / published; at the right: published → ours")
    axes.set_title(common, loc="left", **SMALL)
    figure.suptitle(paper.title, x=0.01, ha="left", fontsize="large", parse_math=False)
    figure.legend(
        handles=_legend_handles(rows),
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize="small",
    )
    return figure


def _legend_handles(rows: list[_Row]) -> list[Artist]:
    """Of what is there."""
    handles: list[Artist] = [
        Line2D([], [], color=colour, label=_WORDS[verdict], **_DOT)
        for verdict, colour in _COLOURS.items()
        if any(row.is_inside is verdict for row in rows)
    ]
    if any(row.expected for row in rows):
        handles.append(Patch(color=_EXPECTED, label="expected"))
    if any(row.published[0] < row.published[1] for row in rows):
        handles.append(
            Line2D([], [], color=_PUBLISHED, lw=2.5, label="published range, middle at 1")
        )
    return handles


def _limits(rows: list[_Row]) -> Range:
    """Of the axis: all that is shown, but for bars that have no end, and some air."""
    shown = [end for row in rows for end in (row.ours, *row.published, *(row.expected or ()))]
    shown = [_cut(end) for end in shown if 0 < end < math.inf]
    return min([*shown, 0.7]) / 1.05, max([*shown, 1.5]) * 1.05


def _cut(ratio: float) -> float:
    return min(max(ratio, 1 / _MOST), _MOST)


def _rows_of_values(results: list[Result]) -> tuple[list[_Row], str]:
    """And what the labels would all have in common."""
    parts = [(r.series.title, str(r.at), metric_words(r.metric)) for r in results]
    differs = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    if not any(differs):
        differs = [True] * len(differs)
    labels = [", ".join(p for p, d in zip(part, differs, strict=True) if d) for part in parts]
    common = ", ".join(p for p, d in zip(*parts[:1], differs, strict=False) if not d)
    return [
        _Row(
            label=label,
            published=(1, 1),
            ours=r.ours / r.published,
            expected=_expected(r),
            is_inside=r.is_inside,
            words=f"{value(r.metric, r.published)} → {value(r.metric, r.ours)}",
        )
        for label, r in zip(labels, results, strict=True)
    ], common


def _expected(result: Result) -> Range | None:
    if result.is_inside is None:
        return None
    part = result.tolerance / result.published if result.series.absolute else result.tolerance
    return 1 - part, 1 + part


def _row_of_outcome(outcome: Outcome) -> _Row | None:
    """By the middle of what was published, where that is a range."""
    if outcome.measured is None:
        return None
    published, ours, expected = outcome.measured
    middle = math.sqrt(published[0] * published[1])
    if not middle > 0 or math.isnan(ours):
        return None
    return _Row(
        label=outcome.name,
        published=(published[0] / middle, published[1] / middle),
        ours=ours / middle,
        expected=(expected[0] / middle, expected[1] / middle),
        is_inside=outcome.is_inside,
        words=f"{outcome.published} → {outcome.ours}",
    )
