"""What a scenario may say: the schema, with every key's type, range and default."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass

import workloads as w
from engine.config import LARGEST, EngineConfig
from engine.transformer import TransformerConfig
from sim import catalogue
from sim.deployment import Deployment
from sim.errors import UserError
from sim.kv_size import KVSize, kv_size
from workloads.checks import LARGEST_COUNT

_LARGEST = 10_000_000  # of any count but those that only `workloads` sees
_LONGEST_S = 1e9  # 32 years; int64 nanoseconds end at 292

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


class Checked(Spec):
    """A mapping that describes an object of `workloads`, which checks the values itself."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        self.build()
        return self

    def build(self) -> Any:
        """The object. Raises WorkloadError for values that it cannot have."""
        raise NotImplementedError


class UniformSpec(Checked):
    """Whole numbers from low to high, both included."""

    low: int
    high: int

    def build(self) -> w.Uniform:
        """See Checked."""
        return w.Uniform(self.low, self.high)


class LogNormalSpec(Checked):
    """mean: of the continuous distribution; sigma: of its logarithm; then rounded and clipped."""

    mean: float = Field(gt=0, le=_LARGEST)
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


class ClosedLoopSpec(Checked):
    """concurrency users, each sending its next request think_time_s after an answer."""

    concurrency: int = Field(ge=1, le=_LARGEST)
    think_time_s: float = Field(0.0, le=_LONGEST_S)

    def build(self) -> w.ClosedLoop:
        """See Checked."""
        return w.ClosedLoop(self.concurrency, self.think_time_s)


class ArrivalsSpec(OneOf):
    """When requests come."""

    constant: ConstantRateSpec | None = None
    poisson: PoissonSpec | None = None
    gamma: GammaSpec | None = None
    closed_loop: ClosedLoopSpec | None = None

    def build(self) -> w.Arrivals | w.ClosedLoop:
        """The arrival process, or the users of a closed loop."""
        arrivals: w.Arrivals | w.ClosedLoop = self.choice.build()
        return arrivals


class SharedSpec(Spec):
    """System prompts: requests draw one of `groups`, each `tokens` long."""

    groups: int = Field(ge=1, le=LARGEST_COUNT)
    tokens: Lengths

    def build(self) -> w.SharedPrefix:
        """The groups."""
        return w.SharedPrefix(self.groups, self.tokens.build())


class PromptsSpec(Spec):
    """A system prompt (optional), then what is the request's own."""

    shared: SharedSpec | None = None
    unique: Lengths


class WorkloadSpec(Spec):
    """Synthetic (requests, arrivals, prompts, outputs), or a trace (its first `requests`)."""

    SYNTHETIC: ClassVar = ("requests", "arrivals", "prompts", "outputs")

    requests: int | None = Field(None, ge=1, le=_LARGEST)
    arrivals: ArrivalsSpec | None = None
    prompts: PromptsSpec | None = None
    outputs: Lengths | None = None
    trace: str | None = None
    max_new_tokens: int | None = Field(None, ge=1, le=LARGEST_COUNT)

    @model_validator(mode="after")
    def _synthetic_or_trace(self) -> Self:
        given = [name for name in self.SYNTHETIC if getattr(self, name) is not None]
        if self.trace is None and len(given) < len(self.SYNTHETIC):
            missing = ", ".join(name for name in self.SYNTHETIC if name not in given)
            raise ValueError(f"a trace, or all of {', '.join(self.SYNTHETIC)}; missing: {missing}")
        if self.trace is not None and set(given) - {"requests"}:
            extra = ", ".join(name for name in given if name != "requests")
            raise ValueError(f"either trace or {extra}, not both")
        return self


class ConstantSpec(Spec):
    """Every step takes step_time_s."""

    kind: Literal["constant"]
    step_time_s: float = Field(gt=0, le=_LONGEST_S)


class LinearSpec(Spec):
    """A fixed cost a step and costs of what is in it; see `sim.latency.linear`."""

    kind: Literal["linear"]
    step_s: float = Field(ge=0, le=_LONGEST_S)
    per_decode_s: float = Field(0.0, ge=0, le=1)
    per_decode_doubling_s: float = Field(0.0, ge=0, le=1)
    per_context_token_s: float = Field(0.0, ge=0, le=1)
    per_prefill_s: float = Field(0.0, ge=0, le=1)
    per_prefill_token_s: float = Field(0.0, ge=0, le=1)
    per_prefill_pair_s: float = Field(0.0, ge=0, le=1)
    wake_s: float = Field(0.0, ge=0, le=_LONGEST_S)


