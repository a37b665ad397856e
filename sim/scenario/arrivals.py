"""When requests come, as a scenario writes it."""

from pydantic import Field

import workloads as w
from sim.scenario.spec import LONGEST_S, MOST, Checked, OneOf


class ConstantRateSpec(Checked):
    """rate: requests per second, equally spaced."""

    rate: float = Field(ge=1e-6, le=1e9)

    def build(self) -> w.ConstantRate:
        """See Checked."""
        return w.ConstantRate(self.rate)


class PoissonSpec(Checked):
    """rate: requests per second."""

    rate: float = Field(ge=1e-6, le=1e9)

    def build(self) -> w.Poisson:
        """See Checked."""
        return w.Poisson(self.rate)


class GammaSpec(Checked):
    """rate: requests per second; cv: coefficient of variation of the gaps (1 is Poisson)."""

    rate: float = Field(ge=1e-6, le=1e9)
    cv: float

    def build(self) -> w.Gamma:
        """See Checked."""
        return w.Gamma(self.rate, self.cv)


class WeibullSpec(Checked):
    """rate: requests per second; shape: of the gaps (1 is Poisson, below is burstier)."""

    rate: float = Field(ge=1e-6, le=1e9)
    shape: float

    def build(self) -> w.Weibull:
        """See Checked."""
        return w.Weibull(self.rate, self.shape)


class BurstsSpec(Checked):
    """rate, burst_rate: requests per second while calm and in bursts; means of the stays."""

    rate: float = Field(ge=1e-6, le=1e9)
    burst_rate: float = Field(ge=1e-6, le=1e9)
    mean_calm_s: float
    mean_burst_s: float

    def build(self) -> w.Bursts:
        """See Checked."""
        return w.Bursts(self.rate, self.burst_rate, self.mean_calm_s, self.mean_burst_s)


class DiurnalSpec(Checked):
    """rate: mean requests per second; peak: the highest rate over the mean."""

    rate: float = Field(ge=1e-6, le=1e9)
    peak: float
    period_s: float

    def build(self) -> w.Diurnal:
        """See Checked."""
        return w.Diurnal(self.rate, self.peak, self.period_s)


class WindowsSpec(Checked):
    """rates: requests per second, of one window of window_s seconds after the other."""

    window_s: float
    rates: list[float] = Field(min_length=1)

    def build(self) -> w.Windows:
        """See Checked."""
        return w.Windows(self.window_s, tuple(self.rates))


class ClosedLoopSpec(Checked):
    """concurrency users, each sending its next request think_time_s after an answer."""

    concurrency: int = Field(ge=1, le=MOST)
    think_time_s: float = Field(0.0, le=LONGEST_S)

    def build(self) -> w.ClosedLoop:
        """See Checked."""
        return w.ClosedLoop(self.concurrency, self.think_time_s)


class ArrivalsSpec(OneOf):
    """When requests come."""

    constant: ConstantRateSpec | None = None
    poisson: PoissonSpec | None = None
    gamma: GammaSpec | None = None
    weibull: WeibullSpec | None = None
    bursts: BurstsSpec | None = None
    diurnal: DiurnalSpec | None = None
    windows: WindowsSpec | None = None
    closed_loop: ClosedLoopSpec | None = None

    def build(self) -> w.Arrivals | w.ClosedLoop:
        """The arrival process, or the users of a closed loop."""
        arrivals: w.Arrivals | w.ClosedLoop = self.choice.build()
        return arrivals
