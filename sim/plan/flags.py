"""The settings of a simulated engine as options of vLLM."""

import shlex

from engine.config import EngineConfig
from sim import catalogue
from sim.scenario import Scenario
from sim.scenario.deployed import build_config


def vllm_command(scenario: Scenario, system: str) -> str:
    """`vllm serve` with the options that make it decide as the system does.

    A pool that fills the GPU's memory is given by its share, any other by its number of blocks.
    """
    config, spec = build_config(scenario, system), scenario.deployment
    if config.batching == "static" or config.memory != "paged":
        return f"vLLM has no options for {system}: its batches are continuous, its memory paged"
    is_auto = scenario.engine_settings(system)["num_blocks"] == "auto"
    is_auto &= spec.kv_cache_memory_bytes is None
    options: dict[str, object] = {
        "--tensor-parallel-size": spec.tensor_parallel_size,
        "--max-model-len": config.max_model_len,
        "--max-num-seqs": config.max_num_seqs,
        "--max-num-batched-tokens": config.max_num_batched_tokens,
        "--block-size": config.block_size,
    }
    if is_auto:
        options["--gpu-memory-utilization"] = spec.gpu_memory_utilization
    else:
        options["--num-gpu-blocks-override"] = config.num_blocks
    for option, value in (
        ("--dtype", spec.dtype),
        ("--quantization", spec.quantization),
        ("--kv-cache-dtype", spec.kv_cache_dtype),
    ):
        if value not in (None, "auto", "none"):
            options[option] = value
    words = [f"{option} {shlex.quote(str(value))}" for option, value in options.items()]
    return " \\\n  ".join([f"vllm serve {_model_id(scenario.model)}", *words, *_switches(config)])


def _switches(config: EngineConfig) -> list[str]:
    switches = {
        "enable-prefix-caching": config.enable_prefix_caching,
        "enable-chunked-prefill": config.enable_chunked_prefill,
        "async-scheduling": config.async_scheduling,
    }
    found = [f"--{'' if is_on else 'no-'}{name}" for name, is_on in switches.items()]
    if config.policy == "priority":
        found.append("--scheduling-policy priority")
    return found


def _model_id(model: str) -> str:
    """Of Hugging Face, where the catalogue knows it; else as the scenario has it."""
    if catalogue.is_config_path(model):
        return shlex.quote(model)
    ids = catalogue.load_model(model).hf_ids
    return ids[0] if ids else model
