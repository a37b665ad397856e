"""What is asked of several published values together: ratios, orders, lines."""

import math
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from sim.reproduce.capacities import (
    Capacity,
    CapacityOrder,
    CapacityRatio,
    CapacitySplit,
    GainOrder,
)
from sim.reproduce.outcome import (
    BaseCheck,
    Measured,
    Outcome,
    Published,
    Range,
    within_range,
    within_share,
)
from sim.reproduce.words import metric_words, value


class Ratio(BaseCheck):
    """One series by another, at every point that was published within a share of that."""

    kind: Literal["ratio"]
    of: str
    to: str
    within: float = Field(gt=0)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        published, ours = (_by_series(values, kind) for kind in ("published", "ours"))
        return [
            within_share(
                f"{self.of} / {self.to} at {at}",
                published[self.of][at] / published[self.to][at],
                ours[self.of][at] / ours[self.to][at],
                self.within,
            )
            for at in published.index
            if not math.isnan(published[self.of][at] / published[self.to][at])
        ]


class Multiple(BaseCheck):
    """How many times one series at a point is another, or itself, there or at `to_at`.

    published: what was printed of that, if anything was.
    """

    kind: Literal["multiple"]
    of: str
    to: str
    at: Any
    to_at: Any = None
    published: Published = None
    between: Range

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = _by_series(values, "ours")
        multiple = float(
            ours[self.of][self.at] / ours[self.to][self.at if self.to_at is None else self.to_at]
        )
        names = f"{self.of} / {self.to} at {self.at}"
        if self.to_at is not None:
            names = f"{self.of} at {self.at} / {self.to} at {self.to_at}"
        return [within_range(names, self.published, multiple, self.between)]


class Growing(BaseCheck):
    """How many times one series is another rises strictly over the points that both have."""

    kind: Literal["growing"]
    of: str
    to: str

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = _by_series(values, "ours")
        multiples = (ours[self.of] / ours[self.to]).dropna().tolist()
        return [
            Outcome(
                f"{self.of} / {self.to}, point by point",
                "rising",
                ", ".join(f"{multiple:.3g}" for multiple in multiples),
                "rising",
                all(before < after for before, after in pairwise(multiples)),
            )
        ]


class Order(BaseCheck):
    """The points of a series stand in the published order; those nearer than `apart` in any."""

    kind: Literal["order"]
    series: str
    apart: float = Field(1.05, ge=1)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        published, ours = (_by_series(values, kind)[self.series] for kind in ("published", "ours"))
        pairs = list(self._pairs(published))
        wrong = [f"{low} < {high}" for low, high in pairs if ours[low] >= ours[high]]
        got = f"not {', '.join(wrong)}" if wrong else "the same"
        name = f"order of the points, {self.series}"
        return [Outcome(name, f"{len(pairs)} pairs", got, "the same", not wrong)]

    def _pairs(self, values: "pd.Series[float]") -> Iterator[tuple[str, str]]:
        """Points, the lower one first, that are apart."""
        for a, b in combinations(values.sort_values().index, 2):
            if values[b] > self.apart * values[a]:
                yield a, b


class Rising(BaseCheck):
    """The series rise strictly, in the order in which they are named, at every point, or some."""

    kind: Literal["rising"]
    series: list[str] = Field(min_length=2)
    at: list[Any] = Field([])

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = _by_series(values, "ours")[self.series]
        if self.at:
            ours = ours.loc[self.at]
        outcomes = []
        for at, row in ours.iterrows():
            wrong = [
                f"{low} < {high}" for low, high in pairwise(self.series) if row[low] >= row[high]
            ]
            name = f"order of {metric_words(self.metric)} at {at}"
            got = f"not {', '.join(wrong)}" if wrong else "the same"
            outcomes.append(Outcome(name, " < ".join(self.series), got, "the same", not wrong))
        return outcomes


class Line(BaseCheck):
    """From a point on the values of a series are on a line: where it begins, how steep it is."""

    ASKS_NUMBERS: ClassVar = True

    kind: Literal["line"]
    first: float
    begins: Range
    within: float = Field(gt=0)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        outcomes = []
        for whose, printed in _printed(values, self.first):
            lines = {kind: np.polyfit(printed["at"], printed[kind], 1) for kind in _BOTH}
            published, ours = (-line[1] / line[0] for line in lines.values())
            begins = f"{whose}where the line of {metric_words(self.metric)} begins"
            slope = f"{whose}{metric_words(self.metric)} for each further one"
            slopes = {kind: line[0] for kind, line in lines.items()}
            outcomes.append(within_range(begins, published, ours, self.begins, ".0f"))
            outcomes.append(within_share(slope, **slopes, share=self.within))
        return outcomes


class Plateau(BaseCheck):
    """The mean of a series from a point on."""

    ASKS_NUMBERS: ClassVar = True

    kind: Literal["plateau"]
    first: float
    within: float = Field(gt=0)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        outcomes = []
        for whose, printed in _printed(values, self.first):
            name = f"{whose}{metric_words(self.metric)} from {self.first:g} on"
            means = {kind: printed[kind].mean() for kind in _BOTH}
            outcomes.append(within_share(name, **means, share=self.within))
        return outcomes


_BOTH = ("published", "ours")


def _printed(values: pd.DataFrame, first: float) -> Iterator[tuple[str, pd.DataFrame]]:
    """Of each series with two or more published values from a point on: whose, and their rows."""
    printed = values[(values["at"] >= first) & values["published"].notna()]
    for series, rows in printed.groupby("series", sort=False):
        if len(rows) > 1:
            yield _whose(str(series), values), rows


def _whose(series: str, values: pd.DataFrame) -> str:
    """The beginning of a name: the series, where there are several."""
    return f"{series}, " if values["series"].nunique() > 1 else ""


class Below(BaseCheck):
    """Every value is below a limit."""

    kind: Literal["below"]
    limit: float

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        columns = ("series", "at", "published", "ours")
        rows = zip(*(values[column] for column in columns), strict=True)
        return [
            Outcome(
                f"{_whose(series, values)}{metric_words(self.metric)} at {at}",
                "" if math.isnan(published) else value(self.metric, published),
                value(self.metric, ours),
                f"below {value(self.metric, self.limit)}",
                bool(ours < self.limit),
                Measured((published, published), ours, (0.0, self.limit)),
            )
            for series, at, published, ours in rows
        ]


Check = Annotated[
    Ratio
    | Multiple
    | Growing
    | Order
    | Rising
    | Line
    | Plateau
    | Below
    | Capacity
    | CapacityRatio
    | CapacitySplit
    | CapacityOrder
    | GainOrder,
    Field(discriminator="kind"),
]


def _by_series(values: pd.DataFrame, kind: str) -> pd.DataFrame:
    """A row for each point, a column for each series."""
    return values.pivot(index="at", columns="series", values=kind).loc[values["at"].unique()]
