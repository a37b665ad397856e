"""How long prompts and outputs are, in tokens."""

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from workloads.checks import (
    COUNT_EXPECTED,
    LARGEST_COUNT,
    problem,
    require_between,
    require_count,
    require_positive,
)
from workloads.errors import WorkloadError
from workloads.files import bad_file, parse_count, read_text

# Up to here the mean of a lognormal is summed length by length (some 10 ms).
_LAST_SUMMED_TOKENS = 100_000


class Lengths(Protocol):
    """A distribution of numbers of tokens, each at least 1."""

    @property
    def mean_tokens(self) -> float:
        """Mean of what `sample` gives, rounding and clipping included."""

    @property
    def max_tokens(self) -> int | None:
        """The largest length there is; None if there is no limit."""

    def sample(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """`num` independent lengths."""


@dataclass(frozen=True)
class Fixed:
    """Always the same length. Raises WorkloadError for a length below 1."""

    tokens: int

    def __post_init__(self) -> None:
        require_count("tokens", self.tokens)

    @property
    def mean_tokens(self) -> float:
        """The length."""
        return float(self.tokens)

    @property
    def max_tokens(self) -> int:
        """The length."""
        return self.tokens

    def sample(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """`num` times the length; `rng` is not used."""
        return np.full(num, self.tokens, dtype=np.int64)


@dataclass(frozen=True)
class Uniform:
    """Integers from low to high, both included. Raises WorkloadError unless 1 <= low <= high."""

    low: int
    high: int

    def __post_init__(self) -> None:
        require_count("low", self.low)
        require_count("high", self.high)
        if self.high < self.low:
            raise WorkloadError(problem("high", self.high, f"at least low ({self.low})"))

    @property
    def mean_tokens(self) -> float:
        """(low + high) / 2."""
        return (self.low + self.high) / 2

    @property
    def max_tokens(self) -> int:
        """`high`."""
        return self.high

    def sample(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """`num` independent lengths."""
        return rng.integers(self.low, self.high, size=num, endpoint=True, dtype=np.int64)


@dataclass(frozen=True)
class Exponential:
    """An exponential variable Y, rounded, drawn again until it is at most max, at least 1.

    mean: E[Y] in tokens before anything is drawn again (`mean_tokens` is what comes out).

    Raises WorkloadError unless mean is above 0 and max an integer from 1.
    """

    mean: float
    max: int

    def __post_init__(self) -> None:
        require_positive("mean", self.mean)
        require_count("max", self.max)

    @property
    def mean_tokens(self) -> float:
        """1 + sum of P(X > k) over k from 1 to max - 1, and X > k when Y > k + 1/2.

        With r = e^(-1 / mean) and q = r^(max + 1/2), P(Y > y) is (r^y - q) / (1 - q): the sum is
        that of a geometric series.
        """
        num = self.max - 1
        above_max = math.exp(-(self.max + 0.5) / self.mean)
        series = math.exp(-1.5 / self.mean) * math.expm1(-num / self.mean)
        series /= math.expm1(-1 / self.mean)
        return 1 + (series - num * above_max) / self._below_max

    @property
    def max_tokens(self) -> int:
        """`max`."""
        return self.max

    def sample(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """`num` independent lengths; with another mean or max the same draws, stretched."""
        tokens = np.rint(-self.mean * np.log1p(-self._below_max * rng.random(num)))
        return np.clip(tokens.astype(np.int64), 1, self.max)

    @property
    def _below_max(self) -> float:
        """Probability that one draw is at most max."""
        return -math.expm1(-(self.max + 0.5) / self.mean)


@dataclass(frozen=True)
class LogNormal:
    """A lognormal variable Y, rounded to whole tokens, then clipped into [min, max].

    mean: E[Y] in tokens, before rounding and clipping (`mean_tokens` is what comes out).
    sigma: standard deviation of ln Y; the mean of ln Y is ln(mean) - sigma**2 / 2.
    max: None clips at LARGEST_COUNT only, far above any context length.

    Raises WorkloadError unless mean is above 0, sigma from 0.001 to 10 and 1 <= min <= max.
    """

    mean: float
    sigma: float
    min: int = 1
    max: int | None = None

    def __post_init__(self) -> None:
        require_positive("mean", self.mean)
        require_between("sigma", self.sigma, 0.001, 10)
        require_count("min", self.min)
        if self.max is not None:
            require_count("max", self.max)
            if self.max < self.min:
                raise WorkloadError(problem("max", self.max, f"at least min ({self.min})"))

    @property
    def mean_tokens(self) -> float:
        """Mean of the rounded and clipped variable X, from tail probabilities of Y.

        E[X] = min + sum of P(X > k) over k from min to max - 1, and X > k when Y > k + 1/2, of
        probability erfc((ln(k + 1/2) - mu) / (sigma sqrt 2)) / 2. Beyond 100,000 tokens the sum
        is taken as the integral of P(Y > y), which is off by less than half a token.
        """
        last_summed = min(self._upper, max(self.min, _LAST_SUMMED_TOKENS))
        log_halves = np.log(np.arange(self.min, last_summed) + 0.5)
        standard = (log_halves - self._mu) / (self.sigma * math.sqrt(2))
        summed = math.fsum(map(math.erfc, standard.tolist())) / 2
        return self.min + summed + self._mean_above(last_summed) - self._mean_above(self._upper)

    @property
    def max_tokens(self) -> int | None:
        """`max`."""
        return self.max

    def sample(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """`num` independent lengths; with another mean or sigma the same draws, stretched."""
        log_tokens = self._mu + self.sigma * rng.standard_normal(num)
        # Clipped from above before exp, which could overflow.
        tokens = np.rint(np.exp(np.minimum(log_tokens, math.log(self._upper))))
        return np.clip(tokens.astype(np.int64), self.min, self._upper)

    @property
    def _mu(self) -> float:
        return math.log(self.mean) - self.sigma**2 / 2

    @property
    def _upper(self) -> int:
        return LARGEST_COUNT if self.max is None else self.max

    def _mean_above(self, tokens: int) -> float:
        """E[max(Y - tokens, 0)], the integral of P(Y > y) from `tokens` on.

        It is mean * Phi(d + sigma) - tokens * Phi(d) with d = (mu - ln(tokens)) / sigma: the
        undiscounted call of Black and Scholes (1973).
        """
        d = (self._mu - math.log(tokens)) / self.sigma
        return self.mean * _normal_cdf(d + self.sigma) - tokens * _normal_cdf(d)


@dataclass(frozen=True)
class Empirical:
    """Each of the given lengths with equal probability, drawn with replacement.

    Raises WorkloadError for no values or for one below 1.
    """

    values: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise WorkloadError(problem("values", self.values, "at least one length"))
        for i, value in enumerate(self.values):
            require_count(f"values[{i}]", value)

    @property
    def mean_tokens(self) -> float:
        """Mean of the values."""
        return sum(self.values) / len(self.values)

    @property
    def max_tokens(self) -> int:
        """The largest value."""
        return max(self.values)

    def sample(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """`num` independent lengths."""
        picks = rng.integers(len(self.values), size=num)
        return np.array(self.values, dtype=np.int64)[picks]


def empirical_from_file(path: str | Path) -> Empirical:
    """Lengths from a text file, plain or gzipped: one positive integer a line.

    Blank lines and lines that start with # are skipped. Raises WorkloadError, naming every bad
    line (ten at most), for anything else, and for a file without lengths.
    """
    values: list[int] = []
    problems: list[str] = []
    for line, text in enumerate(io.StringIO(read_text(path), newline=None), 1):
        cell = text.strip()
        if not cell or cell.startswith("#"):
            continue
        value = parse_count(cell)
        if value is None:
            problems.append(problem(f"line {line}", cell, COUNT_EXPECTED))
        else:
            values.append(value)
    if not (values or problems):
        problems.append(f"no lengths, expected {COUNT_EXPECTED} a line")
    if problems:
        raise bad_file(path, problems)
    return Empirical(tuple(values))


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
