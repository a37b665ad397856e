"""Rates window by window: counts by window, and the closed forms of a single one."""

import numpy as np
import pytest

from workloads import Poisson, Windows, WorkloadError


def times_s(process: Windows, num: int, seed: int = 5) -> np.ndarray:
    return process.times_ns(num, np.random.default_rng(seed)) / 1e9


def test_counts_of_windows_are_those_of_their_rates() -> None:
    """Rounds of 100, 0 and 300 requests, 200 times over; each within five standard deviations."""
    times = times_s(Windows(10.0, (10.0, 0.0, 30.0)), 80_000)
    window = (times // 10).astype(int) % 3
    counts = np.bincount(window, minlength=3)
    assert counts[1] == 0
    # Of a fixed number of requests each is in the first window with probability 1/4.
    assert abs(counts[0] - 20_000) < 5 * (80_000 * 0.25 * 0.75) ** 0.5
    assert abs(times[-1] - 200 * 30) < 5 * 30 * 80_000**0.5 / 400
    assert (np.diff(times) >= 0).all()


def test_one_window_is_poisson() -> None:
    rng = np.random.default_rng
    ours = Windows(7.0, (4.0,)).times_ns(500, rng(3))
    assert np.abs(ours - Poisson(4.0).times_ns(500, rng(3))).max() <= 500  # each gap rounded


def test_mean_gap_is_that_of_the_mean_rate() -> None:
    assert Windows(10.0, (10.0, 0.0, 30.0)).mean_gap_s == pytest.approx(3 / 40)


def test_fewer_requests_are_the_first_of_more() -> None:
    process = Windows(2.0, (1.0, 5.0))
    assert times_s(process, 30).tolist() == times_s(process, 90)[:30].tolist()
    assert times_s(process, 0).tolist() == []


@pytest.mark.parametrize(
    ("window_s", "rates", "message"),
    [
        (0, (1.0,), "window_s: got 0, expected a number from 1e-06"),
        (1, (), "rates: got \\[\\], expected some, of which one is above 0"),
        (1, (0.0, 0.0), "rates: got .* expected some, of which one is above 0"),
        (1, (1.0, -1.0), "rates.1: got -1.0, expected a number from 1e-06"),
        (1e9, (1e-6,), "rate"),
    ],
)
def test_windows_that_cannot_be(window_s: float, rates: tuple[float, ...], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Windows(window_s, rates).times_ns(10**6, np.random.default_rng(1))
