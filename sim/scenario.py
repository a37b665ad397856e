"""What a scenario may say: the schema, with every key's type, range and default."""

import json
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    model_validator,
)
from pydantic.dataclasses import dataclass

from engine.config import EngineConfig
from engine.transformer import TransformerConfig

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Spec(BaseModel):
    """A mapping of a scenario: no unknown keys, no silent conversions."""

    model_config = {**_STRICT, "frozen": True}


class OneOf(Spec):
    """A mapping with exactly one of its keys, such as `poisson: {rate: 8}`."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            names = ", ".join(type(self).model_fields)
            raise ValueError(f"exactly one of {names}, {len(given)} given")
        return self

    @property
    def choice(self) -> Any:
        """The value of the one key."""
        return next(v for _, v in self if v is not None)


class UniformSpec(Spec):
    """Whole numbers from low to high, both included."""

    low: int = Field(ge=1)
    high: int = Field(ge=1)


class LogNormalSpec(Spec):
    """mean: of the continuous distribution; sigma: of its logarithm; then rounded and clipped."""

    mean: float = Field(gt=0)
    sigma: float = Field(ge=0)
    min: int = Field(1, ge=1)
    max: int | None = Field(None, ge=1)


class EmpiricalSpec(Spec):
    """Lengths drawn from those in a file, one a line."""

    file: str


class LengthSpec(OneOf):
    """A distribution of lengths in tokens; a bare number is a fixed length."""

    fixed: int | None = Field(None, ge=1)
    uniform: UniformSpec | None = None
    lognormal: LogNormalSpec | None = None
    empirical: EmpiricalSpec | None = None


def _fixed(value: Any) -> Any:
    return {"fixed": value} if isinstance(value, int) else value


Lengths = Annotated[LengthSpec, BeforeValidator(_fixed)]


class RateSpec(Spec):
    """rate: requests per second."""

    rate: float = Field(gt=0)


class GammaSpec(Spec):
    """rate: requests per second; cv: coefficient of variation of the gaps (1 is Poisson)."""

    rate: float = Field(gt=0)
    cv: float = Field(gt=0)


class ClosedLoopSpec(Spec):
    """concurrency users, each sending its next request think_time_s after an answer."""

    concurrency: int = Field(ge=1)
    think_time_s: float = Field(0.0, ge=0)


class ArrivalsSpec(OneOf):
    """When requests come."""

    constant: RateSpec | None = None
    poisson: RateSpec | None = None
    gamma: GammaSpec | None = None
    closed_loop: ClosedLoopSpec | None = None


class SharedSpec(Spec):
    """System prompts: requests draw one of `groups`, each `tokens` long."""

    groups: int = Field(ge=1)
    tokens: Lengths


class PromptsSpec(Spec):
    """A system prompt (optional), then what is the request's own."""

    shared: SharedSpec | None = None
    unique: Lengths


class WorkloadSpec(Spec):
    """Synthetic (requests, arrivals, prompts, outputs), or a trace (its first `requests`)."""

    SYNTHETIC: ClassVar = ("requests", "arrivals", "prompts", "outputs")

    requests: int | None = Field(None, ge=1)
    arrivals: ArrivalsSpec | None = None
    prompts: PromptsSpec | None = None
    outputs: Lengths | None = None
    trace: str | None = None
    max_new_tokens: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _synthetic_or_trace(self) -> Self:
        given = [name for name in self.SYNTHETIC if getattr(self, name) is not None]
        if self.trace is None and len(given) < len(self.SYNTHETIC):
            missing = ", ".join(name for name in self.SYNTHETIC if name not in given)
            raise ValueError(f"trace, or all of {', '.join(self.SYNTHETIC)}; missing: {missing}")
        if self.trace is not None and set(given) - {"requests"}:
            extra = ", ".join(name for name in given if name != "requests")
            raise ValueError(f"trace replaces {extra}: give one or the other")
        return self


class ConstantSpec(Spec):
    """Every step takes step_time_s."""

    kind: Literal["constant"]
    step_time_s: float = Field(gt=0)


class LinearSpec(Spec):
    """A fixed cost a step and costs per decode, per token of their context, per prefill token."""

    kind: Literal["linear"]
    step_s: float = Field(gt=0)
    per_decode_s: float = Field(0.0, ge=0)
    per_context_token_s: float = Field(0.0, ge=0)
    per_prefill_token_s: float = Field(0.0, ge=0)


class RooflineSpec(Spec):
    """Roofline of a model on the hardware.

    model: whose time is charged, where that is not the model that computes. The defaults of the
    three constants are round assumptions, common to all GPUs, not measurements.
    """

    kind: Literal["roofline"]
    model: str | None = None
    flop_efficiency: float = Field(0.7, gt=0, le=1)
    bandwidth_efficiency: float = Field(0.85, gt=0, le=1)
    overhead_s: float = Field(0.001, ge=0)


def _kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


Latency = Annotated[
    ConstantSpec | LinearSpec | RooflineSpec,
    Field(discriminator="kind"),
    BeforeValidator(_kind),
]


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class EngineSettings(EngineConfig):
    """The engine's settings, checked as strictly as the rest of a scenario."""


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ToyLMSettings(TransformerConfig):
    """Sizes of the toy transformer."""


_ENGINE = TypeAdapter(EngineSettings)


def _json(data: Any) -> str:
    # Strict validation takes a mapping for a data class only where it comes as JSON.
    return json.dumps(data, default=str)


class Scenario(Spec):
    """Everything that decides a result.

    systems: what is compared, each a name and the engine settings in which it differs.
    sweep: key paths and the values they take; all combinations are run.
    replications: runs of every point, each with a seed of its own (seed, seed + 1, ...).
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seed: int = Field(1, ge=0)
    replications: int = Field(1, ge=1)
    model: str = "toy"
    hardware: str = "a100-80gb"
    latency: Latency = RooflineSpec(kind="roofline")
    runner: Literal["toy-lm", "replay"] = "replay"
    toy_lm: ToyLMSettings = ToyLMSettings()
    engine: EngineSettings = EngineSettings()
    workload: WorkloadSpec
    systems: dict[str, dict[str, Any]] = Field({"engine": {}}, min_length=1)
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}

    @classmethod
    def parse(cls, data: Any) -> Self:
        """A scenario from plain data. Raises pydantic's ValidationError for all that is wrong."""
        return cls.model_validate_json(_json(data))

    def engine_config(self, system: str) -> EngineConfig:
        """Settings of one system: the common ones, overridden by its own."""
        settings = _ENGINE.validate_json(_json({**asdict(self.engine), **self.systems[system]}))
        return EngineConfig(**asdict(settings))
