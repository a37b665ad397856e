"""The curve of a plan: how far each promise is used up along the setting, and its limit."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from sim.plan.plan import Plan
from sim.plots.colours import SYSTEM_COLOURS
from sim.plots.scales import MOST_OF_LIMIT, WIDE, log_ticks
from sim.plots.style import SMALL, SYSTEM_MARKERS, tidy


def curve(plan: Plan) -> Figure:
    """Means over the seeds with the intervals that decide, from 0 to three times the limit."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.add_subplot()
    tried = plan.boundary.tried
    places = sorted(tried, key=lambda place: plan.goal.values[place])
    for number, name in enumerate(plan.at_answer.names):
        points = [tried[place].used(name) for place in places]
        shown = [
            (plan.goal.values[place], mean, half_width)
            for place, (mean, half_width) in zip(places, points, strict=True)
            if np.isfinite(mean)
        ]
        colour = SYSTEM_COLOURS[(number + 1) % len(SYSTEM_COLOURS)]
        values, means, half_widths = np.array(shown).reshape(-1, 3).T
        axes.errorbar(
            values,
            means,
            yerr=half_widths,
            label=name,
            color=colour,
            marker=SYSTEM_MARKERS[number % len(SYSTEM_MARKERS)],
            markersize=5,
            capsize=3,
        )
        means_of_all = (mean for mean, _ in points)
        beyond = _beyond(plan, zip(places, means_of_all, strict=True))
        if beyond:  # a line of no points would take room as far as the corner of the figure
            axes.plot(beyond, [MOST_OF_LIMIT] * len(beyond), "^", color=colour, ms=8, clip_on=False)
    axes.axhline(1, color="#555555", lw=1, ls="--")
    axes.text(1.01, 1, "limit", transform=axes.get_yaxis_transform(), va="center", **SMALL)
    if plan.answer is not None:
        axes.axvline(plan.answer, color="#555555", lw=1, ls=":")
        words = plan.goal.words(plan.boundary.kept or 0)
        axes.set_title(f"Promises are kept at {words}", loc="left")
    axes.set_ylim(0, MOST_OF_LIMIT)
    _set_axis(axes, plan, [plan.goal.values[place] for place in places])
    axes.set_ylabel("share of the limit that is used")
    tidy(axes)
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    numbers = [len(evaluation.rows) for evaluation in tried.values()]
    confidence = 100 * plan.at_answer.confidence
    bars = f"bars: {confidence:.4g} % interval, ▲: beyond"
    runs = f"{min(numbers)} to {max(numbers)} runs a point, {bars}"
    figure.supxlabel(runs, x=0.99, ha="right", **SMALL)
    return figure


def _set_axis(axes: Axes, plan: Plan, values: list[float]) -> None:
    """Of what was sought; values: that were tried."""
    if max(values) >= WIDE * min(values):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(log_ticks(*axes.get_xlim())))
        axes.xaxis.set_minor_locator(NullLocator())
    elif plan.goal.name != "rate":  # whole numbers
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.xaxis.set_major_formatter("{x:,.12g}")
    axes.set_xlabel(plan.goal.heading)


def _beyond(plan: Plan, means: Iterable[tuple[int, float]]) -> list[float]:
    """Values at which a promise is broken further than is shown. means: by place."""
    return [plan.goal.values[place] for place, mean in means if mean > MOST_OF_LIMIT]
