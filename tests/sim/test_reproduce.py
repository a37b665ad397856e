"""Published figures: read, simulated, set beside ours, and asked for what follows."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from sim.errors import UserError
from sim.reproduce.capacities import (
    Capacity,
    CapacityOrder,
    CapacityRatio,
    CapacitySplit,
    GainOrder,
)
from sim.reproduce.checks import Below, Growing, Line, Multiple, Order, Plateau, Ratio, Rising
from sim.reproduce.figure import draw_ratios
from sim.reproduce.outcome import Measured, Outcome
from sim.reproduce.paper import Paper, Series, load_papers
from sim.reproduce.run import Result, as_frame, run_paper, steady
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.scenario.file import load_scenario
from sim.simulate import simulate

FOLDER = Path(__file__).parents[2] / "scenarios" / "published"
PAPERS = load_papers(FOLDER, [])
DOCS = (FOLDER.parents[1] / "docs" / "reproduce.md").read_text("utf-8")
DOCUMENTED = [
    (name, int(num_inside), int(num_outside))
    for name, num_inside, num_outside in re.findall(r"\| `(.+)` \| (\d+) \| (\d+) \|", DOCS)
]
ALL_SERIES = [(name, series) for name, paper in PAPERS.items() for series in paper.series]

SMALL = """\
name: small
latency: {kind: constant, step_time_s: 0.1}
engine: {num_blocks: 64}
workload:
  requests: 10
  arrivals: {closed_loop: {concurrency: 1}}
  prompts: {unique: 8}
  outputs: 5
