"""How long clients think, or their tools take, in seconds."""

import io
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from workloads.checks import problem, require_between
from workloads.errors import WorkloadError
from workloads.files import bad_file, read_text

LONGEST_S = 1e9  # 32 years; int64 nanoseconds end at 292
_PLAIN = re.compile(r"[0-9]*\.?[0-9]+([eE][-+]?[0-9]{1,3})?")


class Durations(Protocol):
    """A distribution of times, 0 or longer."""

    @property
    def mean_s(self) -> float:
        """Mean of what `sample_s` gives."""

    def sample_s(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """`num` independent times in seconds, none above LONGEST_S."""


@dataclass(frozen=True)
class FixedTime:
    """Always as long. Raises WorkloadError unless seconds is from 0 to LONGEST_S."""

    seconds: float

    def __post_init__(self) -> None:
        require_between("seconds", self.seconds, 0, LONGEST_S)

    @property
    def mean_s(self) -> float:
        """The time."""
        return float(self.seconds)

    def sample_s(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """`num` times the same; `rng` is not used."""
        return np.full(num, float(self.seconds))


@dataclass(frozen=True)
class ExponentialTime:
    """Memoryless. Raises WorkloadError unless mean is from 1 ns to a thousandth of LONGEST_S."""

    mean: float

    def __post_init__(self) -> None:
        require_between("mean", self.mean, 1e-9, LONGEST_S / 1000)

    @property
    def mean_s(self) -> float:
        """`mean`; beyond LONGEST_S is what has a probability of e^-1000 at most."""
        return float(self.mean)

    def sample_s(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """`num` independent times; with another mean the same draws, stretched."""
        return self.mean * rng.standard_exponential(num)


@dataclass(frozen=True)
class LogNormalTime:
    """mean: in seconds. sigma: standard deviation of the logarithm. Cut off at LONGEST_S.

    Raises WorkloadError unless mean is from 1 ns to a thousandth of LONGEST_S and sigma from 0.001
    to 3. At the largest of both the cut takes 14 % of the mean; up to a day and sigma 2, nothing.
    """

    mean: float
    sigma: float

    def __post_init__(self) -> None:
        require_between("mean", self.mean, 1e-9, LONGEST_S / 1000)
        require_between("sigma", self.sigma, 0.001, 3)

    @property
    def mean_s(self) -> float:
        """E[min(Y, c)] of the lognormal Y, c = LONGEST_S: what is above c counts as c.

        E[Y; Y < c] is mean * Phi(d - sigma), and P(Y > c) is Phi(-d), d = (ln c - mu) / sigma.
        """
        d = (math.log(LONGEST_S) - self._mu) / self.sigma
        below = self.mean * math.erfc((self.sigma - d) / math.sqrt(2)) / 2
        return below + LONGEST_S * math.erfc(d / math.sqrt(2)) / 2

    def sample_s(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """`num` independent times; with another mean or sigma the same draws, stretched."""
        log_s = self._mu + self.sigma * rng.standard_normal(num)
        return np.exp(np.minimum(log_s, math.log(LONGEST_S)))

    @property
    def _mu(self) -> float:
        return math.log(self.mean) - self.sigma**2 / 2


@dataclass(frozen=True)
class EmpiricalTimes:
    """Each of the given times with equal probability, drawn with replacement.

    Raises WorkloadError for no values, or one that is not from 0 to LONGEST_S.
    """

    values_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values_s:
            raise WorkloadError(problem("values_s", self.values_s, "at least one time"))
        for i, value in enumerate(self.values_s):
            require_between(f"values_s[{i}]", value, 0, LONGEST_S)

    @property
    def mean_s(self) -> float:
        """Mean of the values."""
        return math.fsum(self.values_s) / len(self.values_s)

    def sample_s(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """`num` independent times."""
        return np.array(self.values_s)[rng.integers(len(self.values_s), size=num)]


def empirical_times_from_file(path: str | Path) -> EmpiricalTimes:
    """Times from a text file, plain or gzipped: seconds, one a line; # starts a comment line.

    Raises WorkloadError, naming every bad line (ten at most), and for a file without times.
    """
    expected = f"seconds from 0 to {LONGEST_S:g}"
    values: list[float] = []
    problems: list[str] = []
    for line, text in enumerate(io.StringIO(read_text(path), newline=None), 1):
        cell = text.strip()
        if not cell or cell.startswith("#"):
            continue
        value = float(cell) if _PLAIN.fullmatch(cell) else math.nan
        if 0 <= value <= LONGEST_S:
            values.append(value)
        else:
            problems.append(problem(f"line {line}", cell, expected))
    if not (values or problems):
        problems.append(f"no times, expected {expected}, one a line")
    if problems:
        raise bad_file(path, problems)
    return EmpiricalTimes(tuple(values))
