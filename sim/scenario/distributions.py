"""Lengths in tokens and times in seconds, as a scenario writes them."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

import workloads as w
from sim.scenario.spec import LONGEST_S, MOST, Checked, OneOf, Spec
from workloads.checks import LARGEST_COUNT


class UniformSpec(Checked):
    """Whole numbers from low to high, both included."""

    low: int
    high: int

    def build(self) -> w.Uniform:
        """See Checked."""
        return w.Uniform(self.low, self.high)


class ExponentialSpec(Checked):
    """mean: of the distribution before what is above max is drawn again."""

    mean: float = Field(gt=0, le=MOST)
    max: int

    def build(self) -> w.Exponential:
        """See Checked."""
        return w.Exponential(self.mean, self.max)


class LogNormalSpec(Checked):
    """mean: of the continuous distribution; sigma: of its logarithm; then rounded and clipped."""

    mean: float = Field(gt=0, le=MOST)
    sigma: float
    min: int = 1
    max: int | None = None

    def build(self) -> w.LogNormal:
        """See Checked."""
        return w.LogNormal(self.mean, self.sigma, self.min, self.max)


class EmpiricalSpec(Spec):
    """Lengths drawn from those in a file, one a line."""

    file: str

    def build(self) -> w.Empirical:
        """The distribution; only now is the file read."""
        return w.empirical_from_file(self.file)


class LengthSpec(OneOf):
    """A distribution of lengths in tokens; a bare number is a fixed length."""

    fixed: int | None = Field(None, ge=1, le=LARGEST_COUNT)
    uniform: UniformSpec | None = None
    exponential: ExponentialSpec | None = None
    lognormal: LogNormalSpec | None = None
    empirical: EmpiricalSpec | None = None

    def build(self) -> w.Lengths:
        """The distribution."""
        return w.Fixed(self.fixed) if self.fixed else self.choice.build()


def fixed(value: Any) -> Any:
    """A bare number as a distribution that has no other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"fixed": value} if is_number else value


Lengths = Annotated[LengthSpec, BeforeValidator(fixed)]


class ExponentialTimeSpec(Checked):
    """mean: in seconds."""

    mean: float

    def build(self) -> w.ExponentialTime:
        """See Checked."""
        return w.ExponentialTime(self.mean)


class LogNormalTimeSpec(Checked):
    """mean: in seconds; sigma: of the logarithm."""

    mean: float
    sigma: float

    def build(self) -> w.LogNormalTime:
        """See Checked."""
        return w.LogNormalTime(self.mean, self.sigma)


class EmpiricalTimesSpec(Spec):
    """Times drawn from those in a file, seconds, one a line."""

    file: str

    def build(self) -> w.EmpiricalTimes:
        """The distribution; only now is the file read."""
        return w.empirical_times_from_file(self.file)


class DurationSpec(OneOf):
    """A distribution of times in seconds; a bare number is always the same."""

    fixed: float | None = Field(None, ge=0, le=LONGEST_S)
    exponential: ExponentialTimeSpec | None = None
    lognormal: LogNormalTimeSpec | None = None
    empirical: EmpiricalTimesSpec | None = None

    def build(self) -> w.Durations:
        """The distribution."""
        if self.fixed is not None:
            return w.FixedTime(self.fixed)
        durations: w.Durations = self.choice.build()
        return durations


Durations = Annotated[DurationSpec, BeforeValidator(fixed)]
