"""The keys of `workload`: what requests come, and when."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

import workloads as w
from sim.scenario.spec import LONGEST_S, MOST, Checked, OneOf, Spec
from workloads.checks import LARGEST_COUNT

LARGEST_N = 1000  # outputs of a prompt


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


def _fixed(value: Any) -> Any:
    return {"fixed": value} if isinstance(value, int) else value


Lengths = Annotated[LengthSpec, BeforeValidator(_fixed)]


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


class SharedSpec(Spec):
    """System prompts: requests draw one of `groups`, each `tokens` long, the first most often.

    zipf: the exponent of their popularity; 0: all are equally popular.
    """

    groups: int = Field(ge=1, le=LARGEST_COUNT)
    tokens: Lengths
    zipf: float = Field(0.0, ge=0, le=10)

    def build(self) -> w.SharedPrefix:
        """The groups."""
        return w.SharedPrefix(self.groups, self.tokens.build(), self.zipf)


class PromptsSpec(Spec):
    """A system prompt (optional), then what is the request's own."""

    shared: SharedSpec | None = None
    unique: Lengths


class SessionsSpec(Spec):
    """turns: of a session; think_time_s: from an answer to the next turn."""

    turns: Lengths
    think_time_s: float = Field(0.0, ge=0, le=LONGEST_S)

    def build(self) -> w.Sessions:
        """The sessions."""
        return w.Sessions(self.turns.build(), self.think_time_s)


class BeamSearchSpec(Spec):
    """switch: see `workloads.BeamModel`; of no consequence where the toy LM searches."""

    switch: float = Field(1.0, ge=0, le=1)


class ShapeSpec(Checked):
    """What is made of a trace first: see `workloads.Shape`."""

    window_s: list[float] | None = Field(None, min_length=2, max_length=2)
    sample: float = 1.0
    rate_scale: float = Field(1.0, ge=1e-6, le=1e6)
    repeat: int = Field(1, ge=1, le=10_000)
    too_long: Literal["refuse", "drop", "clip"] = "refuse"

    def build(self) -> w.Shape:
        """See Checked."""
        window_s = None if self.window_s is None else (self.window_s[0], self.window_s[1])
        return w.Shape(
            window_s=window_s,
            sample=self.sample,
            rate_scale=self.rate_scale,
            repeat=self.repeat,
            too_long=self.too_long,
        )


class ClassSpec(Checked):
    """share: of the sessions; priority: lower goes first, with the policy `priority`."""

    share: float
    priority: int = 0

    def build(self) -> w.RequestClass:
        """See Checked."""
        return w.RequestClass(self.share, self.priority)


class WorkloadSpec(Spec):
    """Synthetic (requests, arrivals, prompts, outputs), or a trace (its first `requests`).

    format: of the trace, where its content does not show it. arrivals: of a trace without times.
    sessions: synthetic requests are turns of conversations, which start when arrivals say.
    n: outputs of each request, all as long as is drawn for the request: parallel samples or, with
        `beam_search`, the beams of a search of this width.
    """

    SYNTHETIC: ClassVar = ("requests", "arrivals", "prompts", "outputs")

    requests: int | None = Field(None, ge=1, le=MOST)
    arrivals: ArrivalsSpec | None = None
    prompts: PromptsSpec | None = None
    outputs: Lengths | None = None
    sessions: SessionsSpec | None = None
    n: int = Field(1, ge=1, le=LARGEST_N)
    beam_search: BeamSearchSpec | None = None
    trace: str | None = None
    format: str | None = None
    shape: ShapeSpec | None = None
    max_new_tokens: int | None = Field(None, ge=1, le=LARGEST_COUNT)
    classes: dict[str, ClassSpec] = Field({})

    @model_validator(mode="after")
    def _synthetic_or_trace(self) -> Self:
        given = [name for name in self.SYNTHETIC if getattr(self, name) is not None]
        if self.trace is None and len(given) < len(self.SYNTHETIC):
            missing = ", ".join(name for name in self.SYNTHETIC if name not in given)
            raise ValueError(f"a trace, or all of {', '.join(self.SYNTHETIC)}; missing: {missing}")
        extra = [name for name in given if name not in ("requests", "arrivals")]
        extra += ["sessions"] if self.sessions else []
        if self.trace is not None and extra:
            raise ValueError(f"either trace or {', '.join(extra)}, not both")
        for name in ("format", "shape"):
            if getattr(self, name) is not None and self.trace is None:
                raise ValueError(f"{name}: got one without a trace, expected none")
        if self.n > 1 and (self.trace is not None or self.sessions):
            name = "sessions" if self.sessions else "a trace"
            raise ValueError(f"n: got {self.n} with {name}, expected 1")
        if self.beam_search and self.n == 1:
            raise ValueError("n: got 1 with beam_search, expected its width, 2 or more")
        return self
