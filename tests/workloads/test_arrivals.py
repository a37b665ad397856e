"""Arrival processes against their mean, variation and exact arithmetic."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from workloads import Arrivals, ClosedLoop, ConstantRate, Gamma, Poisson, WorkloadError

NUM = 200_000
Z = 4  # standard errors that an estimate may be off: 1 in 16,000 seeds


def gaps_s(arrivals: Arrivals, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    return np.diff(arrivals.times_ns(NUM, rng), prepend=0) / 1e9


OPEN = [
    (ConstantRate(8), 0),
    (Poisson(0.5), 1),
    (Poisson(1000), 1),
    (Gamma(8, cv=0.2), 0.2),
    (Gamma(8, cv=1), 1),
    (Gamma(8, cv=3.5), 3.5),
]


@pytest.mark.parametrize(("arrivals", "cv"), OPEN)
def test_mean_gap(arrivals: Arrivals, cv: float, rng: np.random.Generator) -> None:
    """Within z = 4 standard errors cv * mean / sqrt(n), and the rounding to 1 ns."""
    standard_error = cv * arrivals.mean_gap_s / math.sqrt(NUM)
    assert abs(gaps_s(arrivals, rng).mean() - arrivals.mean_gap_s) < Z * standard_error + 1e-9


@pytest.mark.parametrize(("arrivals", "cv"), OPEN[1:])
def test_variation_of_gaps(arrivals: Arrivals, cv: float, rng: np.random.Generator) -> None:
    """Within z = 4 standard errors of the sample's cv, by the delta method from its influence."""
    gaps = gaps_s(arrivals, rng)
    mean, std = gaps.mean(), gaps.std()
    influence = ((gaps - mean) ** 2 - std**2) / (2 * std * mean) - std * (gaps - mean) / mean**2
    assert abs(std / mean - cv) < Z * influence.std() / math.sqrt(NUM)


def test_poisson_gaps_are_exponential(rng: np.random.Generator) -> None:
    """Kolmogorov-Smirnov distance below 1.95 / sqrt(n), its 0.1 % point."""
    gaps = np.sort(gaps_s(Poisson(5), rng))
    cdf = 1 - np.exp(-5 * gaps)
    assert np.abs(cdf - np.arange(1, NUM + 1) / NUM).max() < 1.95 / math.sqrt(NUM)


def test_constant_rate_starts_one_gap_after_0(rng: np.random.Generator) -> None:
    assert ConstantRate(3).times_ns(3, rng).tolist() == [333333333, 666666666, 999999999]


def test_times_are_the_exact_sum_of_gaps_beyond_float_precision(rng: np.random.Generator) -> None:
    """A gap of 10**12 + 1 ns, 100,000 times, needs 57 bits."""
    times = ConstantRate(1e9 / (10**12 + 1)).times_ns(100_000, rng)
    assert times[-1] == 100_000 * (10**12 + 1)


@pytest.mark.parametrize("arrivals", [Poisson(4), Gamma(4, cv=2)])
def test_fewer_requests_are_the_first_of_more(arrivals: Arrivals) -> None:
    few, many = (arrivals.times_ns(n, np.random.default_rng(1)) for n in (10, 1000))
    assert (many[:10] == few).all()


def test_a_rate_too_low_for_int64_is_a_user_error(rng: np.random.Generator) -> None:
    with pytest.raises(WorkloadError, match=r"rate_per_s: got 1e-09, .* 10 requests"):
        ConstantRate(1e-9).times_ns(10, rng)


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf, "8", True, None])
@pytest.mark.parametrize("process", [ConstantRate, Poisson, lambda rate: Gamma(rate, cv=1)])
def test_bad_rates(process: Any, rate: object) -> None:
    with pytest.raises(WorkloadError, match=r"^rate_per_s: got .*, expected a finite number above"):
        process(rate)


@pytest.mark.parametrize("cv", [0, -1, 1e-200, 1e200, math.nan, math.inf])
def test_bad_cv(cv: float) -> None:
    with pytest.raises(WorkloadError, match=r"^cv: got .*, expected a number from 0.001 to 1000"):
        Gamma(1, cv=cv)


@pytest.mark.parametrize("concurrency", [0, -3, 1.5, True, math.nan])
def test_bad_concurrency(concurrency: Any) -> None:
    with pytest.raises(WorkloadError, match=r"^concurrency: got .*, expected an integer from 1"):
        ClosedLoop(concurrency, think_time_s=0)


@pytest.mark.parametrize("think_time_s", [-0.1, math.nan, math.inf])
def test_bad_think_time(think_time_s: float) -> None:
    with pytest.raises(WorkloadError, match=r"^think_time_s: got .*, expected a finite number, 0"):
        ClosedLoop(4, think_time_s)
