"""The keys of `engine`, `toy_lm` and `deployment`: what runs, and on what."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, TypeAdapter, WithJsonSchema
from pydantic.dataclasses import dataclass

from engine.config import LARGEST, EngineConfig
from engine.transformer import TransformerConfig
from sim.scenario.engine_keys import describe_engine, describe_system, describe_toy_lm
from sim.scenario.spec import STRICT, Spec, to_json


class DeploymentSpec(Spec):
    """How the model lies on the GPUs, and how much of their memory the KV cache gets."""

    tensor_parallel_size: int = Field(
        1, ge=1, le=1024, description="GPUs that share each layer of the model."
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto", description="Type of the activations, and of weights that are not quantized."
    )
    quantization: Literal["auto", "none", "fp8", "int4", "mxfp4"] = Field(
        "auto", description="Of the weights; auto: as the model's configuration says."
    )
    kv_cache_dtype: Literal["auto", "float32", "float16", "bfloat16", "fp8"] = Field(
        "auto", description="Type of the K/V; auto: that of the activations."
    )
    gpu_memory_utilization: float = Field(
        0.9, gt=0, le=1, description="Share of a GPU's memory that the engine may use."
    )
    kv_cache_memory_bytes: int | None = Field(
        None,
        ge=1,
        description="Of the KV cache on one GPU, instead of what gpu_memory_utilization leaves.",
    )
    # Four fifths, assumed, of the 31.5 GB/s of PCIe 4.0 x16.
    swap_bandwidth_bytes_per_s: float = Field(
        25e9,
        ge=1e6,
        le=1e15,
        description="Between one GPU and its host, as engine.preemption `swap` uses it.",
    )


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


@dataclass(frozen=True, kw_only=True, config={**STRICT, "json_schema_extra": describe_engine})
class EngineSettings(EngineConfig):
    """The engine's settings, by the names of the server that has each."""

    # The base has an int; here `auto` stands for one until the GPU is known.
    num_blocks: NumBlocks = 512  # type: ignore[assignment]  # see above


@dataclass(frozen=True, kw_only=True, config={**STRICT, "json_schema_extra": describe_system})
class SystemKeys(EngineSettings):
    """The engine settings in which a system differs: for the JSON Schema alone."""

    preset: str = ""


@dataclass(frozen=True, kw_only=True, config={**STRICT, "json_schema_extra": describe_toy_lm})
class ToyLMSettings(TransformerConfig):
    """Sizes of the toy transformer."""


_ENGINE = TypeAdapter(EngineSettings)


def engine_config(settings: dict[str, Any]) -> EngineConfig:
    """An engine's settings from plain data. Raises pydantic's ValidationError."""
    return EngineConfig(**asdict(_ENGINE.validate_json(to_json(settings))))
