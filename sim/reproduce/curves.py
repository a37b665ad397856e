"""Of what was printed as an image at most: ours at each point, as lines."""

import math
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, FuncFormatter, LogLocator, NullLocator

from sim.one_run import words
from sim.plots.colours import SYSTEM_COLOURS
from sim.plots.style import SECONDS, SYSTEM_MARKERS, tidy
from sim.reproduce.capacities import Capacities, Capacity
from sim.reproduce.checks import Below
from sim.reproduce.paper import Paper, Series
from sim.reproduce.run import Result
from sim.reproduce.words import is_share, metric_words, value

_LEAST_LOGARITHMIC = 10  # the largest by the smallest value of a panel
_PANEL_INCHES = (5.2, 5.4)  # with the legend below it
_LEAST_INCHES = 6.5
_MOST_IN_A_ROW = 3
_TITLE_LETTERS_PER_INCH = 11


def draw_curves(paper: Paper, results: list[Result]) -> Figure | None:
    """A panel for each metric of which no value was printed, over each scenario; a line a series.

    None where there is no such metric.
    """
    printed = {r.metric for r in results if r.is_printed}
    panels: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        if r.metric not in printed:
            panels.setdefault((r.series.scenario, r.metric), []).append(r)
    if not panels:
        return None
    num_columns = min(len(panels), _MOST_IN_A_ROW)
    num_rows = math.ceil(len(panels) / num_columns)
    width = max(_LEAST_INCHES, num_columns * _PANEL_INCHES[0])
    height = num_rows * _PANEL_INCHES[1]
    figure = Figure(figsize=(width, height), layout="constrained")
    for place, ((_, metric), shown) in enumerate(panels.items(), start=1):
        _draw_panel(figure.add_subplot(num_rows, num_columns, place), paper, metric, shown)
    title = fill(paper.title, int(_TITLE_LETTERS_PER_INCH * width))
    figure.suptitle(title, x=0.01, ha="left", fontsize="large", parse_math=False)
    return figure


def _draw_panel(axes: Axes, paper: Paper, metric: str, results: list[Result]) -> None:
    # Equal series look the same in all panels of a scenario.
    beside = [s for s in paper.series if s.scenario == results[0].series.scenario]
    styles: dict[str, dict[str, Any]] = {
        series.title: {
            "color": SYSTEM_COLOURS[number % len(SYSTEM_COLOURS)],
            "marker": SYSTEM_MARKERS[number % len(SYSTEM_MARKERS)],
        }
        for number, series in enumerate(beside)
    }
    shown = [series for series in beside if any(r.series is series for r in results)]
    for series in shown:
        points = [(r.at, r.ours) for r in results if r.series is series]
        axes.plot(*zip(*points, strict=True), label=series.title, **styles[series.title])
    limits = _draw_capacities(axes, paper, metric, {t: s["color"] for t, s in styles.items()})
    values = [r.ours for r in results]
    if limits:  # linear, so that lines cross a limit where capacities are found
        axes.set_ylim(0, 2 * max(limits))
    elif max(values) > _LEAST_LOGARITHMIC * min(values) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.1 * max(values))
    axes.yaxis.set_major_formatter(_form(metric))
    axes.set_ylabel(metric_words(metric))
    axes.set_xlabel(_swept(shown))
    tidy(axes)
    # Below the panel: wherever lines leave room inside, the next paper's do not.
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.15),
        ncols=2,
        frameon=False,
        fontsize="small",
    )


def _form(metric: str) -> Formatter | str:
    """How its values stand at an axis."""
    if is_share(metric):
        return FuncFormatter(lambda share, _: f"{100 * share:g}%")
    is_time = metric.endswith("_s") and not metric.endswith("_per_s")
    return SECONDS if is_time else "{x:,g}"


def _draw_capacities(axes: Axes, paper: Paper, metric: str, colours: dict[str, str]) -> set[float]:
    """Limits, also those at which series have their capacity; a ring where one was published.

    colours: of the series that are shown.
    """
    limits: set[float] = set()
    for check in paper.checks:
        if isinstance(check, Below) and check.metric == metric:
            limits.add(check.limit)
        if isinstance(check, Capacities) and metric in check.limits:
            limits |= check.limits[metric]
            if isinstance(check, Capacity) and check.metric == metric and check.series in colours:
                axes.plot(
                    check.published,
                    check.limit,
                    linestyle="",
                    marker="o",
                    markersize=11,
                    markerfacecolor="none",
                    color=colours[check.series],
                    label=f"{check.series}, published",
                )
    for limit in sorted(limits):
        axes.axhline(
            limit, color="#555555", lw=0.8, ls="--", label=f"limit, {value(metric, limit)}"
        )
    return limits


def _swept(shown: list[Series]) -> str:
    """What the points are values of, if a setting of each series says so."""
    keys = {
        next((s.partition("=")[0] for s in series.settings if s.endswith("={at}")), "")
        for series in shown
    }
    if len(keys) != 1:
        return ""
    (key,) = keys
    return "requests/s offered" if key.endswith(".rate") else words(key)
