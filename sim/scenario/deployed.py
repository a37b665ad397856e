"""What a scenario means for its GPUs: the model on them, their KV cache, the engine's settings."""

from engine.config import EngineConfig
from sim import catalogue
from sim.deployment import Deployment
from sim.kv_size import KVSize, kv_size
from sim.scenario.engine import engine_config
from sim.scenario.scenario import Scenario


def build_deployment(scenario: Scenario) -> Deployment:
    """The model on its GPUs. Raises UserError where it cannot be split over them."""
    spec = scenario.deployment
    return Deployment(
        model=catalogue.load_model(scenario.model),
        hardware=catalogue.load_hardware(scenario.hardware),
        tensor_parallel_size=spec.tensor_parallel_size,
        dtype=spec.dtype,
        quantization=spec.quantization,
        kv_cache_dtype=spec.kv_cache_dtype,
    )


def build_kv_size(scenario: Scenario, system: str) -> KVSize:
    """The KV cache that the GPUs have room for with the settings of a system.

    Raises pydantic's ValidationError for a wrong setting, UserError where no blocks are left.
    """
    config = engine_config({**scenario.engine_settings(system), "num_blocks": 1})
    return kv_size(
        build_deployment(scenario),
        block_size=config.block_size,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=config.max_model_len,
        gpu_memory_utilization=scenario.deployment.gpu_memory_utilization,
        kv_cache_memory_bytes=scenario.deployment.kv_cache_memory_bytes,
    )


def build_config(scenario: Scenario, system: str) -> EngineConfig:
    """The engine's settings of a system, its number of blocks found where it is `auto`.

    Raises as `build_kv_size` does.
    """
    settings = scenario.engine_settings(system)
    if settings["num_blocks"] == "auto":
        settings["num_blocks"] = build_kv_size(scenario, system).num_blocks
    return engine_config(settings)
