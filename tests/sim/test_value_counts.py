"""Counts of values against a plain Counter, however often they are put together on the way."""

import random
from collections import Counter

import pytest

from sim import value_counts
from sim.value_counts import ValueCounts


def totals(counts: ValueCounts) -> list[tuple[int, int]]:
    values, numbers = counts.totals()
    return list(zip(values.tolist(), numbers.tolist(), strict=True))


def test_by_hand():
    """30 once and then twice more, 10 and 20 twice each."""
    counts = ValueCounts()
    counts.add(30)
    counts.extend([20, 10], 2)
    counts.add(30, 2)
    assert totals(counts) == [(10, 2), (20, 2), (30, 3)]


def test_nothing_came():
    counts = ValueCounts()
    counts.extend([], 3)
    assert totals(counts) == []


def test_numbers_beyond_32_bits():
    counts = ValueCounts()
    counts.add(2**62, 2**40)
    counts.add(2**62, 2**40)
    counts.add(0)
    assert totals(counts) == [(0, 1), (2**62, 2**41)]


@pytest.mark.parametrize("least_buffered", [0, 1, 7, 1 << 16])
@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_a_counter(monkeypatch, seed, least_buffered):
    """Looking at the totals in between changes nothing."""
    monkeypatch.setattr(value_counts, "_LEAST_BUFFERED", least_buffered)
    rng = random.Random(seed)
    most = rng.choice([3, 1000])
    counts, expected = ValueCounts(), Counter()
    for _ in range(300):
        count = rng.randint(1, 5)
        values = [rng.randint(0, most) for _ in range(rng.randint(0, 9))]
        if values and rng.random() < 0.5:
            values = values[:1]
            counts.add(values[0], count)
        else:
            counts.extend(values, count)
        for value in values:
            expected[value] += count
        if rng.random() < 0.1:
            assert totals(counts) == sorted(expected.items())
    assert totals(counts) == sorted(expected.items())


def test_memory_is_that_of_the_distinct_values(monkeypatch):
    """100,000 times one of 50 values: never more than 2 x 50 and a buffer of 100 are kept."""
    monkeypatch.setattr(value_counts, "_LEAST_BUFFERED", 100)
    counts = ValueCounts()
    for number in range(20_000):
        counts.extend([number % 50] * 5, 1)
        assert len(counts._values) <= 2 * 50 + 100
    assert totals(counts) == [(value, 2_000) for value in range(50)]
