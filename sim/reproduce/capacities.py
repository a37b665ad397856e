"""What is asked of capacities: the rates up to which latencies are within their limits."""

import math
from abc import abstractmethod
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from sim.reproduce.outcome import (
    BaseCheck,
    Outcome,
    Published,
    Range,
    number_words,
    within_range,
    within_share,
)
from sim.scenario.spec import Spec


class Capacities(BaseCheck):
    """Of series over rising rates: the highest rate at which metrics are within their limits.

    also: further metrics and their limits; those that a series lacks do not limit it.

    A limit is reached on the straight line between the last point below it and the first above; of
    several metrics the lowest rate counts. nan where no point is below, or none above any limit.
    """

    ASKS_NUMBERS: ClassVar = True

    also: dict[str, float] = Field({})

    @property
    def limits(self) -> dict[str, set[float]]:
        """Of every metric, at which values capacities end."""
        return {self.metric: self._own_limits} | {
            name: {value} for name, value in self.also.items()
        }

    @property
    @abstractmethod
    def _own_limits(self) -> set[float]:
        """Of `metric`."""

    def outcomes(self, results: pd.DataFrame) -> list[Outcome]:
        """See BaseCheck; of all metrics."""
        return self._outcomes(results)

    def _capacity(self, values: pd.DataFrame, series: str, limit: float) -> float:
        """limit: of `metric`."""
        rows = values[values["series"] == series]
        limits = {self.metric: limit, **self.also}
        rates = [_rate_at(rows[rows["metric"] == name], limits[name]) for name in limits]
        reached = [rate for rate in rates if rate is not None]
        return float(np.min(reached)) if reached else math.nan  # nan if any is

    def _gain(self, values: pd.DataFrame, of: str, to: str, limit: float) -> float:
        return self._capacity(values, of, limit) / self._capacity(values, to, limit)

    def _at(self, limit: float) -> str:
        limits = {self.metric: limit, **self.also}
        return ", ".join(f"{name} {value:g}" for name, value in limits.items())


class _OfOneLimit(Capacities):
    """Capacities under one limit of the metric."""

    limit: float

    @property
    def _own_limits(self) -> set[float]:
        return {self.limit}


def _rate_at(rows: pd.DataFrame, limit: float) -> float | None:
    """Where one metric of a series reaches its limit; None: nowhere."""
    rates, metric = rows["at"].to_numpy(float), rows["ours"].to_numpy(float)
    above = np.flatnonzero(metric > limit)
    if not len(above):
        return None
    if not above[0]:
        return math.nan
    place = [above[0] - 1, above[0]]
    return float(np.interp(limit, metric[place], rates[place]))


class Capacity(_OfOneLimit):
    """That of one series, within a share of what was published."""

    kind: Literal["capacity"]
    series: str
    published: float = Field(gt=0)
    within: float = Field(gt=0)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = self._capacity(values, self.series, self.limit)
        return [within_share(f"capacity of {self.series}", self.published, ours, self.within)]


class CapacityRatio(_OfOneLimit):
    """That of one series by that of another; published: the range that was printed."""

    kind: Literal["capacity ratio"]
    of: str
    to: str
    published: Published
    between: Range

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = self._gain(values, self.of, self.to, self.limit)
        name = f"capacity, {self.of} / {self.to}, {self._at(self.limit)}"
        return [within_range(name, self.published, ours, self.between)]


class CapacitySplit(_OfOneLimit):
    """What a GPU serves where each part of the work has GPUs of its own, by that of one for all.

    parts: series -> how many GPUs it has; all together serve what the slowest part does.
    published: what was printed of the multiple.
    """

    kind: Literal["capacity split"]
    parts: dict[str, Annotated[int, Field(ge=1)]] = Field(min_length=2)
    to: str
    published: Published
    between: Range

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        served = [
            number * self._capacity(values, part, self.limit) for part, number in self.parts.items()
        ]
        whole = self._capacity(values, self.to, self.limit)
        ours = float(np.min(served)) / sum(self.parts.values()) / whole
        parts = " + ".join(f"{number} {part}" for part, number in self.parts.items())
        name = f"{parts} / {self.to}, per GPU, {self._at(self.limit)}"
        return [within_range(name, self.published, ours, self.between)]


class CapacityOrder(_OfOneLimit):
    """Those of series rise strictly, in the order in which they are named."""

    kind: Literal["capacity order"]
    series: list[str] = Field(min_length=2)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = [self._capacity(values, series, self.limit) for series in self.series]
        return [
            Outcome(
                "order of capacities",
                " < ".join(self.series),
                " < ".join(number_words(capacity) for capacity in ours),
                "rising",
                all(before < after for before, after in pairwise(ours)),
            )
        ]


class Gain(Spec):
    """The capacity of one series by that of another, under a limit of the metric."""

    of: str
    to: str
    limit: float


class GainOrder(Capacities):
    """Gains in capacity rise strictly, in the order in which they are named."""

    kind: Literal["gain order"]
    gains: list[Gain] = Field(min_length=2)

    @property
    def _own_limits(self) -> set[float]:
        return {gain.limit for gain in self.gains}

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = [self._gain(values, gain.of, gain.to, gain.limit) for gain in self.gains]
        return [
            Outcome(
                "order of gains in capacity",
                " < ".join(f"{gain.of} / {gain.to}" for gain in self.gains),
                " < ".join(number_words(gain) for gain in ours),
                "rising",
                all(before < after for before, after in pairwise(ours)),
            )
        ]
