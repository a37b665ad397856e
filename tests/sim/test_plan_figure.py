"""The curve of a plan: its axis can be read, and all room is the curve's."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from sim.plan.evaluation import RATIO, Evaluation
from sim.plan.figure import curve
from sim.plan.goals import Goal
from sim.plan.plan import Plan
from sim.plan.search import Boundary
from sim.plots.scales import log_ticks

NAMES = ("ttft_p99<1s", "tpot_p99<0.05s")


def axes_of(name: str, *values: float):
    """Of two promises, of which the first is broken far beyond at the last value."""
    goal = Goal(name, name, True, values, 0, 1, lambda _: None)
    tried = {
        place: Evaluation(
            tuple({RATIO + NAMES[0]: 5.0 * is_last, RATIO + NAMES[1]: 0.5} for _ in range(2)),
            NAMES,
            scenario=None,
        )
        for place in range(len(values))
        for is_last in [place == len(values) - 1]
    }
    figure = curve(Plan(None, "default", goal, Boundary(0, len(values) - 1, tried)))
    FigureCanvasAgg(figure).draw()
    return figure.axes[0]


def labels(axes) -> list[str]:
    """Of the ticks that are seen."""
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return [label.get_text() for value, label in ticks if low <= value <= high]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (4, 48, [5, 7, 10, 20, 30]),
        (0.05, 2, [0.1, 0.3, 1]),
        (1, 100_000, [1, 10, 100, 1000, 10_000, 100_000]),
    ],
)
def test_a_logarithmic_axis_has_some_ticks_of_each_power_of_ten(low, high, ticks):
    assert log_ticks(low, high) == ticks


def test_rates_of_a_wide_range_have_ticks():
    assert labels(axes_of("rate", 4, 20, 48)) == ["5", "7", "10", "20", "30", "50"]


def test_whole_numbers_have_no_ticks_between_them():
    assert labels(axes_of("replicas", 1, 2, 3)) == ["1", "2", "3"]


def test_the_curve_takes_the_room_there_is():
    """One promise of two is never beyond: a line of no points would reach into the corner."""
    box = axes_of("rate", 4, 20, 48).get_position()
    assert box.x0 < 0.1
    assert box.y0 < 0.2
