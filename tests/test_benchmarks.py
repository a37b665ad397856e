"""The benchmarks run and print what they promise; how fast, no test asks."""

from collections import Counter

import pandas as pd
import pytest
import typer

from benchmarks import anchors
from benchmarks.anchor_checks import ratios_and_order, saturation
from benchmarks.million import main
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.scenario.file import load_scenario
from sim.simulate import simulate

MODES = {
    "as it is": {},
    "stepwise": {"stepwise": True},
    "shared prompts": {"shared_tokens": 400, "prefix_caching": True},
    "asynchronous, long outputs": {"asynchronous": True, "output_factor": 2.0},
}


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_a_small_run_prints_every_figure(options: dict, capsys: pytest.CaptureFixture) -> None:
    main(requests=30, **options)
    lines = capsys.readouterr().out.splitlines()
    figures = {line[:28].strip(): float(line[28:].replace(",", "")) for line in lines}
    assert figures.keys() == {
        "requests",
        "simulated requests/s",
        "simulated output tokens/s",
        "steps per request",
        "SimPy events per request",
        "running at once, mean",
        "pool held, %",
        "preemptions",
        "generate, s",
        "simulate, s",
        "summarise, s",
        "altogether, s",
        "peak memory, MB",
    }
    assert figures["requests"] == 30
    assert figures["steps per request"] > 1


@pytest.mark.parametrize("series", anchors.load_series(), ids=lambda s: f"{s.entry} {s.title}")
def test_every_anchor_has_a_scenario_and_a_value_at_each_point(series: anchors.Series) -> None:
    columns = [*series.points.values(), *series.published.values(), *series.tolerance.values()]
    assert {len(column) for column in columns} == {len(series.at)}
    assert series.tolerance.keys() <= series.published.keys()
    for place in range(len(series.at)):
        scenario = load_scenario(
            anchors.SCENARIOS / f"{series.scenario}.yaml", series.overrides(place)
        )
        assert build_config(scenario, "default").num_blocks > 1000


def test_an_anchor_is_printed_with_its_error_and_what_follows(
    capsys: pytest.CaptureFixture,
) -> None:
    anchors.main(["9.4"], ["workload.requests=20"])
    out = capsys.readouterr().out
    row = next(line.split() for line in out.splitlines() if " tpot_p50 " in line)
    assert row[row.index("tpot_p50") + 1 :][:2] == ["156", "ms"]
    assert row[-2] == "30%"
    assert row[-1] in ("inside", "OUTSIDE")
    assert "requests in flight" in out


@pytest.mark.slow
def test_as_many_anchors_are_inside_as_the_documentation_says() -> None:
    """docs/anchors.md has the reasons of those that are not."""
    results = anchors.run(anchors.load_series(), [])
    verdicts = Counter((result.series.entry, result.verdict) for result in results)
    for entry, checks in anchors.CHECKS.items():
        frame = anchors.frame_of([one for one in results if one.series.entry == entry])
        for check in checks(frame):
            verdicts[entry, "inside" if check.is_inside else "OUTSIDE"] += 1
    assert {key: count for key, count in verdicts.items() if key[1]} == {
        ("9.1", "inside"): 16,
        ("9.1", "OUTSIDE"): 2,
        ("9.2", "inside"): 30,
        ("9.2", "OUTSIDE"): 2,
        ("9.3", "inside"): 9,
        ("9.4", "inside"): 1,
        ("9.4", "OUTSIDE"): 3,
    }


def test_an_unknown_anchor_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match=r"got 9\.9, expected one of 9\.1, 9\.2"):
        anchors.main(["9.9"])


def test_a_steady_rate_counts_only_what_ends_meanwhile() -> None:
    """Ten requests of 5 tokens, one after the other: a rate is the same over any part of them."""
    scenario = Scenario.parse(
        {
            "name": "steady",
            "latency": {"kind": "constant", "step_time_s": 0.1},
            "workload": {
                "requests": 10,
                "arrivals": {"closed_loop": {"concurrency": 1}},
                "prompts": {"unique": 8},
                "outputs": 5,
            },
        }
    )
    records = simulate(scenario, "default")
    for first, last in ((0, 10), (2, 9), (5, 6)):
        metrics = anchors.steady(records, first, last)
        assert metrics["output_tokens_per_s"] == pytest.approx(10)
        assert metrics["requests_per_s"] == pytest.approx(2)
        assert metrics["in_flight"] == pytest.approx(1)


def test_columns_in_another_order_are_named() -> None:
    results = pd.DataFrame(
        [
            (gpu, at, "output_tokens_per_s", published, ours)
            for gpu in ("H100", "H200")
            for at, published, ours in (
                ("a", 100.0, 120.0),
                ("b", 200.0, 110.0),
                ("c", 202.0, 90.0),
            )
        ],
        columns=["series", "at", "metric", "published", "ours"],
    )
    *ratios, order, _ = ratios_and_order(results)
    assert all(ratio.is_inside for ratio in ratios)
    assert order.ours == "not a < b, a < c"  # b and c are too near to have an order
    assert not order.is_inside


def test_the_line_of_ttft_is_found() -> None:
    """TTFT of 0.44 s for every user beyond 100, where 0.4 s beyond 80 was published."""
    users = (100, 150, 200, 250)
    rows = [("x", n, "ttft_mean_s", 0.4 * (n - 80), 0.44 * (n - 100)) for n in users]
    rows += [("x", n, "output_tokens_per_s", 900.0, 600.0) for n in users]
    results = pd.DataFrame(rows, columns=["series", "at", "metric", "published", "ours"])
    begin, slope, plateau = saturation(results)
    assert (begin.published, begin.ours, begin.is_inside) == ("80", "100", True)
    assert (slope.published, slope.ours, slope.is_inside) == ("0.4", "0.44", True)
    assert (plateau.ours, plateau.is_inside) == ("600", False)
