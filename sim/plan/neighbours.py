"""Configurations that differ in one setting, and what each would lose."""

from collections.abc import Iterator
from typing import Any

from sim.errors import UserError
from sim.plan.alternatives import changed
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.scenario.value_text import value_text

_DOUBLED = ("block_size", "max_num_seqs", "max_num_batched_tokens")


def neighbours(scenario: Scenario, system: str) -> dict[str, Scenario]:
    """By the setting as one writes it; those that cannot be are left out."""
    found: dict[str, Scenario] = {}
    for settings in _settings(scenario, system):
        try:
            neighbour = changed(scenario, settings)
        except UserError:  # such as a step smaller than the batch, or a model that does not fit
            continue
        words = (f"{path[-1]}: {value_text(value)}" for path, value in settings.items())
        found[", ".join(words)] = neighbour
    return found


def _settings(scenario: Scenario, system: str) -> Iterator[dict[tuple[str, ...], Any]]:
    """By key path; what belongs to the engine is said of the system, where it wins."""
    config, deployment = build_config(scenario, system), scenario.deployment
    is_auto = scenario.engine_settings(system)["num_blocks"] == "auto"

    def of_system(**settings: Any) -> dict[tuple[str, ...], Any]:
        return {("systems", system, name): value for name, value in settings.items()}

    for name in _DOUBLED:
        value = getattr(config, name)
        for other in (value * 2, value // 2):
            if not other:
                continue
            if name == "block_size" and not is_auto:  # of as much memory
                yield of_system(block_size=other, num_blocks=config.num_slots // other)
            else:
                yield of_system(**{name: other})
    if is_auto:
        for share in (0.8, 0.95):
            if share != deployment.gpu_memory_utilization:
                yield {("deployment", "gpu_memory_utilization"): share}
    else:
        yield of_system(num_blocks=config.num_blocks * 5 // 4)
        yield of_system(num_blocks=max(config.num_blocks * 3 // 4, 1))
    yield of_system(enable_prefix_caching=not config.enable_prefix_caching)
    yield {("deployment", "tensor_parallel_size"): deployment.tensor_parallel_size * 2}
