"""What classes of requests are promised: who got it, by hand and in a run."""

import pandas as pd
import pytest

from sim.metrics import summarise, summarise_classes
from sim.scenario.requests import SloSpec
from sim.simulate import simulate
from sim.slo import with_slos

S = 10**9
NAMES = ["arrival_ns", "first_token_ns", "finished_ns", "output_tokens", "class"]


def requests(*rows: tuple) -> pd.DataFrame:
    """rows: arrival, first and last token in s, output tokens, class."""
    table = pd.DataFrame(rows, columns=NAMES)
    for name in NAMES[:3]:
        table[name] = (table[name].astype("Float64") * S).round().astype("Int64")
    return table


@pytest.mark.parametrize(
    ("row", "slo", "met"),
    [
        ((0, 1, 3, 5, "a"), {"ttft_s": 1}, True),
        ((0, 1, 3, 5, "a"), {"ttft_s": 0.999}, False),
        ((0, 1, 3, 5, "a"), {"tpot_s": 0.5}, True),  # 2 s for 4 gaps
        ((0, 1, 3, 5, "a"), {"tpot_s": 0.499}, False),
        ((0, 1, 3, 5, "a"), {"e2e_s": 3, "ttft_s": 5}, True),
        ((0, 1, 3, 5, "a"), {"e2e_s": 2.9, "ttft_s": 5}, False),
        ((0, 1, 1, 1, "a"), {"tpot_s": 1e-6}, True),  # one token has no TPOT
        ((0, 1, None, 3, "a"), {"ttft_s": 5}, False),  # not ended
        ((0, None, None, 0, "a"), {"ttft_s": 9}, False),  # refused
        ((0, 1, 3, 5, "b"), {"ttft_s": 5}, None),  # of a class without a promise
    ],
)
def test_who_got_what_was_promised(row, slo, met):
    (found,) = with_slos(requests(row), {"a": SloSpec(**slo)}, 1)["met_slo"].tolist()
    assert found is met or (met is None and found is pd.NA)


def test_gaps_are_those_of_one_of_several_outputs():
    """Three outputs of 5 tokens each: 4 gaps in 2 s."""
    rows = requests((0, 1, 3, 15, "a"))
    assert with_slos(rows, {"a": SloSpec(tpot_s=0.5)}, 3)["met_slo"].tolist() == [True]
    assert with_slos(rows, {"a": SloSpec(tpot_s=0.49)}, 3)["met_slo"].tolist() == [False]


def test_outputs_of_one_token_have_no_tpot_to_miss():
    """Three of them, the last 2 s after the first."""
    rows = requests((0, 1, 3, 3, "a"))
    assert with_slos(rows, {"a": SloSpec(tpot_s=0.1)}, 3)["met_slo"].tolist() == [True]


def test_goodput_of_a_run_by_class(new_scenario):
    """Steps of 10 ms: a request of 4 tokens ends after 40 ms, so 35 ms is promised in vain."""
    classes = {
        "fast": {"share": 1, "slo": {"e2e_s": 0.035}},
        "slow": {"share": 1, "slo": {"e2e_s": 0.1}},
        "other": {"share": 1},
    }
    workload = {
        "requests": 60,
        "arrivals": {"constant": {"rate": 10}},
        "prompts": {"unique": 8},
        "outputs": 4,
        "classes": classes,
    }
    records = simulate(new_scenario(workload=workload), "default")
    by_class, row = summarise_classes(records), summarise(records)
    counts = records.requests["class"].value_counts()
    assert set(by_class) == set(classes)
    assert [by_class[name]["slo_share"] for name in classes] == [0, 1, None]
    assert by_class["slow"]["requests"] == counts["slow"]
    assert row["slo_share"] == counts["slow"] / (counts["slow"] + counts["fast"])
    assert row["goodput_per_s"] == pytest.approx(counts["slow"] / row["span_s"])
    assert by_class["slow"]["goodput_per_s"] == row["goodput_per_s"]


def test_without_promises_nothing_is_said_of_them(new_scenario):
    records = simulate(new_scenario(), "default")
    assert summarise_classes(records) == {}
    assert not {"slo_share", "goodput_per_s"} & set(summarise(records))
