"""A histogram as Prometheus has it: counts up to bounds, and the sum of all that was counted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Quantile(NamedTuple):
    """value: between low and high, as if the bucket were evenly filled. high may be infinite."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Histogram:
    """name: without what Prometheus appends. bounds: rising, the last infinite. cumulative: counts
    up to each. total: sum of all values."""

    name: str
    bounds: tuple[float, ...]
    cumulative: tuple[float, ...]
    total: float

    @property
    def count(self) -> float:
        """Of all values."""
        return self.cumulative[-1]

    @property
    def mean(self) -> float:
        """Of the values, exact; the histogram has some."""
        return self.total / self.count

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of the values up to each finite bound."""
        return np.array(self.cumulative[:-1]) / self.count

    def quantile(self, share: float) -> Quantile:
        """As histogram_quantile of Prometheus: linear in the bucket, whose bounds it is between.

        Beyond the last finite bound the value is that bound.
        """
        rank = share * self.count
        place = next(i for i, reached in enumerate(self.cumulative) if reached >= rank)
        low = self.bounds[place - 1] if place else min(0.0, self.bounds[0])
        high = self.bounds[place]
        before = self.cumulative[place - 1] if place else 0.0
        inside = self.cumulative[place] - before
        if math.isinf(high) or not inside:
            return Quantile(low, low, high)
        return Quantile(low + (high - low) * (rank - before) / inside, low, high)

    @property
    def last_filled(self) -> float:
        """The bound that no value exceeds; infinite where some are beyond the last."""
        return next(
            bound
            for bound, reached in zip(self.bounds, self.cumulative, strict=True)
            if reached >= self.count
        )


def shares_of(values: npt.NDArray[np.float64], bounds: Sequence[float]) -> npt.NDArray[np.float64]:
    """Share of values [n] up to each bound."""
    return np.searchsorted(np.sort(values), bounds, side="right") / len(values)
