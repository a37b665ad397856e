"""When requests come, as a scenario writes it."""

from typing import Annotated

from pydantic import Field

import workloads as w
from sim.scenario.spec import LONGEST_S, MOST, Checked, OneOf

Rate = Annotated[
    float, Field(ge=1e-6, le=1e9, description="Requests, or sessions, per second, on average.")
]


class ConstantRateSpec(Checked):
    """Requests that come equally spaced."""

    rate: Rate

    def build(self) -> w.ConstantRate:
        """See Checked."""
        return w.ConstantRate(self.rate)


class PoissonSpec(Checked):
    """Requests that come independently of one another, at one rate."""

    rate: Rate

    def build(self) -> w.Poisson:
        """See Checked."""
        return w.Poisson(self.rate)


class GammaSpec(Checked):
    """Gaps of a gamma distribution."""

    rate: Rate
    cv: float = Field(
        description="Coefficient of variation of the gaps: 1 is Poisson, above 1 is burstier."
    )

    def build(self) -> w.Gamma:
        """See Checked."""
        return w.Gamma(self.rate, self.cv)


class WeibullSpec(Checked):
    """Gaps of a Weibull distribution."""

    rate: Rate
    shape: float = Field(description="Of the gaps: 1 is Poisson, below 1 is burstier.")

    def build(self) -> w.Weibull:
        """See Checked."""
        return w.Weibull(self.rate, self.shape)


class BurstsSpec(Checked):
    """Poisson at one rate while it is calm, and at another in bursts."""

    rate: float = Field(ge=1e-6, le=1e9, description="Requests per second while it is calm.")
    burst_rate: float = Field(ge=1e-6, le=1e9, description="Requests per second in a burst.")
    mean_calm_s: float = Field(description="Mean time from a burst to the next, in seconds.")
    mean_burst_s: float = Field(description="Mean time that a burst lasts, in seconds.")

    def build(self) -> w.Bursts:
        """See Checked."""
        return w.Bursts(self.rate, self.burst_rate, self.mean_calm_s, self.mean_burst_s)


class DiurnalSpec(Checked):
    """Poisson at a rate that goes up and down as a sine."""

    rate: Rate
    peak: float = Field(description="The highest rate, in multiples of the mean: from 1 to 2.")
    period_s: float = Field(description="From one peak to the next, in seconds.")

    def build(self) -> w.Diurnal:
        """See Checked."""
        return w.Diurnal(self.rate, self.peak, self.period_s)


class WindowsSpec(Checked):
    """Poisson at a rate of its own in each window of time."""

    window_s: float = Field(description="How long a window is, in seconds.")
    rates: list[float] = Field(
        min_length=1, description="Requests per second, of one window after the other."
    )

    def build(self) -> w.Windows:
        """See Checked."""
        return w.Windows(self.window_s, tuple(self.rates))


class ClosedLoopSpec(Checked):
    """Users who each send a request, wait for the answer, think, and send the next."""

    concurrency: int = Field(ge=1, le=MOST, description="How many users.")
    think_time_s: float = Field(
        0.0, le=LONGEST_S, description="From an answer to the next request, in seconds."
    )

    def build(self) -> w.ClosedLoop:
        """See Checked."""
        return w.ClosedLoop(self.concurrency, self.think_time_s)


class ArrivalsSpec(OneOf):
    """When requests come, or sessions start: exactly one of these."""

    constant: ConstantRateSpec | None = Field(None, description="Equally spaced.")
    poisson: PoissonSpec | None = Field(
        None, description="Independently of one another, at one rate."
    )
    gamma: GammaSpec | None = Field(None, description="With gaps of a gamma distribution.")
    weibull: WeibullSpec | None = Field(None, description="With gaps of a Weibull distribution.")
    bursts: BurstsSpec | None = Field(
        None, description="At one rate while it is calm, at another in bursts."
    )
    diurnal: DiurnalSpec | None = Field(
        None, description="At a rate that goes up and down as a sine."
    )
    windows: WindowsSpec | None = Field(None, description="At a rate for each window of time.")
    closed_loop: ClosedLoopSpec | None = Field(
        None, description="From users who each wait for their answer."
    )

    def build(self) -> w.Arrivals | w.ClosedLoop:
        """The arrival process, or the users of a closed loop."""
        arrivals: w.Arrivals | w.ClosedLoop = self.choice.build()
        return arrivals