class FittedSpec(Spec):
    """Linear, with the constants that fit the measured steps in CSV files."""

    kind: Literal["fitted"]
    files: list[str] = Field(min_length=1)


class RooflineSpec(Spec):
    """Roofline of the model on the hardware.

    constants: shares of the peaks that operators reach, from the catalogue: those of the `gpu`, or
    those `common` to GPUs that were not measured. flop_efficiency, bandwidth_efficiency: one share
    for every operator instead. overhead_s, per_sequence_s: what a step, and each of its decodes and
    prefill chunks, costs besides.
    """

    kind: Literal["roofline"]
    constants: Literal["gpu", "common"] = "gpu"
    flop_efficiency: float | None = Field(None, ge=0.001, le=1)
    bandwidth_efficiency: float | None = Field(None, ge=0.001, le=1)
    overhead_s: float = Field(0.001, ge=0, le=_LONGEST_S)
    per_sequence_s: float = Field(0.0, ge=0, le=1)


class ProfileSpec(Spec):
    """Tables of measured operators in a folder; overheads as in RooflineSpec."""

    kind: Literal["profile"]
    folder: str
    overhead_s: float = Field(0.001, ge=0, le=_LONGEST_S)
    per_sequence_s: float = Field(0.0, ge=0, le=1)


class SiliconSpec(Spec):
    """Measured kernels in the library aiconfigurator-core; overheads as in RooflineSpec."""

    kind: Literal["silicon"]
    overhead_s: float = Field(0.001, ge=0, le=_LONGEST_S)
    per_sequence_s: float = Field(0.0, ge=0, le=1)


def _kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


LATENCY_KINDS = ("constant", "linear", "fitted", "roofline", "profile", "silicon")
Latency = Annotated[
    ConstantSpec | LinearSpec | FittedSpec | RooflineSpec | ProfileSpec | SiliconSpec,
    Field(discriminator="kind"),
    BeforeValidator(_kind),
]


class DeploymentSpec(Spec):
    """How the model lies on the GPUs, and how much of their memory the KV cache gets.

    kv_cache_memory_bytes: of one GPU, instead of what gpu_memory_utilization leaves for it.
    """

    tensor_parallel_size: int = Field(1, ge=1, le=1024)
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    quantization: Literal["auto", "none", "fp8", "int4", "mxfp4"] = "auto"
    kv_cache_dtype: Literal["auto", "float32", "float16", "bfloat16", "fp8"] = "auto"
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    kv_cache_memory_bytes: int | None = Field(None, ge=1)


def _number_or_auto(value: Any) -> Any:
    # One mistake, where a union of types would complain once for each of them.
    if value != "auto" and not (type(value) is int and 1 <= value <= LARGEST):
        raise ValueError(f"got {value!r}, expected auto or a number from 1 to {LARGEST}")
    return value


NumBlocks = Annotated[
    int | str,
    PlainValidator(_number_or_auto),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}]}),
]


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class EngineSettings(EngineConfig):
    """The engine's settings, checked as strictly as the rest of a scenario.

    num_blocks: `auto` is what the memory of the GPUs holds.
    """

    num_blocks: NumBlocks = 512  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ToyLMSettings(TransformerConfig):
    """Sizes of the toy transformer."""


_ENGINE = TypeAdapter(EngineSettings)

# What a sweep may vary: the first part of its key paths -> how many parts follow it at least.
_SWEPT = {
    "model": 0,
    "hardware": 0,
    "runner": 0,
    "engine": 1,
    "deployment": 1,
    "latency": 1,
    "toy_lm": 1,
    "workload": 1,
    "systems": 2,
}


def _known(load: Callable[[str], object], name: str) -> str:
    """A name that can be loaded. Raises ValueError, as pydantic expects of a validator."""
    try:
        load(name)
    except UserError as error:
        raise ValueError(str(error)) from None
    return name


def engine_config(settings: dict[str, Any]) -> EngineConfig:
    """An engine's settings from plain data. Raises pydantic's ValidationError."""
    return EngineConfig(**asdict(_ENGINE.validate_json(_json(settings))))


def _json(data: Any) -> str:
    # Strict validation takes a mapping for a data class only where it comes as JSON.
    return json.dumps(data, default=str)


