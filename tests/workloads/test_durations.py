"""Think times: what is drawn has the stated mean, and stays inside what the clock can count."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads import (
    Durations,
    EmpiricalTimes,
    ExponentialTime,
    FixedTime,
    LogNormalTime,
    WorkloadError,
    empirical_times_from_file,
)
from workloads.durations import LONGEST_S

NUM = 200_000


@pytest.mark.parametrize(
    "times",
    [
        FixedTime(2.5),
        ExponentialTime(3),
        LogNormalTime(10, 1),
        EmpiricalTimes((0.0, 1.5, 9.0)),
    ],
)
def test_sample_mean_is_the_stated_mean(times: Durations) -> None:
    """Within four standard errors of the sample."""
    drawn = times.sample_s(NUM, np.random.default_rng(1))
    assert abs(drawn.mean() - times.mean_s) <= 4 * drawn.std() / math.sqrt(NUM)
    assert drawn.min() >= 0


def test_mean_of_a_lognormal_that_is_cut_is_the_integral() -> None:
    """By a sum over fine steps of the normal density, of min(e^(mu + sigma z), LONGEST_S)."""
    times = LogNormalTime(LONGEST_S / 1000, 3)
    z = np.linspace(-12, 12, 2_000_001)
    mu = math.log(times.mean) - times.sigma**2 / 2
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    values = np.minimum(np.exp(mu + times.sigma * z), LONGEST_S) * density
    assert times.mean_s == pytest.approx(values.sum() * (z[1] - z[0]), rel=1e-6)
    assert times.mean_s / times.mean == pytest.approx(0.86, abs=0.005)
    day = LogNormalTime(86_400, 2)
    assert day.mean_s == pytest.approx(day.mean, rel=1e-3)
    assert times.sample_s(NUM, np.random.default_rng(2)).max() <= LONGEST_S * (1 + 1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedTime(-1), "seconds: got -1, expected a number from 0 to 1e"),
        (lambda: FixedTime(math.nan), "seconds: got nan"),
        (lambda: ExponentialTime(0), "mean: got 0"),
        (lambda: LogNormalTime(5, 4), "sigma: got 4"),
        (lambda: EmpiricalTimes(()), "at least one time"),
        (lambda: EmpiricalTimes((1.0, -2.0)), r"values_s\[1\]: got -2"),
    ],
)
def test_impossible_parameters_are_named(make: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        make()


def test_file_of_times(tmp_path: Path) -> None:
    path = tmp_path / "think.txt"
    path.write_text("# seconds\n0\n1.5\n\n2e2\n")
    assert empirical_times_from_file(path).values_s == (0.0, 1.5, 200.0)


def test_bad_lines_of_a_file_are_all_named(tmp_path: Path) -> None:
    path = tmp_path / "think.txt"
    path.write_text("1\nsoon\n-3\nnan\n2\n1_0\n\uff12\n", "utf-8")
    with pytest.raises(WorkloadError) as caught:
        empirical_times_from_file(path)
    assert all(f"line {number}:" in str(caught.value) for number in (2, 3, 4, 6, 7))
    assert "line 5" not in str(caught.value)


def test_file_without_times(tmp_path: Path) -> None:
    path = tmp_path / "think.txt"
    path.write_text("# nothing\n")
    with pytest.raises(WorkloadError, match="no times, expected seconds"):
        empirical_times_from_file(path)
