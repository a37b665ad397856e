"""A scenario with other settings, as far as it can be simulated with them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sim.errors import UserError
from sim.latency.build import build_latency
from sim.scenario import Scenario
from sim.scenario.file import combinations, with_settings


class Alternatives(NamedTuple):
    """possible: scenarios with the values that make each one, by key path. impossible: why others
    cannot be."""

    possible: list[tuple[dict[str, Any], Scenario]]
    impossible: list[UserError]


def changed(scenario: Scenario, settings: Mapping[Any, Any], source: str = "") -> Scenario:
    """See `with_settings`. Raises UserError for what cannot be, missing step times included."""
    found = with_settings(scenario, settings, source)
    build_latency(found)
    return found


def alternatives(scenario: Scenario, source: str) -> Alternatives:
    """Every combination of the swept values. Raises UserError, naming `source`, if none can be."""
    found = Alternatives([], [])
    for labels in combinations(scenario):
        try:
            found.possible.append((labels, changed(scenario, labels, source)))
        except UserError as error:  # such as a step smaller than the batch
            found.impossible.append(error)
    if not found.possible:
        raise found.impossible[0]
    return found
