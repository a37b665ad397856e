"""Of what was printed as an image at most: ours at each point, as lines."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from sim.plots.style import SECONDS, SYSTEM_COLOURS, SYSTEM_MARKERS, tidy, words
from sim.reproduce.capacities import Capacities, Capacity
from sim.reproduce.paper import Paper
from sim.reproduce.run import Result
from sim.reproduce.words import metric_words, value

_LEAST_LOGARITHMIC = 10  # the largest by the smallest value of a panel


def draw_curves(paper: Paper, results: list[Result]) -> Figure | None:
    """A panel for each metric of which no value was printed, a line for each series.

    None where there is no such metric.
    """
    printed = {r.metric for r in results if r.is_printed}
    metrics = list(dict.fromkeys(r.metric for r in results if r.metric not in printed))
    if not metrics:
        return None
    figure = Figure(figsize=(max(7, 5 * len(metrics)), 4.6), layout="constrained")
    for axes, metric in zip(
        figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True
    ):
        _draw_panel(axes, paper, metric, [r for r in results if r.metric == metric])
    figure.suptitle(paper.title, x=0.01, ha="left", fontsize="large")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_panel(axes: Axes, paper: Paper, metric: str, results: list[Result]) -> None:
    for number, series in enumerate(paper.series):
        points = [(r.at, r.ours) for r in results if r.series is series]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                label=series.title,
                color=SYSTEM_COLOURS[number % len(SYSTEM_COLOURS)],
                marker=SYSTEM_MARKERS[number % len(SYSTEM_MARKERS)],
            )
    limits = _draw_capacities(axes, paper, metric)
    values = [r.ours for r in results]
    if limits:  # linear, so that lines cross a limit where capacities are found
        axes.set_ylim(0, 2 * max(limits))
    elif max(values) > _LEAST_LOGARITHMIC * min(values) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    is_time = metric.endswith("_s") and not metric.endswith("_per_s")
    axes.yaxis.set_major_formatter(SECONDS if is_time else "{x:,g}")
    axes.set_ylabel(metric_words(metric))
    axes.set_xlabel(_swept(paper))
    tidy(axes)


def _draw_capacities(axes: Axes, paper: Paper, metric: str) -> set[float]:
    """The limits at which series have their capacity, as lines; a ring where one was published."""
    colours = {
        series.title: SYSTEM_COLOURS[number % len(SYSTEM_COLOURS)]
        for number, series in enumerate(paper.series)
    }
    limits: set[float] = set()
    for check in paper.checks:
        if isinstance(check, Capacities) and metric in check.limits:
            limits |= check.limits[metric]
            if isinstance(check, Capacity) and check.metric == metric:
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


def _swept(paper: Paper) -> str:
    """What the points are values of, if a setting says so."""
    settings = {setting for series in paper.series for setting in series.settings}
    keys = {setting.partition("=")[0] for setting in settings if setting.endswith("={at}")}
    if len(keys) != 1:
        return ""
    (key,) = keys
    return "requests/s offered" if key.endswith(".rate") else words(key)