"""
PRINTED = """\
title = "A paper"
source = "nowhere"
[[series]]
title = "ours"
scenario = "small"
settings = ["workload.outputs={out}"]
points = { at = ["short", "long"], out = [5, 9] }
published = { tpot_mean_s = [0.1, 0.125], requests_per_s = [nan, 1.0] }
tolerance = { tpot_mean_s = [0.01, 0.1] }
[[checks]]
kind = "below"
metric = "tpot_mean_s"
limit = 1
"""


@pytest.fixture
def published(kvsim):
    """A folder of one publication, `mine`, beside which the command is called."""
    folder = kvsim.folder / "published"
    folder.mkdir()
    (folder / "small.yaml").write_text(SMALL)
    (folder / "mine.toml").write_text(PRINTED)
    return folder


@pytest.mark.parametrize(("name", "series"), ALL_SERIES, ids=lambda v: getattr(v, "title", v))
def test_every_series_has_a_scenario_at_each_point(name, series):
    for place in range(len(series.at)):
        scenario = load_scenario(FOLDER / f"{series.scenario}.yaml", series.overrides(place))
        assert build_config(scenario, series.system).num_blocks > 500


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_inside", "num_outside"), DOCUMENTED)
def test_as_many_are_inside_as_the_documentation_says(name, num_inside, num_outside):
    """docs/reproduce.md has the reasons of those that are not."""
    paper = PAPERS[name]
    results = run_paper(paper, FOLDER, [])
    outcomes = [o for check in paper.checks for o in check.outcomes(as_frame(results))]
    verdicts = [*(r.is_inside for r in results), *(o.is_inside for o in outcomes)]
    assert (verdicts.count(True), verdicts.count(False)) == (num_inside, num_outside)


def test_the_documentation_counts_every_publication():
    assert {name for name, _, _ in DOCUMENTED} == set(PAPERS)
    assert len(DOCUMENTED) == len(PAPERS)
    sums = [sum(row[column] for row in DOCUMENTED) for column in (1, 2)]
    assert f"| all | {sums[0]} | {sums[1]} |" in DOCS


@pytest.mark.slow
def test_shares_of_the_memory_add_up_to_all_of_it():
    """Token states, reservation, internal, external and others; of whole numbers of slots."""
    results = run_paper(PAPERS["pagedattention-memory"], FOLDER, ["workload.requests=300"])
    by_series = as_frame(results).groupby("series")["ours"]
    sums = {name: sum(shares) for name, shares in by_series if name != "vLLM"}
    assert sums == pytest.approx(dict.fromkeys(sums, 1.0), rel=1e-12)
    assert len(sums) == 3


# --- the command ---


def test_command_prints_values_and_what_follows_and_leaves_a_page_and_a_figure(kvsim, published):
    done = kvsim("reproduce", "--scenarios", "published", "--out", "pages")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [
        "ours",
        "short",
        "TPOT",
        "mean",
        "100",
        "ms",
        "100",
        "ms",
        "0%",
        "1%",
        "inside",
    ] in lines
    assert [
        "ours",
        "long",
        *("TPOT", "mean"),
        "125",
        "ms",
        "100",
        "ms",
        "-20%",
        "10%",
        "OUTSIDE",
    ] in lines
    assert "mine: 3 of 4 inside" in done.stdout
    left = {path.name for path in (kvsim.folder / "pages").iterdir()}
    assert left == {"mine.md", "mine.png", "reproduced.json"}
    page = (kvsim.folder / "pages" / "mine.md").read_text()
    assert "| ours | long | TPOT mean | 125 ms | 100 ms | -20% | 10% | OUTSIDE |" in page


@pytest.mark.slow
def test_what_was_never_printed_becomes_lines_and_a_table_of_ours(kvsim, published):
    path = published / "mine.toml"
    text = path.read_text().replace("0.1, 0.125", "nan, nan").replace("nan, 1.0", "nan, nan")
    path.write_text(text)
    done = kvsim("reproduce", "--scenarios", "published", "--out", "pages")
    assert done.returncode == 0, done.stderr
    left = {path.name for path in (kvsim.folder / "pages").iterdir()}
    assert left == {"mine.md", "mine-curves.png", "reproduced.json"}
    page = (kvsim.folder / "pages" / "mine.md").read_text()
    assert "| ours | long | TPOT mean | 100 ms |" in page
    assert "| TPOT mean at long |  | 100 ms | below 1 s | inside |" in page
    assert "nan" not in page + done.stdout


@pytest.mark.slow
def test_command_prints_json(kvsim, published):
    done = kvsim("reproduce", "mine", "--scenarios", "published", "--json")
    (paper,) = json.loads(done.stdout)
    columns = ("published", "is_inside", "tolerance")
    assert [tuple(v[name] for name in columns) for v in paper["values"]] == [
        (0.1, True, 0.01),
        (None, None, None),
        (0.125, False, 0.1),
        (1.0, None, None),
    ]
    assert paper["follows"][0]["expected"] == "below 1 s"


@pytest.mark.slow
def test_command_replaces_no_folder_but_an_earlier_reproduction(kvsim, published):
    (kvsim.folder / "pages").mkdir()
    (kvsim.folder / "pages" / "precious").write_text("x")
    done = kvsim("reproduce", "--scenarios", "published", "--out", "pages")
    assert done.returncode == 2
    assert done.stderr.startswith("kvsim: pages: is there and no earlier reproduction")
    assert kvsim.left("pages") == ["precious"]
    (kvsim.folder / "reproduced.json").write_text("{}")
    here = kvsim("reproduce", "--scenarios", "published", "--out", ".")
    assert "kvsim: .: is where you are" in here.stderr
    (kvsim.folder / "pages" / "reproduced.json").write_text("{}")
    beside = kvsim("reproduce", "--scenarios", "published", "--out", "pages")
    assert "kvsim: pages: has precious beside an earlier reproduction" in beside.stderr
    assert kvsim.left("pages") == ["precious", "reproduced.json"]
    for _ in range(2):
        again = kvsim("reproduce", "--scenarios", "published", "--out", "other")
        assert again.returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mine", "yours", "got yours, expected one of mine"),
        ('source = "nowhere"', "", "mine.toml: source: missing"),
        ("out = [5, 9]", "out = [5]", "mine.toml: series.0.out: got 1 values, expected 2"),
        ('kind = "below"', 'kind = "above"', "mine.toml: checks.0.kind: got 'above', expected"),
        ("[[series]]", "[[series]", "mine.toml: Expected"),
        ('"small"', '"large"', "large.yaml: no such file"),
        ("outputs={out}", "outputs={far}", "settings: {far} is no name of `points`"),
        ("tpot_mean_s = [0.1,", "tpot_mean = [0.1,", "tolerance: got tpot_mean_s, expected"),
        ("[0.1, 0.125]", "[0.1]", "mine.toml: series.0.tpot_mean_s: got 1 values, expected 2"),
        ('"small"', '"small"\nsystem = "vlm"', "ours: got system 'vlm', published/small.yaml has"),
        ('metric = "tpot', 'metric = "itl', "checks.0.metric: got 'itl_mean_s', expected one that"),
        (
            'kind = "below"',
            'kind = "growing"\nof = "ours"\nto = "theirs"\nmetric = "tpot_mean_s"\n'
            '[[checks]]\nkind = "below"',
            "checks.0: got series 'theirs', expected one of ours",
        ),
        (
            'kind = "below"',
            'kind = "rising"\nseries = ["ours", "ours"]\nat = ["never"]\nmetric = "tpot_mean_s"\n'
            '[[checks]]\nkind = "below"',
            "checks.0: got point 'never', expected one of",
        ),
        (
            "out = [5, 9]",
            "out = [5, 5000]",
            "ours at long: request 0: 8 prompt + up to 4088 new tokens need",
        ),
    ],
)
def test_mistakes_are_lines_that_name_the_place(kvsim, published, old, new, message):
    name = "yours" if old == "mine" else "mine"
    path = published / "mine.toml"
    path.write_text(path.read_text().replace(old, new))
    done = kvsim("reproduce", name, "--scenarios", "published")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_metric_that_nobody_measures_is_named(kvsim, published):
    path = published / "mine.toml"
    path.write_text(path.read_text().replace("requests_per_s", "requests_per_hour"))
    done = kvsim("reproduce", "mine", "--scenarios", "published")
    assert done.returncode == 2
    assert "requests_per_hour: no such metric" in done.stderr


def test_folder_without_publications_is_named(tmp_path):
    with pytest.raises(UserError, match="no published figures; expected files such as NAME"):
        load_papers(tmp_path, [])


# --- by hand ---


def test_a_steady_rate_counts_only_what_ends_meanwhile():
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
        metrics = steady(records, first, last)
        assert metrics["output_tokens_per_s"] == pytest.approx(10)
        assert metrics["requests_per_s"] == pytest.approx(2)
        assert metrics["in_flight"] == pytest.approx(1)


def result(published: float, ours: float, tolerance: float, *, absolute: bool) -> Result:
    paper = Paper.model_validate(
        {
            "title": "t",
            "source": "s",
            "series": [
                {
                    "title": "x",
                    "scenario": "y",
                    "points": {"at": ["p"]},
                    "published": {"live_share": [published]},
                    "absolute": absolute,
                }
            ],
        }
    )
    series: Series = paper.series[0]
    return Result(
        series=series,
        at="p",
        metric="live_share",
        published=published,
        ours=ours,
        tolerance=tolerance,
    )


def test_errors_are_relative_or_differences():
    assert result(0.2, 0.25, 0.3, absolute=False).error == pytest.approx(0.25)
    assert result(0.2, 0.25, 0.3, absolute=True).error == pytest.approx(0.05)
    assert result(0.0, 0.0, 0.0, absolute=True).is_inside
    assert result(0.2, 0.25, math.nan, absolute=True).is_inside is None
    assert not result(0.2, 0.25, 0.04, absolute=True).is_inside


def frame(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["series", "at", "metric", "published", "ours"])


def test_figure_has_numbers_by_what_was_published():
    """0.25 by 0.2, of which 0.1 to 0.3 is inside; 3 by 4, of which 2.5 at least is expected; and

    6 by 4 to 16, whose middle is 8. An order is no number, and what is far off is at the edge.
    """
    values = [result(0.2, 0.25, 0.1, absolute=True)]
    outcomes = [
        Outcome("y / x", "4", "3", "2.5 at least", True, Measured((4, 4), 3, (2.5, math.inf))),
        Outcome("order", "x < y", "the same", "the same", True),
        Outcome("far", "4 to 16", "6", "20 to 24", False, Measured((4, 16), 6, (20, 24))),
        Outcome("far", "1", "50", "0.5 to 2", False, Measured((1, 1), 50, (0.5, 2))),
    ]
    figure = draw_ratios(PAPERS["mlperf-4.1"], values, outcomes)
    assert figure
    axes = figure.axes[0]
    dots = {"o": [], ">": []}
    for line in axes.lines:
        if line.get_marker() in dots:
            dots[line.get_marker()] += list(line.get_xdata())
    assert dots == {"o": pytest.approx([1.25, 0.75, 0.75]), ">": [10]}
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    high = axes.get_xlim()[1]
    expected = [(0.5, 1.5), (2.5 / 4, high), (2.5, 3), (0.5, 2)]
    assert ends == [pytest.approx(pair) for pair in expected]
    assert high > 10
    (published,) = [line for line in axes.lines if line.get_linewidth() == 2.5]
    assert list(published.get_xdata()) == [0.5, 2]


COLUMNS = frame(
    *(
        (gpu, at, "rate", published, ours)
        for gpu in ("H100", "H200")
        for at, published, ours in (("a", 100.0, 120.0), ("b", 200.0, 110.0), ("c", 202.0, 90.0))
    ),
    ("H100", "a", "another", 1.0, 1.0),
)


def test_points_in_another_order_are_named():
    """b and c are too near to have an order."""
    (order,) = Order(kind="order", metric="rate", series="H100").outcomes(COLUMNS)
    assert order == Outcome(
        "order of the points, H100", "2 pairs", "not a < b, a < c", "the same", False
    )


def test_ratios_are_taken_at_every_point():
    ratios = Ratio(kind="ratio", metric="rate", of="H200", to="H100", within=0.1).outcomes(COLUMNS)
    assert [(r.name, r.published, r.ours, r.is_inside) for r in ratios] == [
        (f"H200 / H100 at {at}", "1", "1", True) for at in "abc"
    ]


def test_multiples_are_asked_for_in_a_range_and_whether_they_grow():
    """y is 2 times x, then 3 times."""
    values = {("x", "p"): 1, ("y", "p"): 2, ("x", "q"): 2, ("y", "q"): 6}
    rows = frame(*((series, at, "m", math.nan, v) for (series, at), v in values.items()))
    about = {"metric": "m", "of": "y", "to": "x"}
    third = {"kind": "multiple", "at": "q", "published": 4, **about}
    (narrow,) = Multiple(between=[2.5, 2.9], **third).outcomes(rows)
    numbers = Measured((4, 4), 3, (2.5, 2.9))
    assert narrow == Outcome("y / x at q", "4", "3", "2.5 to 2.9", False, numbers)
    (wide,) = Multiple(between=[2.5, math.inf], **third).outcomes(rows)
    assert (wide.expected, wide.is_inside) == ("2.5 at least", True)
    across = {"kind": "multiple", "metric": "m", "of": "y", "to": "y", "at": "q", "to_at": "p"}
    (over_itself,) = Multiple(between=[0, 4], **across).outcomes(rows)
    assert over_itself == Outcome("y at q / y at p", "", "3", "0 to 4", is_inside=True)
    (ours_alone,) = Multiple(between=[1, 4], **third | {"published": None}).outcomes(rows)
    assert ours_alone == Outcome("y / x at q", "", "3", "1 to 4", True)
    (growing,) = Growing(kind="growing", **about).outcomes(rows)
    assert (growing.ours, growing.is_inside) == ("2, 3", True)
    (falling,) = Growing(kind="growing", metric="m", of="x", to="y").outcomes(rows)
    assert not falling.is_inside


def test_capacities_are_where_a_limit_is_reached():
    """Between 1 and 2 for x, whose metric goes from 0.2 to 1; between 4 and 6 for y."""
    values = {"x": [(1, 0.2), (2, 1.0), (3, 5.0)], "y": [(4, 0.4), (6, 0.6)], "z": [(7, 0.1)]}
    rows = frame(
        *((series, at, "m", math.nan, v) for series, points in values.items() for at, v in points)
    )
    about = {"metric": "m", "limit": 0.5}
    (x,) = Capacity(kind="capacity", series="x", published=1.5, within=0.2, **about).outcomes(rows)
    assert (x.ours, x.is_inside) == ("1.38", True)
    (ratio,) = CapacityRatio(
        kind="capacity ratio", of="y", to="x", published=[3, 4], between=[3.6, 3.7], **about
    ).outcomes(rows)
    assert (ratio.published, ratio.ours, ratio.is_inside) == ("3 to 4", "3.64", True)
    order, wrong = (
        CapacityOrder(kind="capacity order", series=series, **about).outcomes(rows)[0]
        for series in (["x", "y"], ["x", "z"])
    )
    assert (order.ours, order.is_inside) == ("1.38 < 5", True)
    assert (wrong.ours, wrong.is_inside) == ("1.38 < not found", False)


def test_a_capacity_is_the_lowest_of_several_metrics():
    """The delay d stops x at 3 before m does at 3.5; y has no d, and m stops it at 5."""
    values = {
        ("x", "m"): [(2, 0.2), (4, 0.6)],
        ("x", "d"): [(2, 1.0), (4, 3.0)],
        ("y", "m"): [(4, 0.4), (6, 0.6)],
    }
    rows = frame(
        *(
            (series, at, m, math.nan, v)
            for (series, m), points in values.items()
            for at, v in points
        )
    )
    about = {"metric": "m", "also": {"d": 2.0}}
    (ratio,) = CapacityRatio(
        kind="capacity ratio", limit=0.5, of="y", to="x", published="", between=[1, 2], **about
    ).outcomes(rows)
    assert (ratio.name, ratio.ours) == ("capacity, y / x, m 0.5, d 2", "1.67")
    (never,) = Capacity(
        kind="capacity", limit=0.1, series="x", published=1, within=1, **about
    ).outcomes(rows)
    assert (never.ours, never.is_inside) == ("not found", False)


def test_gains_in_capacity_are_compared_each_under_its_limit():
    """x over y is 2 / 4 where m reaches 0.2, and 3 / 5 where it reaches 0.4."""
    values = {"x": [(1, 0.0), (4, 0.6)], "y": [(3, 0.0), (4, 0.2), (5, 0.4), (6, 1.0)]}
    rows = frame(
        *((series, at, "m", math.nan, v) for series, points in values.items() for at, v in points)
    )
    gains = [{"of": "x", "to": "y", "limit": limit} for limit in (0.2, 0.4)]
    rising, falling = (
        GainOrder(kind="gain order", metric="m", gains=order).outcomes(rows)[0]
        for order in (gains, gains[::-1])
    )
    assert (rising.ours, rising.is_inside) == ("0.5 < 0.6", True)
    assert not falling.is_inside


def test_a_split_serves_what_its_slowest_part_does():
    """Two at 4 requests/s each and one at 6 serve 6: 2 a GPU, of which one for all serves 1."""
    values = {"p": (3, 5), "d": (5, 7), "c": (0, 2)}
    rows = frame(
        *(
            (series, at, "m", math.nan, v)
            for series, (low, high) in values.items()
            for at, v in ((low, 0), (high, 1))
        )
    )
    (split,) = CapacitySplit(
        kind="capacity split",
        metric="m",
        limit=0.5,
        parts={"p": 2, "d": 1},
        to="c",
        published="2.1",
        between=[1.5, 2.8],
    ).outcomes(rows)
    assert (split.name, split.ours) == ("2 p + 1 d / c, per GPU, m 0.5", "2")
    assert split.is_inside


def test_series_that_do_not_rise_are_named():
    rows = frame(("x", "p", "m", 1, 1), ("y", "p", "m", 2, 3), ("z", "p", "m", 3, 3))
    (rising,) = Rising(kind="rising", metric="m", series=["x", "y", "z"]).outcomes(rows)
    assert (rising.published, rising.ours, rising.is_inside) == ("x < y < z", "not y < z", False)


def test_the_line_and_the_plateau_are_found():
    """0.44 s for every user beyond 100, where 0.4 s beyond 80 was published."""
    users = (100, 150, 200, 250)
    rows = frame(
        *(("x", n, "ttft", 0.4 * (n - 80), 0.44 * (n - 100)) for n in users),
        *(("x", n, "rate", 900.0, 600.0) for n in users),
    )
    line = Line(kind="line", metric="ttft", first=150, begins=[60, 130], within=0.25)
    begin, slope = line.outcomes(rows)
    assert (begin.published, begin.ours, begin.is_inside) == ("80", "100", True)
    assert (slope.published, slope.ours, slope.is_inside) == ("0.4", "0.44", True)
    (plateau,) = Plateau(kind="plateau", metric="rate", first=150, within=0.25).outcomes(rows)
    assert (plateau.ours, plateau.is_inside) == ("600", False)


def test_lines_and_plateaus_are_of_a_series_and_of_what_was_printed():
    """Of b nothing was printed at 3; of c at one point only, so it has none."""
    rows = frame(
        *(("a", at, "m", 10.0 * at, 11.0 * at) for at in (1, 2, 3)),
        *(("b", at, "m", published, 6.0 * at) for at, published in ((1, 5.0), (2, 10.0))),
        ("b", 3, "m", math.nan, 900.0),
        ("c", 1, "m", 1.0, 1.0),
    )
    plateaus = Plateau(kind="plateau", metric="m", first=1, within=0.15).outcomes(rows)
    assert [(p.name, p.published, p.ours, p.is_inside) for p in plateaus] == [
        ("a, m from 1 on", "20", "22", True),
        ("b, m from 1 on", "7.5", "9", False),
    ]
    lines = Line(kind="line", metric="m", first=1, begins=[-1, 1], within=0.15).outcomes(rows)
    assert [(line.published, line.ours) for line in lines[1::2]] == [("10", "11"), ("5", "6")]


def test_what_must_be_below_a_limit():
    rows = frame(("x", "p", "m", 5, 9.4), ("x", "q", "m", 5, 10.0))
    below = Below(kind="below", metric="m", limit=10).outcomes(rows)
    assert [(b.ours, b.is_inside) for b in below] == [("9.4", True), ("10", False)]
