"""The settings of a recorded engine, and the scenario that has them."""

import json
from pathlib import Path
from typing import Any

from engine.config import ConfigError, EngineConfig
from sim import catalogue
from sim.errors import UserError
from sim.scenario import Scenario
from sim.scenario.file import validated
from sim.validation.folder_name import Named, parse_folder_name

_ASYNC_SINCE = (0, 14)  # versions of vLLM that schedule asynchronously unless told not to
# Settings that are read -> the type that they must have, where they are not null.
_SETTINGS: dict[str, type] = {
    "engine_version": str,
    "vllm": str,
    "model": str,
    "dtype": str,
    "kv_cache_dtype": str,
    "tensor_parallel_size": int,
    "data_parallel_size": int,
    "block_size": int,
    "num_gpu_blocks": int,
    "num_blocks": int,
    "max_num_seqs": int,
    "max_num_batched_tokens": int,
    "max_model_len": int,
    "gpu_memory_utilization": float,
    "prefix_caching": bool,
    "enable_prefix_caching": bool,
    "chunked_prefill": bool,
    "async_scheduling": bool,
    "scheduler": dict,
}
_IN_WORDS = {
    str: "text",
    int: "a whole number from 1",
    float: "a number",
    bool: "true or false",
    dict: "an object",
}


def read_settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or f"not JSON: {error}"
        raise UserError(f"{path}: {reason.lower()}") from None
    if not isinstance(settings, dict):
        raise UserError(f"{path}: expected an object of settings")
    for name, kind in _SETTINGS.items():
        value = settings.get(name)
        is_right = type(value) is kind and (type(value) is not int or value >= 1)
        if value is not None and not is_right:
            raise UserError(f"{path}: {name}: got {value!r}, expected {_IN_WORDS[kind]}")
    return {name: value for name, value in settings.items() if value is not None}


def _scenario(
    folder: Path, settings: dict[str, Any], requests: pd.DataFrame
) -> tuple[Scenario, list[str]]:
    """The settings of the run, and what they do not say."""
    assumptions = []
    version = str(settings.get("engine_version") or settings.get("vllm", "0.32")).split()[0]
    is_async = _is_async(settings)
    if is_async is None:
        is_async = _rules(version, folder) >= _ASYNC_SINCE
        assumptions.append(f"async_scheduling {str(is_async).lower()}, as vLLM {version} has it")
    longest = int((requests["prompt_tokens"] + requests["output_tokens"]).max())
    engine = {
        "block_size": settings.get("block_size", 16),
        "max_num_seqs": settings.get("max_num_seqs", 256),
        "max_num_batched_tokens": settings.get("max_num_batched_tokens", 2048),
        "max_model_len": settings.get("max_model_len") or longest + 1,
        "enable_prefix_caching": settings.get(
            "prefix_caching", settings.get("enable_prefix_caching", True)
        ),
        "async_scheduling": is_async,
        "policy": settings.get("scheduler", {}).get("policy", "fcfs"),
        "vllm_version": version,
    }
    if settings.get("num_gpu_blocks"):
        engine["num_blocks"] = settings["num_gpu_blocks"] - 1  # one is vLLM's null block
    elif settings.get("num_blocks"):
        engine["num_blocks"] = settings["num_blocks"]
    else:
        engine["num_blocks"] = "auto"
        assumptions.append("number of KV blocks as vLLM would find it")
    named = _named(folder, settings)
    data = {
        "name": "validation",
        "hardware": named.hardware,
        "model": named.model,
        "deployment": {
            "tensor_parallel_size": settings.get("tensor_parallel_size", 1),
            "dtype": settings.get("dtype", "auto"),
            "quantization": named.quantization,
            "kv_cache_dtype": settings.get("kv_cache_dtype", "auto"),
            "gpu_memory_utilization": settings.get("gpu_memory_utilization", 0.9),
        },
        "engine": engine,
        "workload": {"trace": str(folder / "requests.csv")},
    }
    return validated(data, str(folder / "engine.json")), assumptions


def _is_on_cpu(settings: dict[str, Any]) -> bool:
    return "CPU" in str(settings.get("vllm", ""))


def _is_async(settings: dict[str, Any]) -> bool | None:
    """Whether the engine schedules asynchronously; None where it is not recorded."""
    scheduler = settings.get("scheduler", {})
    is_async: bool | None = settings.get("async_scheduling", scheduler.get("async_scheduling"))
    return is_async


def _rules(version: str, folder: Path) -> tuple[int, int]:
    try:
        return EngineConfig(vllm_version=version).rules
    except ConfigError as error:
        raise UserError(f"{folder / 'engine.json'}: {error}") from None


def _named(folder: Path, settings: dict[str, Any]) -> Named:
    """GPU and model; of no matter where step times are fitted, as on a CPU."""
    if _is_on_cpu(settings):
        return Named("a100-80gb", "toy", "auto")
    named = parse_folder_name(folder.name)
    if "model" not in settings:
        return named
    model = catalogue.find_model(settings["model"])
    if named.model not in (None, model):
        raise UserError(
            f"{folder / 'engine.json'}: model: got {settings['model']}, "
            f"but the folder's name says {named.model}"
        )
    return named._replace(model=model)


