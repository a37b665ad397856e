"""Metrics of records made by hand, and percentiles against counting."""

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from engine.kv_manager import KVUsage
from sim.metrics import half_width_95, percentile, summarise
from sim.records import Distribution, Records

MS = 1_000_000
PREFIX = ("queried", "cached", "partial", "unseen", "evicted")
LOST = ("recomputed", "restored")


def distribution(counts: dict[int, int]) -> Distribution:
    values = sorted(counts)
    return np.array(values, np.int64), np.array([counts[value] for value in values], np.int64)


def hand_made(rows: list[tuple], **changed: Any) -> Records:
    """rows: arrival, admitted, first and last token in ms; prompt, output, preemptions, reason; and
    what the prefix cache had: queried, cached, partial, unseen, evicted; perhaps what preemptions
    took: recomputed, restored.
    """
    time_names = ["arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"]
    count_names = ["prompt_tokens", "output_tokens", "preemptions"]
    token_names = [f"{name}_tokens" for name in (*PREFIX, *LOST)]
    columns = [*time_names, *count_names, "finish_reason", *token_names]
    cells = [(*row[:8], *row[8], *(row[9] if len(row) > 9 else (0, 0))) for row in rows]
    requests = pd.DataFrame(cells, columns=columns)
    for name in time_names:
        requests[name] = requests[name].astype("Int64") * MS
    nothing = {
        "steps": pd.DataFrame({"steps": [], "duration_ns": []}),
        "itl_ns": distribution({}),
        "evicted_for_ns": distribution({}),
        "slot_ns": KVUsage(0, 0, 0, 0, 0, 0, 0),
        "saved_slot_ns": 0,
    }
    return Records(requests=requests, **nothing | changed)


@pytest.fixture
def summary():
    """Three requests that end, one with a single token, and one that is refused."""
    records = hand_made(
        [
            (0, 0, 100, 400, 10, 4, 2, "stop", (10, 4, 2, 4, 0), (7, 5)),
            (50, 100, 200, 200, 20, 1, 0, "length", (20, 0, 4, 0, 16)),
            (60, 200, 500, 1000, 10, 3, 0, "stop", (10, 8, 2, 0, 0)),
            (70, None, None, None, 99, 0, 0, "refused", (0, 0, 0, 0, 0)),
        ],
        itl_ns=distribution({50 * MS: 1, 100 * MS: 1, 150 * MS: 1, 250 * MS: 2}),
        evicted_for_ns=distribution({100 * MS: 3, 500 * MS: 1}),
        slot_ns=KVUsage(
            live=300, tail=100, reserved=60, over_reserved=40, cached=200, unusable=0, free=300
        ),
        saved_slot_ns=125,
        steps=pd.DataFrame({"steps": [1, 0, 1, 1, 0], "duration_ns": [3, 1, 1, 2, 3]}),
    )
    return summarise(records)


def parts(summary, name: str) -> list[float]:
    return [summary[f"{name}_{part}_s"] for part in ("mean", "p50", "p90", "p99")]


def test_counts(summary):
    names = ["requests", "finished", "refused", "output_tokens", "preemptions", "steps"]
    assert [summary[name] for name in names] == [4, 3, 1, 8, 2, 3]


def test_throughput_is_over_the_span_to_the_last_output(summary):
    """1 s: 8 tokens and 3 requests."""
    assert summary["span_s"] == 1.0
    assert summary["output_tokens_per_s"] == 8.0
    assert summary["requests_per_s"] == 3.0


def test_time_to_first_token_is_from_arrival(summary):
    """100, 150 and 440 ms."""
    assert parts(summary, "ttft") == pytest.approx([0.230, 0.150, 0.440, 0.440])


def test_time_per_output_token_leaves_out_single_tokens(summary):
    """(400 - 100) / 3 and (1000 - 500) / 2 ms."""
    assert parts(summary, "tpot") == pytest.approx([0.175, 0.100, 0.250, 0.250])


def test_time_per_output_token_of_several_outputs_is_that_of_each():
    """Two outputs of three tokens side by side: 200 ms over two gaps."""
    rows = [(0, 0, 100, 300, 10, 6, 0, "stop", (0, 0, 0, 0, 0))]
    assert summarise(hand_made(rows, num_outputs=2))["tpot_mean_s"] == pytest.approx(0.1)


def test_inter_token_latency_is_over_gaps_not_requests(summary):
    """50, 100, 150, 250, 250 ms."""
    assert parts(summary, "itl") == pytest.approx([0.160, 0.150, 0.250, 0.250])


def test_end_to_end_is_from_arrival_to_the_last_token(summary):
    """400, 150 and 940 ms."""
    assert parts(summary, "e2e") == pytest.approx([1.490 / 3, 0.400, 0.940, 0.940])


def test_queueing_is_from_arrival_to_admission(summary):
    """0, 50 and 140 ms."""
    assert parts(summary, "queueing") == pytest.approx([0.190 / 3, 0.050, 0.140, 0.140])


def test_prefix_hits_are_a_share_of_the_tokens_asked_for(summary):
    """4 + 8 of 10 + 20 + 10."""
    assert summary["prefix_query_tokens"] == 40
    assert summary["prefix_hit_tokens"] == 12
    assert summary["prefix_hit_share"] == 0.3


