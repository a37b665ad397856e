"""What every check of published values has: whom it asks, and how it answers."""

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, NamedTuple

import pandas as pd
from pydantic import ConfigDict, Field

from sim.scenario.spec import Spec

Range = Annotated[tuple[float, float], Field(strict=False)]  # from, to; a list, in a file
Published = Range | float | str | None  # a range, a number, something in words, or nothing


class Measured(NamedTuple):
    """The numbers of an outcome. published: from, to; the same twice for a single number."""

    published: Range
    ours: float
    expected: Range


class Outcome(NamedTuple):
    """One line: published and ours in words, what is expected, and whether ours is.

    measured: None where it is no matter of numbers.
    """

    name: str
    published: str
    ours: str
    expected: str
    is_inside: bool
    measured: Measured | None = None


class BaseCheck(Spec):
    """metric: of which it is asked. ASKS_NUMBERS: whether points must be numbers, not words."""

    ASKS_NUMBERS: ClassVar = False

    model_config = ConfigDict(allow_inf_nan=True)  # a range may have no end

    metric: str

    def outcomes(self, results: pd.DataFrame) -> list[Outcome]:
        """results: columns series, at, metric, published, ours."""
        return self._outcomes(results[results["metric"] == self.metric])

    @abstractmethod
    def _outcomes(self, values: pd.DataFrame) -> list[Outcome]:
        """Of the rows of the metric."""


def number_words(number: float, form: str = ".3g") -> str:
    """A number, or that there is none: a limit that no point reaches, or all do."""
    return "not found" if math.isnan(number) else format(number, form)


def within_share(name: str, published: float, ours: float, share: float) -> Outcome:
    """Ours is to be so near to what was published."""
    is_inside = bool(abs(ours / published - 1) <= share)
    expected = (published * (1 - share), published * (1 + share))
    measured = Measured((published, published), ours, expected)
    words = (f"{published:.3g}", number_words(ours), f"within {share:.0%}")
    return Outcome(name, *words, is_inside, measured)


def within_range(
    name: str, published: Published, ours: float, expected: Range, form: str = ".3g"
) -> Outcome:
    """Ours is to be from the first of two numbers, which may be inf, to the second."""
    low, high = expected
    asked = f"{low:g} to {high:g}" if math.isfinite(high) else f"{low:g} at least"
    is_inside = bool(low <= ours <= high)
    if published is None or isinstance(published, str):
        return Outcome(name, published or "", number_words(ours, form), asked, is_inside)
    ends = published if isinstance(published, tuple) else (published, published)
    printed = " to ".join(dict.fromkeys(format(end, form) for end in ends))
    measured = Measured(ends, ours, expected)
    return Outcome(name, printed, number_words(ours, form), asked, is_inside, measured)
