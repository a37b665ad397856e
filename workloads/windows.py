"""An open arrival process whose rate is that of a recorded profile, window by window."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.arrivals import require_early
from workloads.checks import problem, require_between
from workloads.errors import WorkloadError

_LEAST_RATE, _LARGEST_RATE = 1e-6, 1e9


@dataclass(frozen=True)
class Windows:
    """A Poisson process of the first rate for window_s seconds, then of the next, and so on.

    After the last it begins anew.

    Raises WorkloadError for no rates, for one that is neither 0 nor from 1e-6 to 1e9, for rates
    that are all 0, and for windows that are not from 1e-6 to 1e9 seconds.
    """

    window_s: float
    rates_per_s: tuple[float, ...]

    def __post_init__(self) -> None:
        require_between("window_s", self.window_s, 1e-6, 1e9)
        for place, rate in enumerate(self.rates_per_s):
            if rate != 0:
                require_between(f"rates.{place}", rate, _LEAST_RATE, _LARGEST_RATE)
        if not sum(self.rates_per_s) > 0:
            expected = "some, of which one is above 0"
            raise WorkloadError(problem("rates", list(self.rates_per_s), expected))

    @property
    def mean_gap_s(self) -> float:
        """1 / mean rate, over whole rounds."""
        return len(self.rates_per_s) / sum(self.rates_per_s)

    def times_ns(self, num_requests: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Arrival times: the integral of the rate up to one is a sum of unit exponentials."""
        readings = np.cumsum(rng.standard_exponential(num_requests))
        rates = np.array(self.rates_per_s)
        begins = np.concatenate(([0.0], np.cumsum(rates * self.window_s)))
        rounds = np.floor(readings / begins[-1])
        window_ns = round(self.window_s * 1e9)
        round_ns = window_ns * len(rates)
        last = readings[-1] if num_requests else 0.0
        require_early((last / begins[-1] + 1) * round_ns, num_requests, 1 / self.mean_gap_s)
        rest = np.minimum(readings - rounds * begins[-1], np.nextafter(begins[-1], 0))
        window = np.searchsorted(begins, rest, side="right") - 1
        offsets_ns = np.rint((rest - begins[window]) / rates[window] * 1e9)
        offsets_ns = np.minimum(offsets_ns, window_ns).astype(np.int64)
        begins_ns = rounds.astype(np.int64) * round_ns + window.astype(np.int64) * window_ns
        times_ns: npt.NDArray[np.int64] = begins_ns + offsets_ns
        return times_ns
