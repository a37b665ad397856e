"""Open arrival processes whose rate varies: bursts, and the course of a day.

Both are Poisson processes of rate 1 on a clock of their own, which shows the integral of the rate:
n arrivals are the first n readings of that clock, turned back into time.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.arrivals import require_early
from workloads.checks import problem, require_between, require_positive
from workloads.errors import WorkloadError

_MOST_CYCLES = 10  # of calm and burst between two arrivals
_BISECTIONS = 53  # bits of a double


@dataclass(frozen=True)
class Bursts:
    """A Poisson process of one rate while calm and of another in bursts, as chance switches.

    The Markov-modulated Poisson process of two states: exponential stays of these means, and at
    time 0 a burst with the probability that there is one at any time.

    Raises WorkloadError unless rate_per_s is finite and above 0, burst_rate_per_s at least that,
    both means from 1e-6 to 1e9, and their sum at least a tenth of `mean_gap_s` (with shorter
    stays nothing can be told from Poisson).
    """

    rate_per_s: float
    burst_rate_per_s: float
    mean_calm_s: float
    mean_burst_s: float

    def __post_init__(self) -> None:
        require_positive("rate_per_s", self.rate_per_s)
        require_positive("burst_rate_per_s", self.burst_rate_per_s)
        require_between("mean_calm_s", self.mean_calm_s, 1e-6, 1e9)
        require_between("mean_burst_s", self.mean_burst_s, 1e-6, 1e9)
        if self.burst_rate_per_s < self.rate_per_s:
            expected = f"at least the rate while calm ({self.rate_per_s})"
            raise WorkloadError(problem("burst_rate", self.burst_rate_per_s, expected))
        if self._cycle_s * _MOST_CYCLES < self.mean_gap_s:
            expected = f"at least {self.mean_gap_s / _MOST_CYCLES:g} with mean_burst_s, a tenth of"
            expected += " the mean gap between arrivals"
            raise WorkloadError(problem("mean_calm_s", self.mean_calm_s, expected))

    @property
    def mean_gap_s(self) -> float:
        """1 / mean rate, the means of the stays being the weights of the rates."""
        per_cycle = self.rate_per_s * self.mean_calm_s + self.burst_rate_per_s * self.mean_burst_s
        return self._cycle_s / per_cycle

    def times_ns(self, num_requests: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Arrival times; the stays are drawn from a child of `rng`."""
        (child,) = rng.spawn(1)
        readings = np.cumsum(rng.standard_exponential(num_requests))
        stays_ns, rates = self._stays(readings[-1] if num_requests else 0.0, child)
        begins = np.concatenate(([0.0], _clock(stays_ns, rates)))
        stay = np.searchsorted(begins, readings, side="right") - 1
        offsets_ns = np.rint((readings - begins[stay]) / rates[stay] * 1e9)
        offsets_ns = np.minimum(offsets_ns, stays_ns[stay])
        num_past = int(stay[-1]) if num_requests else 0
        past_ns = stays_ns[:num_past]
        require_early(past_ns.sum() + offsets_ns[-1:].sum(), num_requests, self.rate_per_s)
        starts_ns = np.concatenate(([0], np.cumsum(past_ns.astype(np.int64))))
        return starts_ns[stay] + offsets_ns.astype(np.int64)

    def _stays(
        self, last: float, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """([k] whole nanoseconds, [k] rate) of stays, until the clock shows more than `last`."""
        is_burst_first = rng.random() * self._cycle_s < self.mean_burst_s
        order = [1, 0] if is_burst_first else [0, 1]
        means_ns = np.array([self.mean_calm_s, self.mean_burst_s])[order] * 1e9
        rates = np.array([self.rate_per_s, self.burst_rate_per_s])[order]
        stays_ns, shown = np.empty(0), 0.0
        while shown <= last:
            num_cycles = 16 + int((last - shown) * self.mean_gap_s / self._cycle_s)
            more_ns = np.rint(rng.standard_exponential((num_cycles, 2)) * means_ns)
            stays_ns = np.concatenate((stays_ns, more_ns.ravel()))
            shown = float(_clock(stays_ns, np.resize(rates, len(stays_ns)))[-1])
        return stays_ns, np.resize(rates, len(stays_ns))

    @property
    def _cycle_s(self) -> float:
        return self.mean_calm_s + self.mean_burst_s


def _clock(
    stays_ns: npt.NDArray[np.float64], rates: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """[k] what the clock of rate 1 shows at the end of each stay."""
    return np.cumsum(stays_ns / 1e9 * rates)


@dataclass(frozen=True)
class Diurnal:
    """A Poisson process whose rate is rate * (1 + (peak - 1) * sin(2 pi t / period)).

    peak: highest rate over the mean; the lowest is 2 - peak of it.

    Raises WorkloadError unless rate_per_s is finite and above 0, peak from 1 to 2 and period_s
    from 1e-6 to 1e9.
    """

    rate_per_s: float
    peak: float
    period_s: float

    def __post_init__(self) -> None:
        require_positive("rate_per_s", self.rate_per_s)
        require_between("peak", self.peak, 1, 2)
        require_between("period_s", self.period_s, 1e-6, 1e9)

    @property
    def mean_gap_s(self) -> float:
        """1 / rate, over whole periods."""
        return 1 / self.rate_per_s

    def times_ns(self, num_requests: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Arrival times, from the same draws for any rate, peak and period.

        With e = peak - 1 and the angle phi = 2 pi t / period + pi / 2, which is 0 when the rate is
        lowest, the clock shows phi - e sin(phi) but for a factor and a constant: so each reading
        asks for a solution of Kepler's equation, found by bisection within its turn.
        """
        readings = np.cumsum(rng.standard_exponential(num_requests))
        period_ns = round(self.period_s * 1e9)
        last_s = (readings[-1] if num_requests else 0.0) / self.rate_per_s + 2 * self.period_s
        require_early(last_s * 1e9, num_requests, self.rate_per_s)
        e = self.peak - 1
        turns = readings / (self.rate_per_s * self.period_s) + 0.25 - e / (2 * math.pi)
        whole = np.floor(turns)
        angles = _kepler(2 * math.pi * (turns - whole), e)
        offsets_ns = np.rint((angles / (2 * math.pi) - 0.25) * period_ns)
        times_ns = whole.astype(np.int64) * period_ns + offsets_ns.astype(np.int64)
        return np.maximum(times_ns, 0)


def _kepler(means: npt.NDArray[np.float64], e: float) -> npt.NDArray[np.float64]:
    """The angles phi in [0, 2 pi] with phi - e sin(phi) = mean, for means in it and 0 <= e <= 1."""
    low = np.zeros_like(means)
    width = 2 * math.pi
    for _ in range(_BISECTIONS):
        width /= 2
        middle = low + width
        low = np.where(middle - e * np.sin(middle) <= means, middle, low)
    return low
