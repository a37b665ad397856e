"""Length distributions: samples against the stated mean, means against brute-force sums."""

import gzip
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from workloads import Empirical, Exponential, Fixed, Lengths, LogNormal, Uniform, WorkloadError
from workloads import empirical_from_file as from_file

ALL: list[Lengths] = [
    Fixed(96),
    Uniform(3, 17),
    Exponential(mean=128, max=512),
    Exponential(mean=0.7, max=9),
    Exponential(mean=1e6, max=100),
    LogNormal(mean=48, sigma=0.8, max=256),
    LogNormal(mean=2, sigma=1.2),
    LogNormal(mean=900, sigma=0.3, min=800, max=1000),
    LogNormal(mean=0.8, sigma=0.9),
    Empirical((1, 1, 4000)),
]


@pytest.mark.parametrize("lengths", ALL)
def test_sample_mean_is_the_stated_mean(lengths: Lengths, rng: np.random.Generator) -> None:
    """Within z = 4 standard errors."""
    sample = lengths.sample(100_000, rng)
    standard_error = sample.std() / math.sqrt(len(sample))
    assert abs(sample.mean() - lengths.mean_tokens) <= 4 * standard_error + 1e-9


@pytest.mark.parametrize("lengths", ALL)
def test_samples_are_int64_from_1_to_max_tokens(lengths: Lengths, rng: np.random.Generator) -> None:
    sample = lengths.sample(20_000, rng)
    assert sample.dtype == np.int64
    assert sample.min() >= 1
    assert lengths.max_tokens is None or sample.max() <= lengths.max_tokens


@pytest.mark.parametrize("lengths", ALL)
def test_fewer_samples_are_the_first_of_more(lengths: Lengths) -> None:
    few, many = (lengths.sample(n, np.random.default_rng(1)) for n in (10, 1000))
    assert (many[:10] == few).all()


def brute_force_mean(dist: LogNormal, largest: int) -> float:
    """Sum of k * P(X = k), X the rounded and clipped variable, up to `largest`."""
    log_y = NormalDist(math.log(dist.mean) - dist.sigma**2 / 2, dist.sigma)

    def below(k: int) -> float:  # P(X < k)
        if k <= dist.min:
            return 0.0
        return 1.0 if k > largest else log_y.cdf(math.log(k - 0.5))

    return math.fsum(k * (below(k + 1) - below(k)) for k in range(dist.min, largest + 1))


@pytest.mark.parametrize(
    ("dist", "largest"),
    [
        (LogNormal(mean=48, sigma=0.8, max=256), 256),
        (LogNormal(mean=900, sigma=0.3, min=800, max=1000), 1000),
        (LogNormal(mean=7, sigma=0.001, min=2, max=9), 9),
        (LogNormal(mean=60_000, sigma=1.0, max=150_000), 150_000),
        (LogNormal(mean=200_000, sigma=0.5, min=120_000, max=180_000), 180_000),
        (LogNormal(mean=2, sigma=1.2), 20_000),
        (LogNormal(mean=0.2, sigma=0.5), 1_000),
    ],
)
def test_lognormal_mean_is_the_brute_force_sum(dist: LogNormal, largest: int) -> None:
    """The unbounded ones are cut where the tail is below 1e-9 tokens."""
    assert dist.mean_tokens == pytest.approx(brute_force_mean(dist, largest), rel=1e-7)


def test_lognormal_mean_far_above_1_is_the_continuous_mean() -> None:
    assert LogNormal(mean=5000, sigma=1).mean_tokens == pytest.approx(5000, rel=1e-6)


@pytest.mark.parametrize(
    ("cap", "mean", "deviation"),
    [(32, 15.6, 9.4), (128, 53.8, 36.2), (512, 118.5, 107), (1536, 128.5, 129)],
)
def test_exponential_lengths_are_those_of_a_published_benchmark(
    cap: int, mean: float, deviation: float, rng: np.random.Generator
) -> None:
    """Anyscale's, mean 128 drawn again beyond a cap; computed by others from its definition."""
    lengths = Exponential(128, cap)
    assert lengths.mean_tokens == pytest.approx(mean, rel=0.005)
    assert lengths.sample(200_000, rng).std() == pytest.approx(deviation, rel=0.02)


def test_lognormal_with_an_absurd_tail_stays_in_range(rng: np.random.Generator) -> None:
    sample = LogNormal(mean=1e300, sigma=10).sample(1000, rng)
    assert sample.max() == 1_000_000_000


def test_uniform_reaches_both_ends(rng: np.random.Generator) -> None:
    assert set(Uniform(3, 6).sample(1000, rng).tolist()) == {3, 4, 5, 6}


def test_max_tokens() -> None:
    assert [lengths.max_tokens for lengths in ALL] == [
        96,
        17,
        512,
        9,
        100,
        256,
        None,
        1000,
        None,
        4000,
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(0), "tokens: got 0, expected an integer from 1"),
        (lambda: Fixed("9"), "tokens: got '9', expected an integer from 1"),
        (lambda: Fixed(True), "tokens: got True, expected an integer from 1"),
        (lambda: Uniform(0, 4), "low: got 0, expected an integer from 1"),
        (lambda: Uniform(5, 4), r"high: got 4, expected at least low \(5\)"),
        (lambda: Uniform(1, 10**12), "high: got 1000000000000, expected an integer from 1"),
        (lambda: Exponential(0, 1), "mean: got 0, expected a finite number above 0"),
        (lambda: Exponential(9, 0), "max: got 0, expected an integer from 1"),
        (lambda: LogNormal(0, 1), "mean: got 0, expected a finite number above 0"),
        (lambda: LogNormal(math.nan, 1), "mean: got nan, expected a finite number above 0"),
        (lambda: LogNormal(9, 0), "sigma: got 0, expected a number from 0.001 to 10"),
        (lambda: LogNormal(9, math.inf), "sigma: got inf, expected a number from 0.001 to 10"),
        (lambda: LogNormal(9, 1, min=0), "min: got 0, expected an integer from 1"),
        (lambda: LogNormal(9, 1, min=8, max=7), r"max: got 7, expected at least min \(8\)"),
        (lambda: Empirical(()), r"values: got \(\), expected at least one length"),
        (lambda: Empirical((4, 0)), r"values\[1\]: got 0, expected an integer from 1"),
    ],
)
def test_impossible_parameters_are_named(make: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{message}"):
        make()


def test_file_of_lengths(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_bytes(b"\xef\xbb\xbf# tokens\r\n5\r\n\r\n 7.0 \r\n5")
    assert from_file(path) == Empirical((5, 7, 5))


def test_gzipped_file_of_lengths(tmp_path: Path) -> None:
    path = tmp_path / "lengths.gz"
    path.write_bytes(gzip.compress(b"5\n6\n"))
    assert from_file(path) == Empirical((5, 6))


def test_bad_lines_of_a_file_are_all_named(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("# tokens\n5\n-5\n6.5\n0\n")
    with pytest.raises(WorkloadError) as error:
        from_file(path)
    expected = "expected an integer from 1 to 1000000000"
    assert str(error.value) == (
        f"{path}: line 3: got '-5', {expected}; line 4: got '6.5', {expected}; "
        f"line 5: got '0', {expected}"
    )


def test_more_than_ten_bad_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("x\n" * 25)
    with pytest.raises(WorkloadError, match=r"line 10: got 'x'.*; and 15 more$") as error:
        from_file(path)
    assert "line 11" not in str(error.value)


def test_file_without_lengths(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("# nothing\n\n")
    with pytest.raises(WorkloadError, match=r"lengths.txt: no lengths, expected an integer from 1"):
        from_file(path)
