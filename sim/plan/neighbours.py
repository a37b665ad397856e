"""Configurations that differ in one setting, and what each would lose."""

from collections.abc import Iterator
from typing import Any

from sim.errors import UserError
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.scenario.file import with_settings

_DOUBLED = ("block_size", "max_num_seqs", "max_num_batched_tokens")


def neighbours(scenario: Scenario, system: str) -> dict[str, Scenario]:
    """By the setting as one writes it; those that cannot be are left out."""
    found: dict[str, Scenario] = {}
    for key, value in _settings(scenario, system):
        try:
            changed = with_settings(scenario, {_key(scenario, system, key): value})
            build_config(changed, system)
        except UserError:  # such as a step smaller than the batch, or a model that does not fit
            continue
        name = key.rpartition(".")[2]
        found[f"{name}: {str(value).lower() if isinstance(value, bool) else value}"] = changed
    return found


def _key(scenario: Scenario, system: str, key: str) -> str:
    """Where a system says it itself, there."""
    section, _, name = key.partition(".")
    own = section == "engine" and name in scenario.systems[system]
    return f"systems.{system}.{name}" if own else key


def _settings(scenario: Scenario, system: str) -> Iterator[tuple[str, Any]]:
    config, deployment = build_config(scenario, system), scenario.deployment
    for name in _DOUBLED:
        value = getattr(config, name)
        yield f"engine.{name}", value * 2
        if value >= 2:
            yield f"engine.{name}", value // 2
    if scenario.engine_settings(system)["num_blocks"] == "auto":
        for share in (0.8, 0.95):
            if share != deployment.gpu_memory_utilization:
                yield "deployment.gpu_memory_utilization", share
    else:
        yield "engine.num_blocks", config.num_blocks * 5 // 4
        yield "engine.num_blocks", max(config.num_blocks * 3 // 4, 1)
    yield "engine.enable_prefix_caching", not config.enable_prefix_caching
    yield "deployment.tensor_parallel_size", deployment.tensor_parallel_size * 2
