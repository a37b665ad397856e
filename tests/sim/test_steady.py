"""What is left out of a run's start and end, against counting by hand and brute force."""

import math

import numpy as np
import pytest

from sim.errors import UserError
from sim.metrics import summarise
from sim.steady import Warmup, measure, mser5


def mser5_by_the_book(values: list[float]) -> int:
    """Of all truncations up to half, that of the smallest standard error; the first of equals."""
    means = [sum(values[i : i + 5]) / 5 for i in range(0, len(values) - 4, 5)]
    best, least = 0, math.inf
    for cut in range(len(means) // 2 + 1):
        left = means[cut:]
        mean = sum(left) / len(left)
        error = sum((value - mean) ** 2 for value in left) / len(left) ** 2
        if error < least * (1 - 1e-9):
            best, least = cut, error
    return 5 * best


@pytest.mark.parametrize("seed", range(30))
def test_mser5_is_the_one_by_the_book(seed):
    rng = np.random.default_rng(seed)
    num = int(rng.integers(10, 200))
    values = rng.exponential(1, num) + 8 * np.exp(-np.arange(num) / rng.uniform(1, 40))
    assert mser5(values) == mser5_by_the_book(values.tolist())


def test_nothing_is_left_out_of_what_is_the_same_throughout():
    assert mser5(np.ones(100)) == 0
    assert mser5(np.array([5.0, 1.0])) == 0


def busy(new_workload, serve):
    """Ten requests at once, then one each 100 ms; each is served alone, in 4 steps of 10 ms."""
    arrivals = [0] * 10 + [1000 + 100 * i for i in range(40)]
    return serve(new_workload(*[(1, 4)] * 50, arrival_ms=arrivals), max_num_seqs=1)


def test_metrics_after_so_many_seconds_by_hand(new_workload, serve):
    """From 1 s on 40 requests come, the last at 4.9 s; 39 of them end by then: 10 a second."""
    records = busy(new_workload, serve)
    row = measure(records, Warmup.parse("1"))
    assert (row["warmup_s"], row["measured_s"]) == (1, 3.9)
    assert row["requests"] == 40
    assert row["ttft_p99_s"] == row["ttft_mean_s"] == 0.01
    assert row["requests_per_s"] == pytest.approx(39 / 3.9)
    assert row["output_tokens_per_s"] == pytest.approx(39 * 4 / 3.9)


def test_shares_of_the_pool_are_of_the_same_time(new_workload, serve):
    """From 1 s on: a block of 64 held for 40 of every 100 ms; before that all the time."""
    records = busy(new_workload, serve)
    assert measure(records, Warmup.parse("1"))["block_utilisation"] == pytest.approx(
        0.4 / 64, rel=0.01
    )
    assert summarise(records)["block_utilisation"] > 0.4 / 64


def test_the_rule_finds_where_the_crowd_is_gone(new_workload, serve):
    """Batches of five: the first ten requests, all at once, wait up to 0.36 s."""
    row = measure(busy(new_workload, serve), Warmup.parse("auto"))
    assert row["warmup_s"] == 1
    assert row["ttft_p99_s"] == 0.01


def test_the_whole_run_counts_if_asked_for_or_if_all_come_at_once(new_workload, serve):
    records = busy(new_workload, serve)
    whole = summarise(records)
    found = measure(records, Warmup.parse("none"))
    assert {name: found[name] for name in whole} == whole
    at_once = serve(new_workload(*[(1, 4)] * 30, arrival_ms=[0] * 30), max_num_seqs=4)
    whole = summarise(at_once)
    found = measure(at_once, Warmup.parse("auto"))
    assert {name: found[name] for name in whole} == whole
    assert found["warmup_s"] == 0


def test_the_whole_run_counts_where_too_few_are_sent_or_end(new_workload, serve):
    """30 at once, then one each 100 ms, each served alone in 40 ms: with 9 of these not enough are
    sent from 1 ms on, with 12 there are."""
    for num_more, fell_back in ((9, True), (12, False)):
        arrivals = [0] * 30 + [100 * i for i in range(1, num_more + 1)]
        lengths = [(1, 4)] * len(arrivals)
        records = serve(new_workload(*lengths, arrival_ms=arrivals), max_num_seqs=1)
        row = measure(records, Warmup.parse("0.001"))
        assert row["fell_back"] is fell_back
        assert row["requests"] == (39 if fell_back else 12)
        assert measure(records, Warmup.parse("none"))["fell_back"] is False


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "1e10"])
def test_a_warmup_that_is_none_is_named(text):
    with pytest.raises(UserError, match=r"--warmup: got .*, expected auto, none, or seconds"):
        Warmup.parse(text)
