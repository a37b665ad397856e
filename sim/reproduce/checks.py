"""What is asked of several published values together: ratios, orders, lines."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field

from sim.reproduce.words import metric_words, value
from sim.scenario.spec import Spec

Range = Annotated[tuple[float, float], Field(strict=False)]  # a list, in a file


class Measured(NamedTuple):
    """The numbers of an outcome. published: from, to; the same twice for a single number."""

    published: Range
    ours: float
    expected: Range


class Outcome(NamedTuple):
    """One line: published and ours in words, what is expected, and whether ours is.

    measured: None where it is no matter of one number.
    """

    name: str
    published: str
    ours: str
    expected: str
    is_inside: bool
    measured: Measured | None = None


class _Check(Spec):
    """metric: of which it is asked."""

    metric: str

    def outcomes(self, results: pd.DataFrame) -> list[Outcome]:
        """results: columns series, at, metric, published, ours."""
        return self._outcomes(results[results["metric"] == self.metric])

    @abstractmethod
    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        """Of the rows of the metric."""


class Ratio(_Check):
    """One series by another, at every point within a share of what was published."""

    kind: Literal["ratio"]
    of: str
    to: str
    within: float = Field(gt=0)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        published, ours = (_by_series(values, kind) for kind in ("published", "ours"))
        return [
            _within(
                f"{self.of} / {self.to} at {at}",
                published[self.of][at] / published[self.to][at],
                ours[self.of][at] / ours[self.to][at],
                self.within,
            )
            for at in published.index
        ]


class Multiple(_Check):
    """How many times one series is another at a point; published: what was printed, if it was."""

    model_config = ConfigDict(allow_inf_nan=True)

    kind: Literal["multiple"]
    of: str
    to: str
    at: Any
    published: float | None = Field(None, gt=0)
    between: Range

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = _by_series(values, "ours").loc[self.at]
        multiple = float(ours[self.of] / ours[self.to])
        name = f"{self.of} / {self.to} at {self.at}"
        outcome = _between(name, (self.published or 1,) * 2, multiple, self.between)
        if self.published is None:
            outcome = outcome._replace(published="", measured=None)
        return [outcome]


class Growing(_Check):
    """How many times one series is another rises strictly from point to point."""

    kind: Literal["growing"]
    of: str
    to: str

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = _by_series(values, "ours")
        multiples = (ours[self.of] / ours[self.to]).tolist()
        return [
            Outcome(
                f"{self.of} / {self.to}, point by point",
                "rising",
                ", ".join(f"{multiple:.3g}" for multiple in multiples),
                "rising",
                all(before < after for before, after in pairwise(multiples)),
            )
        ]


class _Capacities(_Check):
    """Of series over rising rates: the highest rate at which the metric is below a limit.

    It is found on the straight line between the last point below and the first above the limit;
    nan where no point is below or none above.
    """

    limit: float

    def _capacity(self, values: pd.DataFrame, series: str) -> float:
        rows = values[values["series"] == series]
        rates, metric = rows["at"].to_numpy(float), rows["ours"].to_numpy(float)
        above = np.flatnonzero(metric > self.limit)
        if not len(above) or not above[0]:
            return math.nan
        place = [above[0] - 1, above[0]]
        return float(np.interp(self.limit, metric[place], rates[place]))


class Capacity(_Capacities):
    """That of one series, within a share of what was published."""

    kind: Literal["capacity"]
    series: str
    published: float = Field(gt=0)
    within: float = Field(gt=0)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = self._capacity(values, self.series)
        return [_within(f"capacity of {self.series}", self.published, ours, self.within)]


class CapacityRatio(_Capacities):
    """That of one series by that of another; published: from and to, as printed."""

    kind: Literal["capacity ratio"]
    of: str
    to: str
    published: Range
    between: Range

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = self._capacity(values, self.of) / self._capacity(values, self.to)
        name = f"capacity, {self.of} / {self.to}"
        return [_between(name, self.published, ours, self.between)]


class CapacityOrder(_Capacities):
    """Those of series rise strictly, in the order in which they are named."""

    kind: Literal["capacity order"]
    series: list[str] = Field(min_length=2)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = [self._capacity(values, series) for series in self.series]
        return [
            Outcome(
                "order of capacities",
                " < ".join(self.series),
                " < ".join(f"{capacity:.3g}" for capacity in ours),
                "rising",
                all(before < after for before, after in pairwise(ours)),
            )
        ]


class Order(_Check):
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


class Rising(_Check):
    """The series rise strictly, in the order in which they are named, at every point."""

    kind: Literal["rising"]
    series: list[str] = Field(min_length=2)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        ours = _by_series(values, "ours")[self.series]
        outcomes = []
        for at, row in ours.iterrows():
            wrong = [
                f"{low} < {high}" for low, high in pairwise(self.series) if row[low] >= row[high]
            ]
            name = f"order of {metric_words(self.metric)} at {at}"
            got = f"not {', '.join(wrong)}" if wrong else "the same"
            outcomes.append(Outcome(name, " < ".join(self.series), got, "the same", not wrong))
        return outcomes


class Line(_Check):
    """From a point on the values are on a line: where it begins, and how steep it is."""

    kind: Literal["line"]
    first: float
    begins: Range
    within: float = Field(gt=0)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        full = values[values["at"] >= self.first]
        lines = {kind: np.polyfit(full["at"], full[kind], 1) for kind in ("published", "ours")}
        published, ours = (-line[1] / line[0] for line in lines.values())
        begins = f"where the line of {metric_words(self.metric)} begins"
        return [
            _between(begins, (published, published), ours, self.begins, ".0f"),
            _within(
                f"{metric_words(self.metric)} for each further one",
                lines["published"][0],
                lines["ours"][0],
                self.within,
            ),
        ]


class Plateau(_Check):
    """The mean from a point on."""

    kind: Literal["plateau"]
    first: float
    within: float = Field(gt=0)

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        full = values[values["at"] >= self.first]
        name = f"{metric_words(self.metric)} from {self.first:g} on"
        return [_within(name, full["published"].mean(), full["ours"].mean(), self.within)]


class Below(_Check):
    """Every value is below a limit."""

    kind: Literal["below"]
    limit: float

    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        rows = zip(values["at"], values["published"], values["ours"], strict=True)
        return [
            Outcome(
                f"{metric_words(self.metric)} at {at}",
                "" if math.isnan(published) else value(self.metric, published),
                value(self.metric, ours),
                f"below {value(self.metric, self.limit)}",
                bool(ours < self.limit),
                Measured((published, published), ours, (0.0, self.limit)),
            )
            for at, published, ours in rows
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
    | CapacityOrder,
    Field(discriminator="kind"),
]


def _by_series(values: pd.DataFrame, kind: str) -> pd.DataFrame:
    """A row for each point, a column for each series."""
    return values.pivot(index="at", columns="series", values=kind).loc[values["at"].unique()]


def _within(name: str, published: float, ours: float, share: float) -> Outcome:
    is_inside = bool(abs(ours / published - 1) <= share)
    expected = (published * (1 - share), published * (1 + share))
    measured = Measured((published, published), ours, expected)
    words = (f"{published:.3g}", f"{ours:.3g}", f"within {share:.0%}")
    return Outcome(name, *words, is_inside, measured)


def _between(
    name: str, published: Range, ours: float, expected: Range, form: str = ".3g"
) -> Outcome:
    low, high = expected
    asked = f"{low:g} to {high:g}" if math.isfinite(high) else f"{low:g} at least"
    printed = " to ".join(dict.fromkeys(format(end, form) for end in published))
    is_inside = bool(low <= ours <= high)
    measured = Measured(published, ours, expected)
    return Outcome(name, printed, format(ours, form), asked, is_inside, measured)