class Scenario(Spec):
    """Everything that decides a result.

    model: whose time is charged, by its name in the catalogue or the path of its config.json.
    toy_lm: the transformer that computes, with runner toy-lm.
    systems: what is compared, each a name and the engine settings in which it differs.
    sweep: key paths and the values they take; all combinations are run.
    replications: runs of every point, each with a seed of its own (seed, seed + 1, ...).
    """

    name: str
    seed: int = Field(1, ge=0, le=2**63)
    replications: int = Field(1, ge=1, le=1000)
    model: str = "llama-3.1-8b"
    hardware: str = "a100-80gb"
    deployment: DeploymentSpec = DeploymentSpec()
    latency: Latency = RooflineSpec(kind="roofline")
    runner: Literal["toy-lm", "replay"] = "replay"
    toy_lm: ToyLMSettings = ToyLMSettings()
    engine: EngineSettings = EngineSettings()
    workload: WorkloadSpec
    systems: dict[str, dict[str, Any]] = Field({"default": {}}, min_length=1)
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}

    @field_validator("name")
    @classmethod
    def _can_name_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name):
            raise ValueError(f"got {name!r}, expected letters, digits and . _ -, at most 60")
        return name

    @field_validator("model")
    @classmethod
    def _is_a_model(cls, name: str) -> str:
        if catalogue.is_config_path(name):
            catalogue.load_model(name)  # its mistakes name the file and pass as they are
            return name
        return _known(catalogue.load_model, name)

    @field_validator("hardware")
    @classmethod
    def _is_a_gpu(cls, name: str) -> str:
        return _known(catalogue.load_hardware, name)

    @field_validator("systems")
    @classmethod
    def _can_be_shown_and_compared(cls, systems: dict[str, dict[str, Any]]) -> dict[str, Any]:
        for name, settings in systems.items():
            if not re.fullmatch(r"[^\W_][\w .,:+/()=%-]{0,39}", name):
                raise ValueError(
                    f"got the name {name!r}, expected one of letters, digits, spaces and "
                    "any of . , : + / ( ) = % - _, at most 40"
                )
            if "max_model_len" in settings:
                raise ValueError(
                    f"max_model_len only in `engine`, for it shapes the requests that all systems "
                    f"see; {name!r} has one of its own"
                )
        return systems

    @field_validator("sweep")
    @classmethod
    def _can_be_swept(cls, sweep: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for key_path, values in sweep.items():
            first, *rest = key_path.split(".")
            if len(rest) < _SWEPT.get(first, 99):
                raise ValueError(
                    f"got {key_path!r}, expected model, hardware, runner, or a key of engine, "
                    "latency, toy_lm, workload or systems.NAME"
                )
            if any(value in values[:place] for place, value in enumerate(values)):
                raise ValueError(f"got a value of {key_path} twice, expected different ones")
        return sweep

    @classmethod
    def parse(cls, data: Any) -> Self:
        """A scenario from plain data. Raises pydantic's ValidationError for all that is wrong."""
        return cls.model_validate_json(_json(data))

    def engine_config(self, system: str) -> EngineConfig:
        """Settings of one system: the common ones, overridden by its own.

        Raises pydantic's ValidationError, and UserError where `auto` leaves no blocks.
        """
        settings = {**asdict(self.engine), **self.systems[system]}
        if self.num_blocks(system) == "auto":
            settings["num_blocks"] = self.kv_size(system).num_blocks
        return engine_config(settings)

    def num_blocks(self, system: str) -> int | str:
        """Blocks in the pool of a system, as it is written: a number, or `auto`."""
        blocks: int | str = self.systems[system].get("num_blocks", self.engine.num_blocks)
        return blocks

    def kv_size(self, system: str) -> KVSize:
        """The KV cache that the GPUs have room for with the settings of a system."""
        config = engine_config({**asdict(self.engine), **self.systems[system], "num_blocks": 1})
        return kv_size(
            self.build_deployment(),
            block_size=config.block_size,
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_model_len=config.max_model_len,
            gpu_memory_utilization=self.deployment.gpu_memory_utilization,
            kv_cache_memory_bytes=self.deployment.kv_cache_memory_bytes,
        )

    def build_deployment(self) -> Deployment:
        """The model on its GPUs. Raises UserError where it cannot be split over them."""
        spec = self.deployment
        return Deployment(
            model=catalogue.load_model(self.model),
            hardware=catalogue.load_hardware(self.hardware),
            tensor_parallel_size=spec.tensor_parallel_size,
            dtype=spec.dtype,
            quantization=spec.quantization,
            kv_cache_dtype=spec.kv_cache_dtype,
        )