def test_prefix_misses_by_reason(summary):
    """2 + 4 + 2 partial, 4 unseen, 16 evicted: the 28 that were no hits."""
    reasons = ("partial", "unseen", "evicted")
    assert [summary[f"prefix_miss_{reason}_tokens"] for reason in reasons] == [8, 4, 16]


def test_tokens_that_preemptions_took_are_recomputed_or_restored(summary):
    """Of the first request, which was preempted twice."""
    assert summary["preempted_recomputed_tokens"] == 7
    assert summary["preempted_restored_tokens"] == 5


def test_time_since_eviction_is_a_mean_over_blocks(summary):
    """3 of 100 ms and one of 500 ms."""
    assert summary["prefix_evicted_for_mean_s"] == pytest.approx(0.2)


def test_memory_shares(summary):
    """500 of 1,000 held, 300 of them live."""
    assert summary["block_utilisation"] == 0.5
    assert summary["internal_fragmentation"] == 0.4
    shares = {name: summary[f"{name}_share"] for name in KVUsage._fields}
    assert shares == {
        "live": 0.3,
        "tail": 0.1,
        "reserved": 0.06,
        "over_reserved": 0.04,
        "cached": 0.2,
        "unusable": 0.0,
        "free": 0.3,
    }


def test_sharing_saves_a_share_of_what_would_be_held_without(summary):
    """125 beside 500 held, over 10 ns: the ratio of the means, not the mean of ratios."""
    assert summary["saved_share"] == 0.2
    assert summary["saved_slots_mean"] == 12.5


def test_single_tokens_alone_have_no_time_per_token():
    summary = summarise(hand_made([(0, 0, 10, 10, 4, 1, 0, "stop", (0, 0, 0, 0, 0))]))
    assert parts(summary, "tpot") == [None] * 4
    assert parts(summary, "itl") == [None] * 4
    assert parts(summary, "e2e") == [0.01] * 4


def test_where_nothing_finished_nothing_is_measured():
    """Counts are 0, and neither a rate nor a time is made up."""
    summary = summarise(hand_made([(5, None, None, None, 99, 0, 0, "refused", (0, 0, 0, 0, 0))]))
    counted = {name for name, value in summary.items() if value is not None}
    assert {name: summary[name] for name in ("requests", "refused")} == {
        "requests": 1,
        "refused": 1,
    }
    assert {"finished", "output_tokens", "span_s", "preemptions", "steps"} <= counted
    assert all(summary[name] == 0 for name in counted - {"requests", "refused"})
    measured = ("mean_s", "p50_s", "p90_s", "p99_s", "per_s", "share", "utilisation")
    assert not [name for name in counted if name.endswith(measured)]


@pytest.mark.parametrize("seed", range(5))
def test_percentile_is_the_nearest_rank(seed):
    """The smallest value of which at least p % of all values are not above it, by counting."""
    rng = random.Random(seed)
    for _ in range(20):
        pairs = [(rng.randint(1, 30), rng.randint(1, 4)) for _ in range(rng.randint(1, 12))]
        everything = sorted(value for value, count in pairs for _ in range(count))
        values, counts = np.array(pairs).T
        for percent in (1, 50, 90, 99, 100):
            expected = next(
                value
                for value in everything
                if 100 * sum(other <= value for other in everything) >= percent * len(everything)
            )
            assert percentile(values, counts, percent) == expected


def test_percentile_by_hand():
    """Of 1 to 100 the 90th percentile is 90, of 1 to 10 it is 9, of 1 to 11 it is 10."""
    for n, expected in [(100, 90), (10, 9), (11, 10), (1, 1)]:
        ones = np.ones(n, dtype=np.int64)
        assert percentile(np.arange(1, n + 1), ones, 90) == expected


def test_percentile_is_a_value_that_occurred_whatever_their_order():
    values, counts = np.array([7.5, 2.5, 100.0]), np.array([1, 2, 1])
    assert percentile(values, counts, 50) == 2.5
    assert percentile(values, counts, 99) == 100.0


def test_interval_by_hand():
    """1 to 5: s = sqrt(2.5), t of 4 degrees at 97.5 % is 2.776 (any table of Student's t)."""
    assert half_width_95(np.array([1.0, 2, 3, 4, 5])) == pytest.approx(
        2.7764 * 2.5**0.5 / 5**0.5, rel=1e-4
    )


def test_interval_of_two_runs_by_hand():
    """10 and 12: s = sqrt(2), t of 1 degree is 12.706, so 12.706 x sqrt(2) / sqrt(2)."""
    assert half_width_95(np.array([10.0, 12.0])) == pytest.approx(12.706, rel=1e-4)


@pytest.mark.parametrize("values", [[], [3.0]])
def test_one_run_has_no_interval(values):
    assert half_width_95(np.array(values)) is None


def test_interval_covers_the_mean_95_times_in_100():
    """Of 4,000 samples of 5 normals; a binomial count stays within 0.01 of 0.95 (3 deviations)."""
    samples = np.random.default_rng(1).normal(10.0, 3.0, (4_000, 5))
    covered = [abs(sample.mean() - 10) <= half_width_95(sample) for sample in samples]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.0103)
