"""Figures of sweeps: what is drawn is seen, whole and apart."""

import itertools

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from sim.plots.lines import latency, throughput
from sim.report import sweep_figures
from sim.sweep.figures import by_key, grouped_lines
from sim.sweep.heat_maps import heat_maps

ROUTERS = ["round-robin", "least-requests", "power-of-two", "least-kv", "prefix-hash"]
SIZES = [512, 1024, 2048]
LONG = ["first-system-with-a-long-name-of-forty-letters", "second", "third", "fourth-of-long-names"]


def swept(systems: list[str], **keys: list) -> pd.DataFrame:
    """Two seeds a point; every system is three times as late as the one before it."""
    return pd.DataFrame(
        {
            "system": system,
            **dict(zip(keys, values, strict=True)),
            "seed": seed,
            "output_tokens_per_s": 100 + seed,
            "ttft_p99_s": 3**number * (1 + seed / 10),
        }
        for number, system in enumerate(systems)
        for values in itertools.product(*keys.values())
        for seed in (1, 2)
    )


def drawn(figure: Figure) -> Figure:
    FigureCanvasAgg(figure).draw()
    return figure


@pytest.mark.parametrize("metric", ["ttft_p99_s", "output_tokens_per_s"])
def test_no_point_lies_outside_of_its_panel(metric):
    """The second panel has larger values than the first, whose range it shares."""
    frame = swept(["a", "b"], rate=[1, 2, 3], size=[8, 16])
    for axes in drawn(grouped_lines(frame, metric)).axes:
        low, high = axes.get_ylim()
        for bars in axes.containers:
            assert isinstance(bars, ErrorbarContainer)
            assert all(low <= value < high for value in bars.lines[0].get_ydata())


@pytest.mark.parametrize(
    "figure",
    [
        grouped_lines(swept(["a"], max_num_batched_tokens=SIZES, rate=[1, 2, 3, 4]), "ttft_p99_s"),
        by_key(swept(LONG, router=ROUTERS), "ttft_p99_s", {"router": ROUTERS}),
        throughput(swept(LONG, rate=[1, 2]), "rate"),
    ],
    ids=["two keys", "one category", "one number"],
)
def test_a_legend_is_whole(figure):
    (legend,) = drawn(figure).legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert 0 <= box.y0 < box.y1 <= figure.bbox.height


def test_lines_are_told_apart_by_a_legend_with_the_key_above():
    figure = grouped_lines(
        swept(["a"], **{"engine.block_size": [8, 16], "rate": [1, 2, 3]}), "ttft_p99_s"
    )
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "block size"
    assert [text.get_text() for text in legend.get_texts()] == ["8", "16"]


SEVEN = [f"system {number}" for number in range(7)]


@pytest.mark.parametrize(
    "figure",
    [
        throughput(swept(SEVEN, rate=[1, 2]), "rate"),
        by_key(swept(SEVEN, rate=[1, 2], size=[1, 2], n=[1, 2]), "ttft_p99_s", {}),
        grouped_lines(swept(["a"], size=[*range(7)], rate=[*range(8)]), "ttft_p99_s"),
    ],
    ids=["one key", "three keys", "two keys"],
)
def test_no_two_lines_have_colour_and_dashes_in_common(figure):
    """There are six colours."""
    lines = [bars.lines[0] for bars in figure.axes[0].containers]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(lines) == 7


def test_dashes_of_latencies_are_percentiles_only():
    frame = swept(SEVEN, rate=[1, 2])
    for name in ("ttft_p50_s", "tpot_p50_s", "tpot_p99_s"):
        frame[name] = 1.0
    lines = [bars.lines[0] for bars in latency(frame, "rate").axes[0].containers]
    assert [line.get_linestyle() for line in lines] == [":"] * 7 + ["-"] * 7


def test_categories_are_points_apart_with_labels_that_do_not_meet():
    frame = swept(["a", "b"], router=ROUTERS)
    figure = drawn(by_key(frame, "ttft_p99_s", {"router": ROUTERS}))
    (axes,) = figure.axes
    lines = [bars.lines[0] for bars in axes.containers]
    assert [line.get_linestyle() for line in lines] == ["None", "None"]
    assert not set(lines[0].get_xdata()) & set(lines[1].get_xdata())
    labels = axes.get_xticklabels()
    assert [label.get_text() for label in labels] == ROUTERS
    # Slanting by 35 degrees, lines of text that are further apart than they are high do not meet.
    places = [axes.transData.transform((number, 0))[0] for number in range(2)]
    assert {label.get_rotation() for label in labels} == {35}
    assert (places[1] - places[0]) * 0.57 > labels[0].get_fontsize() / 72 * figure.dpi


def test_categories_are_points_in_a_report_too():
    def modes(**values: list) -> set[str]:
        (key,) = values
        figure = sweep_figures.by_key(swept(["a", "b"], **values), key, values)
        return {trace["mode"] for trace in figure["data"]}

    assert modes(router=ROUTERS) == {"markers"}
    assert modes(rate=[1, 2]) == {"lines+markers"}


# Four points of six, in whose order no router stands where it was given.
GIVEN = {"rate": [1, 2], "router": ["z", "y", "x"]}
SAMPLE = swept(["a", "b"], **GIVEN).query(
    "rate == 1 and router != 'z' or rate == 2 and router != 'y'"
)


def test_each_point_of_a_sample_is_a_dot_at_its_value():
    """A mean over the other key would be one of other routers at each rate."""
    figure = drawn(by_key(SAMPLE, "output_tokens_per_s", GIVEN))
    rate, router = figure.axes
    for axes in (rate, router):
        dots = axes.lines[0]
        assert (dots.get_linestyle(), dots.get_ydata().tolist()) == ("None", [101.5] * 4)
    assert rate.lines[0].get_xdata().tolist() == [0, 0, 1, 1]
    assert router.lines[0].get_xdata().tolist() == [1, 2, 0, 2]
    assert [label.get_text() for label in router.get_xticklabels()] == ["z", "y", "x"]
    assert figure.get_supxlabel() == (
        "each dot is a point of the sample; other keys differ; mean of 2 runs"
    )


def test_each_point_of_a_sample_is_a_dot_in_a_report_too():
    figure = sweep_figures.by_key(SAMPLE, "router", GIVEN)
    trace = figure["data"][0]
    assert (trace["mode"], trace["x"], trace["y"]) == ("markers", [*"yxzx"], [101.5] * 4)
    assert trace["text"][0] == "rate 1<br>router y"
    assert figure["layout"]["xaxis"]["categoryarray"] == ["z", "y", "x"]


def test_values_that_are_no_numbers_stand_as_they_were_given():
    frame = swept(["a"], router=["z", "y", "x"], rate=[1, 2, 3, 4])
    (legend,) = grouped_lines(frame, "ttft_p99_s").legends
    assert [text.get_text() for text in legend.get_texts()] == ["z", "y", "x"]
    figure = sweep_figures.heat_maps(frame, "ttft_p99_s", {"router": ["z", "y", "x"]})
    assert figure["layout"]["xaxis"]["categoryarray"] == ["z", "y", "x"]


def test_a_heat_map_speaks_of_no_bars():
    figure = heat_maps(swept(["a"], rate=[1, 2], size=[8, 16]), "ttft_p99_s")
    assert figure.get_supxlabel() == "mean of 2 runs"
