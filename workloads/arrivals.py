"""When requests arrive: open processes, and the closed loop of a fixed number of users.

Those whose rate varies are in `varying`.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from workloads.checks import (
    LATEST_NS,
    problem,
    require_between,
    require_count,
    require_not_negative,
    require_positive,
)
from workloads.errors import WorkloadError


class Arrivals(Protocol):
    """An open arrival process: requests come whether or not earlier ones are done."""

    @property
    def mean_gap_s(self) -> float:
        """Mean time between arrivals."""

    def times_ns(self, num_requests: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Arrival times, never falling; the first is one gap after time 0.

        Gaps (or stays and periods) are rounded to whole nanoseconds and summed exactly. Raises
        WorkloadError for a rate so low that the times leave int64.
        """


@dataclass(frozen=True)
class ConstantRate:
    """Equal gaps of 1 / rate. Raises WorkloadError unless rate_per_s is finite and above 0."""

    rate_per_s: float

    def __post_init__(self) -> None:
        require_positive("rate_per_s", self.rate_per_s)

    @property
    def mean_gap_s(self) -> float:
        """1 / rate."""
        return 1 / self.rate_per_s

    def times_ns(self, num_requests: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Arrival times, one gap apart from time 0 on; `rng` is not used."""
        return sum_gaps_ns(np.full(num_requests, self.mean_gap_s), self.rate_per_s)


@dataclass(frozen=True)
class Poisson:
    """Exponential gaps of mean 1 / rate. Raises WorkloadError as ConstantRate does."""

    rate_per_s: float

    def __post_init__(self) -> None:
        require_positive("rate_per_s", self.rate_per_s)

    @property
    def mean_gap_s(self) -> float:
        """1 / rate."""
        return 1 / self.rate_per_s

    def times_ns(self, num_requests: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Arrival times; at another rate the same draws, stretched."""
        return sum_gaps_ns(
            rng.standard_exponential(num_requests) / self.rate_per_s, self.rate_per_s
        )


@dataclass(frozen=True)
class Gamma:
    """Gamma gaps of mean 1 / rate and coefficient of variation cv: shape 1 / cv**2.

    cv 1 is Poisson, above 1 is burstier. Raises WorkloadError unless rate_per_s is finite and
    above 0 and cv is from 0.001 to 1000 (outside, the draws underflow).
    """

    rate_per_s: float
    cv: float

    def __post_init__(self) -> None:
        require_positive("rate_per_s", self.rate_per_s)
        require_between("cv", self.cv, 0.001, 1000)

    @property
    def mean_gap_s(self) -> float:
        """1 / rate."""
        return 1 / self.rate_per_s

    def times_ns(self, num_requests: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Arrival times; at another rate the same draws, stretched."""
        shape = 1 / self.cv**2
        gaps_s = rng.standard_gamma(shape, num_requests) / (shape * self.rate_per_s)
        return sum_gaps_ns(gaps_s, self.rate_per_s)


@dataclass(frozen=True)
class Weibull:
    """Weibull gaps of mean 1 / rate: scale 1 / (rate * gamma(1 + 1 / shape)).

    shape 1 is Poisson, draw for draw; below 1 is burstier: the coefficient of variation is
    sqrt(gamma(1 + 2 / shape) / gamma(1 + 1 / shape)**2 - 1). Raises WorkloadError unless rate_per_s
    is finite and above 0 and shape is from 0.1 (a coefficient of 430) to 1000.
    """

    rate_per_s: float
    shape: float

    def __post_init__(self) -> None:
        require_positive("rate_per_s", self.rate_per_s)
        require_between("shape", self.shape, 0.1, 1000)

    @property
    def mean_gap_s(self) -> float:
        """1 / rate."""
        return 1 / self.rate_per_s

    def times_ns(self, num_requests: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Arrival times; at another rate or shape from the same draws."""
        draws = rng.standard_exponential(num_requests) ** (1 / self.shape)
        gaps_s = draws / (math.gamma(1 + 1 / self.shape) * self.rate_per_s)
        return sum_gaps_ns(gaps_s, self.rate_per_s)


@dataclass(frozen=True)
class ClosedLoop:
    """Users who each wait for their answer, think, and send the next request.

    concurrency: number of users. think_time_s: from an answer's end to the user's next request.
    Only a description: when requests arrive depends on the system, so the simulator plays the
    users. Raises WorkloadError for a concurrency below 1, or a think time below 0 or not finite.
    """

    concurrency: int
    think_time_s: float

    def __post_init__(self) -> None:
        require_count("concurrency", self.concurrency)
        require_not_negative("think_time_s", self.think_time_s)


def sum_gaps_ns(gaps_s: npt.NDArray[np.float64], rate_per_s: float) -> npt.NDArray[np.int64]:
    """Times after these gaps. Raises WorkloadError as `Arrivals.times_ns` does."""
    gaps_ns = np.rint(gaps_s * 1e9)
    require_early(gaps_ns.sum(), len(gaps_s), rate_per_s)
    return np.cumsum(gaps_ns.astype(np.int64))


def require_early(last_ns: float, num_requests: int, rate_per_s: float) -> None:
    """Raise WorkloadError, which blames the rate, for a last arrival that leaves int64."""
    if not last_ns <= LATEST_NS:
        expected = f"a rate at which {num_requests} requests arrive within 285 years"
        raise WorkloadError(problem("rate_per_s", rate_per_s, expected))
