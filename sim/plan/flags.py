"""The settings of a simulated engine as options of vLLM."""

import shlex
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from engine.config import EngineConfig
from sim import catalogue
from sim.kv_size import NULL_BLOCKS
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.scenario.engine import DeploymentSpec
from sim.scenario.value_text import value_text

_COUNTS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size")
_IF_CHANGED = ("long_prefill_token_threshold", "watermark")
_SWITCHES = ("enable_prefix_caching", "enable_chunked_prefill", "async_scheduling")
_POLICIES = ("fcfs", "priority")
_SAID = (*_COUNTS, *_IF_CHANGED, *_SWITCHES, "num_blocks", "vllm_version", "reserve_full_isl")
# Setting -> the version with which its option came, and the value as which older ones do; see
# docs/conformance.md.
_CAME: dict[str, tuple[tuple[int, int], object]] = {
    "watermark": ((0, 24), 0.0),
    "reserve_full_isl": ((0, 19), False),
}
# Number types that vLLM's options of these names do not take.
_NOT_TAKEN = {"quantization": ("int4",), "kv_cache_dtype": ("float32",), "dtype": ()}


def vllm_command(scenario: Scenario, system: str) -> str:
    """`vllm serve` with the options that make it decide as the system does.

    A pool that fills the GPU's memory is given by its share, any other by its number of blocks.
    What vLLM has no option for stands in comments before it.
    """
    config = build_config(scenario, system)
    if config.batching == "static" or config.memory != "paged":
        return f"vLLM has no options for {system}: its batches are continuous, its memory paged"
    spec = scenario.deployment
    words = [
        _option("tensor_parallel_size", spec.tensor_parallel_size),
        *_engine_options(config),
        _pool(scenario, system, config),
        *(_option(name, value) for name, value in _number_types(spec) if _is_taken(name, value)),
    ]
    command = " \\\n  ".join([f"vllm serve {_model_id(scenario.model)}", *words])
    return "\n".join([*(f"# {note}" for note in _notes(scenario, config)), command])


def _option(name: str, value: object) -> str:
    return f"--{name.replace('_', '-')} {shlex.quote(str(value))}"


def _switch(name: str, *, is_on: bool) -> str:
    return f"--{'' if is_on else 'no-'}{name.replace('_', '-')}"


def _engine_options(config: EngineConfig) -> Iterator[str]:
    for name in _COUNTS:
        yield _option(name, getattr(config, name))
    for name in _IF_CHANGED:
        if getattr(config, name) and _has_come(config, name):
            yield _option(name, getattr(config, name))
    for name in _SWITCHES:
        yield _switch(name, is_on=getattr(config, name))
    if not config.reserve_full_isl and _has_come(config, "reserve_full_isl"):
        yield _switch("scheduler_reserve_full_isl", is_on=False)
    if config.policy == "priority":
        yield _option("scheduling_policy", config.policy)


def _pool(scenario: Scenario, system: str, config: EngineConfig) -> str:
    spec = scenario.deployment
    is_auto = scenario.engine_settings(system)["num_blocks"] == "auto"
    if is_auto and spec.kv_cache_memory_bytes is None:
        return _option("gpu_memory_utilization", spec.gpu_memory_utilization)
    return _option("num_gpu_blocks_override", config.num_blocks + NULL_BLOCKS)


def _number_types(spec: DeploymentSpec) -> list[tuple[str, str]]:
    """Those that are said."""
    said = {name: getattr(spec, name) for name in ("dtype", "quantization", "kv_cache_dtype")}
    return [(name, value) for name, value in said.items() if value not in ("auto", "none")]


def _is_taken(name: str, value: str) -> bool:
    return value not in _NOT_TAKEN[name]


def _has_come(config: EngineConfig, name: str) -> bool:
    return config.rules >= _CAME.get(name, ((0, 0), None))[0]


def _notes(scenario: Scenario, config: EngineConfig) -> Iterator[str]:
    """What the options do not say."""
    if config.vllm_version != EngineConfig.vllm_version:
        yield f"of vLLM {config.vllm_version}"
    replicas = scenario.replicas
    if replicas.count > 1:
        yield f"on each of {replicas.count} replicas, behind a router: {replicas.router}"
    for name, value in _without_option(config):
        yield f"no option of vLLM for engine.{name}: {value_text(value)}"
    for name, value in _number_types(scenario.deployment):
        if not _is_taken(name, value):
            yield f"no option of vLLM for deployment.{name}: {value}"


def _without_option(config: EngineConfig) -> Iterator[tuple[str, Any]]:
    for field in fields(config):
        value, usual = getattr(config, field.name), field.default
        if field.name in _CAME and not _has_come(config, field.name):
            usual = _CAME[field.name][1]
        elif field.name in _SAID or (field.name == "policy" and value in _POLICIES):
            continue
        if value != usual:
            yield field.name, value


def _model_id(model: str) -> str:
    """Of Hugging Face, where the catalogue knows it; else as the scenario has it."""
    if catalogue.is_config_path(model):
        return shlex.quote(model)
    ids = catalogue.load_model(model).hf_ids
    return ids[0] if ids else model
