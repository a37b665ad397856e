"""The combinations of settings that a plan compares, and which of them cannot be."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sim.errors import UserError
from sim.latency.build import build_latency
from sim.plan.findings import Impossible, Labels
from sim.plan.goals import Goal, find_goal
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.scenario.file import combinations, with_settings
from sim.scenario.value_text import value_text

Prepare = Callable[[Scenario], Scenario]  # makes a combination ready to be searched
Alternative = tuple[Labels, Goal]

_SEARCHED = {  # the keys that a search sets itself, whatever they were
    "rate": r"workload\.(arrivals\.\w+\.rate|shape\.rate_scale)",
    "concurrency": r"workload\.arrivals\.closed_loop\.concurrency",
    "replicas": r"replicas(\.count)?",
    "num_blocks": r"(engine|systems\..+)\.num_blocks",
}


def refuse_searched(keys: Iterable[str], option: str, name: str) -> None:
    """Raise UserError where alternatives differ in what an option sets of each, such as a rate."""
    for key in keys:
        if re.fullmatch(_SEARCHED[name], key):
            raise UserError(f"--set {key}: got several values, expected one: {option} sets it")


def changed(scenario: Scenario, settings: Mapping[Any, Any], source: str = "") -> Scenario:
    """See `with_settings`. Raises UserError for what cannot be, missing step times included."""
    found = with_settings(scenario, settings, source)
    build_latency(found)
    return found


def ready(
    scenario: Scenario, labels: Labels, prepare: Prepare, find: str, system: str, source: str = ""
) -> Goal:
    """What is to be found of one of the combinations.

    Raises UserError, naming `source`, where it cannot be, such as a model that does not fit its
    GPUs, or a step smaller than the batch.
    """
    point = changed(scenario, labels, source)
    build_config(point, system)
    return find_goal(prepare(point), find, system)


def all_ready(
    scenario: Scenario, prepare: Prepare, find: str, system: str, source: str
) -> tuple[list[Alternative], list[Impossible]]:
    """Those that can be, and those that cannot. Raises UserError where none can be."""
    found: list[Alternative] = []
    mistakes: list[tuple[Labels, UserError]] = []
    for labels in combinations(scenario, source):
        try:
            found.append((labels, ready(scenario, labels, prepare, find, system, source)))
        except UserError as error:
            mistakes.append((labels, error))
    if not found:
        raise mistakes[0][1]
    return found, [why_impossible(*mistake) for mistake in mistakes]


def why_impossible(labels: Labels, error: UserError) -> Impossible:
    """Without what the labels say already, in the words of `with_settings`."""
    at = ", ".join(f"{key}={value_text(value)}" for key, value in labels.items())
    return labels, str(error).rpartition(f"{at}: ")[2]
