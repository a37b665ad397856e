"""The keys of `engine`, `toy_lm` and `deployment`: what runs, and on what."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, TypeAdapter, WithJsonSchema
from pydantic.dataclasses import dataclass

from engine.config import LARGEST, EngineConfig
from engine.transformer import TransformerConfig
from sim.scenario.spec import STRICT, Spec, to_json


class DeploymentSpec(Spec):
    """How the model lies on the GPUs, and how much of their memory the KV cache gets.

    kv_cache_memory_bytes: of one GPU, instead of what gpu_memory_utilization leaves for it.
    swap_bandwidth_bytes_per_s: between one GPU and its host, as `engine.preemption: swap` uses it.
        25 GB/s, assumed, are four fifths of the 31.5 GB/s of PCIe 4.0 x16.
    """

    tensor_parallel_size: int = Field(1, ge=1, le=1024)
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    quantization: Literal["auto", "none", "fp8", "int4", "mxfp4"] = "auto"
    kv_cache_dtype: Literal["auto", "float32", "float16", "bfloat16", "fp8"] = "auto"
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    kv_cache_memory_bytes: int | None = Field(None, ge=1)
    swap_bandwidth_bytes_per_s: float = Field(25e9, ge=1e6, le=1e15)


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


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EngineSettings(EngineConfig):
    """The engine's settings, checked as strictly as the rest of a scenario.

    num_blocks: `auto` is what the memory of the GPUs holds.
    """

    # The base has an int; here `auto` stands for one until the GPU is known.
    num_blocks: NumBlocks = 512  # type: ignore[assignment]  # see above


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ToyLMSettings(TransformerConfig):
    """Sizes of the toy transformer."""


_ENGINE = TypeAdapter(EngineSettings)


def engine_config(settings: dict[str, Any]) -> EngineConfig:
    """An engine's settings from plain data. Raises pydantic's ValidationError."""
    return EngineConfig(**asdict(_ENGINE.validate_json(to_json(settings))))
