"""Arrival processes against their mean, variation and exact arithmetic."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from workloads import (
    Arrivals,
    Bursts,
    ClosedLoop,
    ConstantRate,
    Diurnal,
    Gamma,
    Poisson,
    Weibull,
    WorkloadError,
)

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
    (Weibull(8, shape=1), 1),
    (Weibull(8, shape=2), math.sqrt(4 / math.pi - 1)),
    (Weibull(8, shape=0.5), math.sqrt(5)),  # moments m! of an exponential: 4! / 2!**2 - 1
]


PREFIXES = [
    Poisson(4),
    Gamma(4, cv=2),
    Weibull(4, shape=0.7),
    Bursts(2, 50, mean_calm_s=3, mean_burst_s=1),
    Diurnal(4, peak=2, period_s=9),
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


def test_weibull_of_shape_1_is_poisson_draw_for_draw() -> None:
    times = [a.times_ns(NUM, np.random.default_rng(1)) for a in (Weibull(4, shape=1), Poisson(4))]
    assert (times[0] == times[1]).all()


def test_weibull_gaps_have_their_distribution(rng: np.random.Generator) -> None:
    """P(gap > t) = exp(-(t / scale)**shape), here with scale 1 / (5 * gamma(3)); see above."""
    gaps = np.sort(gaps_s(Weibull(5, shape=0.5), rng))
    cdf = 1 - np.exp(-np.sqrt(10 * gaps))
    assert np.abs(cdf - np.arange(1, NUM + 1) / NUM).max() < 1.95 / math.sqrt(NUM)


BURSTS = [
    Bursts(2, 40, mean_calm_s=10, mean_burst_s=1),
    Bursts(5, 5, mean_calm_s=1, mean_burst_s=1),
    Bursts(0.1, 100, mean_calm_s=0.5, mean_burst_s=0.1),
]


@pytest.mark.parametrize("bursts", BURSTS)
def test_mean_rate_of_bursts(bursts: Bursts, rng: np.random.Generator) -> None:
    """Within 5 standard errors; variance over mean of counts tends to 1 + 2 d**2 pq / (m (a + b)).

    d: difference of the rates; p, q: shares of time; m: mean rate; a, b: rates of switching
    (Fischer and Meier-Hellstern, The Markov-modulated Poisson process cookbook, 1993).
    """
    calm, burst = bursts.mean_calm_s, bursts.mean_burst_s
    mean = (bursts.rate_per_s * calm + bursts.burst_rate_per_s * burst) / (calm + burst)
    assert bursts.mean_gap_s == pytest.approx(1 / mean)
    difference = bursts.burst_rate_per_s - bursts.rate_per_s
    shares = calm * burst / (calm + burst) ** 2
    dispersion = 1 + 2 * difference**2 * shares / (mean * (1 / calm + 1 / burst))
    standard_error = math.sqrt(dispersion / NUM)
    assert abs(gaps_s(bursts, rng).mean() * mean - 1) < 5 * standard_error


@pytest.mark.parametrize("bursts", BURSTS)
def test_variation_of_gaps_with_bursts(bursts: Bursts) -> None:
    """cv**2 = 1 + 2 a b d**2 / ((a + b)**2 (r s + s a + r b)), of 20 runs within 5 standard errors.

    r, s: rates while calm and in bursts; a, b: rates of leaving calm and burst; d = s - r.
    """
    r, s = bursts.rate_per_s, bursts.burst_rate_per_s
    a, b = 1 / bursts.mean_calm_s, 1 / bursts.mean_burst_s
    squared = 1 + 2 * a * b * (s - r) ** 2 / ((a + b) ** 2 * (r * s + s * a + r * b))
    runs = [gaps_s(bursts, np.random.default_rng(seed)) for seed in range(20)]
    found = np.array([gaps.var() / gaps.mean() ** 2 for gaps in runs])
    assert abs(found.mean() - squared) < 5 * found.std(ddof=1) / math.sqrt(len(runs))


def test_bursts_are_in_balance_from_the_start() -> None:
    """The first gap of 4,000 seeds is that from any time: P(none in t) = pi exp((Q - L) t) 1."""
    bursts, t = Bursts(1, 9, mean_calm_s=2, mean_burst_s=1), 0.3
    generator = np.array([[-0.5 - 1, 0.5], [1, -1 - 9.0]])
    values, vectors = np.linalg.eig(generator)
    decay = vectors @ np.diag(np.exp(values * t)) @ np.linalg.inv(vectors)
    none = float(np.array([2 / 3, 1 / 3]) @ decay @ np.ones(2))
    late = [bursts.times_ns(1, np.random.default_rng(seed))[0] > t * 1e9 for seed in range(4000)]
    assert abs(np.mean(late) - none) < Z * math.sqrt(none * (1 - none) / 4000)


@pytest.mark.parametrize("peak", [1, 1.6, 2])
def test_diurnal_counts_in_quarters_of_the_period(peak: float, rng: np.random.Generator) -> None:
    """Each is Poisson: rate * period * (1/4 + e/(2 pi)) in the first two, - in the others."""
    diurnal = Diurnal(50, peak=peak, period_s=4)
    times = diurnal.times_ns(NUM, rng)
    num_periods = int(times[-1]) // 4_000_000_000
    inside = times[times < num_periods * 4_000_000_000]
    counts = np.bincount(inside % 4_000_000_000 // 1_000_000_000, minlength=4)
    swing = np.array([1, 1, -1, -1]) * (peak - 1) / (2 * math.pi)
    expected = 50 * 4 * num_periods * (0.25 + swing)
    assert (np.abs(counts - expected) < Z * np.sqrt(expected)).all()


@pytest.mark.parametrize("peak", [1, 1.6, 1.9])
def test_mean_and_variation_of_a_slow_diurnal(peak: float, rng: np.random.Generator) -> None:
    """Gaps short against the period: cv**2 = 2 / sqrt(1 - e**2) - 1, the mean of 1 / rate."""
    diurnal = Diurnal(100, peak=peak, period_s=100)
    gaps = diurnal.times_ns(NUM, rng)
    gaps = np.diff(gaps[gaps < gaps[-1] // 10**11 * 10**11]) / 1e9
    assert abs(gaps.mean() * 100 - 1) < 5 / math.sqrt(len(gaps))
    cv_squared = 2 / math.sqrt(1 - (peak - 1) ** 2) - 1
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(cv_squared, rel=0.03)


def test_a_diurnal_without_swing_is_poisson_to_the_nanosecond() -> None:
    """Apart from rounding: gaps are summed before, not after they are rounded."""
    times = [
        a.times_ns(100, np.random.default_rng(1))
        for a in (Diurnal(8, peak=1, period_s=60), Poisson(8))
    ]
    assert np.abs(times[0] - times[1]).max() <= 100


@pytest.mark.parametrize("arrivals", PREFIXES)
@pytest.mark.parametrize("num_requests", [0, 1, 2])
def test_few_requests(arrivals: Arrivals, num_requests: int, rng: np.random.Generator) -> None:
    times = arrivals.times_ns(num_requests, rng)
    assert times.dtype == np.int64
    assert len(times) == num_requests


@pytest.mark.parametrize("arrivals", PREFIXES)
def test_times_never_fall(arrivals: Arrivals, rng: np.random.Generator) -> None:
    assert (gaps_s(arrivals, rng) >= 0).all()


@pytest.mark.parametrize(
    "arrivals",
    [
        Weibull(1e-9, shape=0.5),
        Bursts(1e-9, 1e-9, mean_calm_s=1e9, mean_burst_s=1e9),
        Diurnal(1e-9, peak=1.5, period_s=1e9),
    ],
)
def test_too_slow_for_int64(arrivals: Arrivals, rng: np.random.Generator) -> None:
    with pytest.raises(WorkloadError, match=r"rate_per_s: got 1e-09, .* 50 requests"):
        arrivals.times_ns(50, rng)


def test_constant_rate_starts_one_gap_after_0(rng: np.random.Generator) -> None:
    assert ConstantRate(3).times_ns(3, rng).tolist() == [333333333, 666666666, 999999999]


def test_times_are_the_exact_sum_of_gaps_beyond_float_precision(rng: np.random.Generator) -> None:
    """A gap of 10**12 + 1 ns, 100,000 times, needs 57 bits."""
    times = ConstantRate(1e9 / (10**12 + 1)).times_ns(100_000, rng)
    assert times[-1] == 100_000 * (10**12 + 1)


@pytest.mark.parametrize("arrivals", PREFIXES)
def test_fewer_requests_are_the_first_of_more(arrivals: Arrivals) -> None:
    few, many = (arrivals.times_ns(n, np.random.default_rng(1)) for n in (10, 1000))
    assert (many[:10] == few).all()


def test_a_rate_too_low_for_int64_is_a_user_error(rng: np.random.Generator) -> None:
    with pytest.raises(WorkloadError, match=r"rate_per_s: got 1e-09, .* 10 requests"):
        ConstantRate(1e-9).times_ns(10, rng)


PROCESSES = [
    ConstantRate,
    Poisson,
    lambda rate: Gamma(rate, cv=1),
    lambda rate: Weibull(rate, shape=1),
    lambda rate: Bursts(rate, 9, mean_calm_s=1, mean_burst_s=1),
    lambda rate: Diurnal(rate, peak=1.5, period_s=60),
]


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf, "8", True, None])
@pytest.mark.parametrize("process", PROCESSES)
def test_bad_rates(process: Any, rate: object) -> None:
    with pytest.raises(WorkloadError, match=r"^rate_per_s: got .*, expected a finite number above"):
        process(rate)


@pytest.mark.parametrize("cv", [0, -1, 1e-200, 1e200, math.nan, math.inf])
def test_bad_cv(cv: float) -> None:
    with pytest.raises(WorkloadError, match=r"^cv: got .*, expected a number from 0.001 to 1000"):
        Gamma(1, cv=cv)


@pytest.mark.parametrize("shape", [0, 0.05, 2000, math.nan, math.inf, "1"])
def test_bad_shape(shape: Any) -> None:
    with pytest.raises(WorkloadError, match=r"^shape: got .*, expected a number from 0.1 to 1000"):
        Weibull(1, shape=shape)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((5, 4, 1, 1), "burst_rate: got 4, expected at least the rate while calm (5)"),
        ((5, 9, 0, 1), "mean_calm_s: got 0, expected a number from 1e-06 to 1e+09"),
        ((5, 9, 1, math.inf), "mean_burst_s: got inf, expected a number from 1e-06 to 1e+09"),
        (
            (1, 1, 0.01, 0.02),
            "mean_calm_s: got 0.01, expected at least 0.1 with mean_burst_s, a tenth of the mean "
            "gap between arrivals",
        ),
    ],
)
def test_bad_bursts(values: tuple[float, float, float, float], message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        Bursts(*values)
    assert str(error.value) == message


@pytest.mark.parametrize("peak", [0.9, 2.1, math.nan])
def test_bad_peak(peak: float) -> None:
    with pytest.raises(WorkloadError, match=r"^peak: got .*, expected a number from 1 to 2"):
        Diurnal(1, peak=peak, period_s=60)


@pytest.mark.parametrize("period_s", [0, -1, 1e10, math.nan])
def test_bad_period(period_s: float) -> None:
    with pytest.raises(WorkloadError, match=r"^period_s: got .*, expected a number from 1e-06"):
        Diurnal(1, peak=1.5, period_s=period_s)


@pytest.mark.parametrize("concurrency", [0, -3, 1.5, True, math.nan])
def test_bad_concurrency(concurrency: Any) -> None:
    with pytest.raises(WorkloadError, match=r"^concurrency: got .*, expected an integer from 1"):
        ClosedLoop(concurrency, think_time_s=0)


@pytest.mark.parametrize("think_time_s", [-0.1, math.nan, math.inf])
def test_bad_think_time(think_time_s: float) -> None:
    with pytest.raises(WorkloadError, match=r"^think_time_s: got .*, expected a finite number, 0"):
        ClosedLoop(4, think_time_s)
