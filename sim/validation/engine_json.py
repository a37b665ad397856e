"""The settings of a recorded engine, and the scenario that has them."""

import json
from pathlib import Path
from typing import Any

from engine.config import ConfigError, EngineConfig
from sim import catalogue
from sim.errors import UserError
from sim.scenario import Scenario
from sim.scenario.mistakes import validated
from sim.validation.folder_name import QUANTIZED, Named, parse_folder_name, quantization_in

_ASYNC_SINCE = (0, 14)  # versions of vLLM that schedule asynchronously unless told not to
# Settings that are read -> the type that they must have, where they are not null.
_SETTINGS: dict[str, type] = {
    "engine_version": str,
    "vllm": str,
    "model": str,
    "dtype": str,
    "quantization": str,
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
# vLLM's names of number types -> those of a scenario, where they differ.
_OUR_TYPES = {"half": "float16", "float": "float32", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}
_IN_WORDS = {
    str: "text",
    int: "a whole number from 1",
    float: "a number",
    bool: "true or false",
    dict: "an object",
}


class Settings:
    """What engine.json says of a run; the folder's name says the rest.

    values: the settings that are read, by their names there.

    Raises UserError for a file that is missing or damaged, and for what is not modelled.
    """

    def __init__(self, folder: Path) -> None:
        self.values = _read(folder / "engine.json")
        self._folder = folder
        replicas = self.values.get("data_parallel_size", 1)
        if replicas != 1:
            raise UserError(f"{folder}: data_parallel_size is {replicas}; one replica is modelled")
        if not self.values.get("chunked_prefill", True):
            raise UserError(f"{folder}: chunked_prefill is false; prefills in chunks are modelled")

    @property
    def block_size(self) -> int:
        """Tokens in a block."""
        return int(self.values.get("block_size", 16))

    @property
    def is_on_cpu(self) -> bool:
        """Whether no GPU was at work."""
        return "CPU" in str(self.values.get("vllm", ""))

    @property
    def is_async(self) -> bool | None:
        """Whether the engine schedules asynchronously; None where it is not recorded."""
        scheduler = self.values.get("scheduler", {})
        recorded: bool | None = self.values.get(
            "async_scheduling", scheduler.get("async_scheduling")
        )
        return recorded

    def scenario(self, longest: int) -> tuple[Scenario, list[str]]:
        """The scenario of the run, and what is assumed where nothing is said.

        longest: tokens of a request, prompt and output.
        """
        values, named = self.values, self._named()
        dtype, kv_dtype = (values.get(name, "auto") for name in ("dtype", "kv_cache_dtype"))
        engine, assumptions = self._engine(longest)
        data = {
            "name": "validation",
            "hardware": named.hardware,
            "model": named.model,
            "deployment": {
                "tensor_parallel_size": values.get("tensor_parallel_size", 1),
                "dtype": _OUR_TYPES.get(dtype, dtype),
                "quantization": named.quantization,
                "kv_cache_dtype": _OUR_TYPES.get(kv_dtype, kv_dtype),
                "gpu_memory_utilization": values.get("gpu_memory_utilization", 0.9),
            },
            "engine": engine,
            "workload": {"trace": str(self._folder / "requests.csv")},
        }
        return validated(data, str(self._folder / "engine.json")), assumptions

    def _engine(self, longest: int) -> tuple[dict[str, Any], list[str]]:
        values, assumptions = self.values, []
        version = str(values.get("engine_version") or values.get("vllm", "0.32")).split()[0]
        is_async = self.is_async
        if is_async is None:
            is_async = self._rules(version) >= _ASYNC_SINCE
            assumptions.append(
                f"async_scheduling {str(is_async).lower()}, as vLLM {version} has it"
            )
        if num_gpu_blocks := values.get("num_gpu_blocks"):
            num_blocks = num_gpu_blocks - 1  # one is vLLM's null block
        else:
            num_blocks = values.get("num_blocks", "auto")
        if num_blocks == "auto":
            assumptions.append("number of KV blocks as vLLM would find it")
        is_caching = values.get("prefix_caching", values.get("enable_prefix_caching", True))
        engine = {
            "block_size": self.block_size,
            "num_blocks": num_blocks,
            "max_num_seqs": values.get("max_num_seqs", 256),
            "max_num_batched_tokens": values.get("max_num_batched_tokens", 2048),
            "max_model_len": values.get("max_model_len") or longest + 1,
            "enable_prefix_caching": is_caching,
            "async_scheduling": is_async,
            "policy": values.get("scheduler", {}).get("policy", "fcfs"),
            "vllm_version": version,
        }
        return engine, assumptions

    def _rules(self, version: str) -> tuple[int, int]:
        try:
            return EngineConfig(vllm_version=version).rules
        except ConfigError as error:
            raise UserError(f"{self._folder / 'engine.json'}: {error}") from None

    def _named(self) -> Named:
        """GPU and model."""
        if self.is_on_cpu:  # of no matter, for step times are fitted
            return Named("a100-80gb", "toy", "auto")
        named = parse_folder_name(self._folder.name)
        said = [self.values[name] for name in ("quantization", "model") if name in self.values]
        found = [word for word in map(quantization_in, said) if word != "auto"]
        if named.quantization == "auto" and found:
            named = named._replace(quantization=found[0])
        if "quantization" in self.values and quantization_in(self.values["quantization"]) == "auto":
            raise UserError(
                f"{self._folder / 'engine.json'}: quantization: got "
                f"{self.values['quantization']!r}, expected one of {', '.join(QUANTIZED)}"
            )
        if "model" not in self.values:
            return named
        model = catalogue.find_model(self.values["model"])
        if named.model not in (None, model):
            raise UserError(
                f"{self._folder / 'engine.json'}: model: got {self.values['model']}, "
                f"but the folder's name says {named.model}"
            )
        return named._replace(model=model)


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"not JSON: {error}"
        raise UserError(f"{path}: {reason.lower()}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected an object of settings")
    for name, kind in _SETTINGS.items():
        value = values.get(name)
        if kind is float and type(value) is int:
            value = values[name] = float(value)
        is_right = type(value) is kind and (type(value) is not int or value >= 1)
        if value is not None and not is_right:
            raise UserError(f"{path}: {name}: got {value!r}, expected {_IN_WORDS[kind]}")
    return {name: value for name, value in values.items() if value is not None}
