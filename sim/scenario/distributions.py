"""Lengths in tokens and times in seconds, as a scenario writes them."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

import workloads as w
from sim.scenario.spec import LONGEST_S, MOST, Checked, OneOf, Spec
from workloads.checks import LARGEST_COUNT


class UniformSpec(Checked):
    """Whole numbers from low to high, both included."""

    low: int = Field(description="The least, in tokens.")
    high: int = Field(description="The most, in tokens.")

    def build(self) -> w.Uniform:
        """See Checked."""
        return w.Uniform(self.low, self.high)


class ExponentialSpec(Checked):
    """Lengths of an exponential distribution; what is above max is drawn again."""

    mean: float = Field(
        gt=0, le=MOST, description="In tokens, before what is above max is drawn again."
    )
    max: int = Field(description="The most, in tokens.")

    def build(self) -> w.Exponential:
        """See Checked."""
        return w.Exponential(self.mean, self.max)


class LogNormalSpec(Checked):
    """Lengths of a lognormal distribution, rounded, then clipped to min and max."""

    mean: float = Field(gt=0, le=MOST, description="In tokens, before they are clipped.")
    sigma: float = Field(description="Standard deviation of the logarithm.")
    min: int = Field(1, description="The least, in tokens.")
    max: int | None = Field(None, description="The most, in tokens; null: no limit.")

    def build(self) -> w.LogNormal:
        """See Checked."""
        return w.LogNormal(self.mean, self.sigma, self.min, self.max)


class EmpiricalSpec(Spec):
    """Lengths drawn from those in a file, one a line."""

    file: str = Field(description="Path of a file with a length in tokens a line.")

    def build(self) -> w.Empirical:
        """The distribution; only now is the file read."""
        return w.empirical_from_file(self.file)


class LengthSpec(OneOf):
    """A distribution of lengths in tokens; a bare number is a fixed length."""

    fixed: int | None = Field(
        None, ge=1, le=LARGEST_COUNT, description="Always so many, as a bare number says too."
    )
    uniform: UniformSpec | None = Field(None, description="Every length as often.")
    exponential: ExponentialSpec | None = Field(None, description="Exponential, with a maximum.")
    lognormal: LogNormalSpec | None = Field(None, description="Lognormal, as lengths often are.")
    empirical: EmpiricalSpec | None = Field(None, description="Drawn from a file of lengths.")

    def build(self) -> w.Lengths:
        """The distribution."""
        return w.Fixed(self.fixed) if self.fixed else self.choice.build()


def fixed(value: Any) -> Any:
    """A bare number as a distribution that has no other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"fixed": value} if is_number else value


Lengths = Annotated[
    LengthSpec,
    BeforeValidator(
        fixed, json_schema_input_type=Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | LengthSpec
    ),
]


class ExponentialTimeSpec(Checked):
    """Times of an exponential distribution."""

    mean: float = Field(description="In seconds.")

    def build(self) -> w.ExponentialTime:
        """See Checked."""
        return w.ExponentialTime(self.mean)


class LogNormalTimeSpec(Checked):
    """Times of a lognormal distribution."""

    mean: float = Field(description="In seconds.")
    sigma: float = Field(description="Standard deviation of the logarithm.")

    def build(self) -> w.LogNormalTime:
        """See Checked."""
        return w.LogNormalTime(self.mean, self.sigma)


class EmpiricalTimesSpec(Spec):
    """Times drawn from those in a file, seconds, one a line."""

    file: str = Field(description="Path of a file with a time in seconds a line.")

    def build(self) -> w.EmpiricalTimes:
        """The distribution; only now is the file read."""
        return w.empirical_times_from_file(self.file)


class DurationSpec(OneOf):
    """A distribution of times in seconds; a bare number is always the same."""

    fixed: float | None = Field(
        None, ge=0, le=LONGEST_S, description="Always so long, as a bare number says too."
    )
    exponential: ExponentialTimeSpec | None = Field(None, description="Exponential.")
    lognormal: LogNormalTimeSpec | None = Field(None, description="Lognormal.")
    empirical: EmpiricalTimesSpec | None = Field(None, description="Drawn from a file of times.")

    def build(self) -> w.Durations:
        """The distribution."""
        if self.fixed is not None:
            return w.FixedTime(self.fixed)
        durations: w.Durations = self.choice.build()
        return durations


Durations = Annotated[
    DurationSpec,
    BeforeValidator(
        fixed, json_schema_input_type=Annotated[float, Field(ge=0, le=LONGEST_S)] | DurationSpec
    ),
]
