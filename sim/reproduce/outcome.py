"""What every check of published values has: whom it asks, and how it answers."""

import math
from abc import abstractmethod
from typing import Annotated, NamedTuple

import pandas as pd
from pydantic import ConfigDict, Field

from sim.scenario.spec import Spec

Between = Annotated[list[float], Field(min_length=2, max_length=2)]  # from, to


class Outcome(NamedTuple):
    """One line: published and ours in words, what is expected, and whether ours is."""

    name: str
    published: str
    ours: str
    expected: str
    is_inside: bool


class BaseCheck(Spec):
    """metric: of which it is asked."""

    model_config = ConfigDict(allow_inf_nan=True)  # a range may have no end

    metric: str

    def outcomes(self, results: pd.DataFrame) -> list[Outcome]:
        """results: columns series, at, metric, published, ours."""
        return self._outcomes(results[results["metric"] == self.metric])

    @abstractmethod
    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        """Of the rows of the metric."""


def within_share(name: str, published: float, ours: float, share: float) -> Outcome:
    """Ours is to be so near to what was published."""
    is_inside = bool(abs(ours / published - 1) <= share)
    return Outcome(name, f"{published:.3g}", f"{ours:.3g}", f"within {share:.0%}", is_inside)


def within_range(name: str, published: str, ours: float, between: list[float]) -> Outcome:
    """Ours is to be from the first of two numbers, which may be inf, to the second."""
    low, high = between
    expected = f"{low:g} to {high:g}" if math.isfinite(high) else f"{low:g} at least"
    return Outcome(name, published, f"{ours:.3g}", expected, low <= ours <= high)
