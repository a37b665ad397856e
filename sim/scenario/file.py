"""Scenario files: loaded with overrides from the command line, checked at every point, written."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sim.errors import UserError
from sim.scenario.deployed import build_config
from sim.scenario.keys import anchored, apply_override, set_key
from sim.scenario.mistakes import shorten, user_error, validated
from sim.scenario.scenario import Scenario
from sim.scenario.value_text import value_text
from sim.scenario.yaml_text import parse, read_text, to_yaml

Points = list[tuple[dict[str, Any], Scenario]]  # swept values by key path, the scenario with them
_MOST_POINTS = 10_000  # of a sweep: each is checked before the first runs, at about a millisecond


def load_scenario(
    path: Path, overrides: list[str] | None = None, *, checks_points: bool = True
) -> Scenario:
    """Scenario of a YAML file, with overrides such as "engine.block_size=8" applied.

    checks_points: else what does not go together at a point of its sweep is left to the caller.

    Raises UserError with one line for each mistake: file, key path, what came, what was expected.
    """
    data = parse(read_text(path), str(path))
    if not isinstance(data, dict):
        raise UserError(f"{path}: got {shorten(data)}, expected a mapping of keys")
    data = anchored(data, path.parent, str(path))
    for override in overrides or []:
        apply_override(data, override)
    source = f"{path} (with --set)" if overrides else str(path)
    scenario = validated(data, source)
    if checks_points:
        points(scenario, source)  # for the mistakes that are there only
    return scenario


def plain(scenario: Scenario) -> dict[str, Any]:
    """Plain data that loads as this scenario again: every default and workload preset written out.

    A workload whose presets are swept stays as it was written.
    """
    is_swept = any(key.startswith("workload.") and key.endswith("preset") for key in scenario.sweep)
    if is_swept:
        workload = scenario.workload.model_dump(mode="json", exclude_unset=True)
    else:
        workload = scenario.workload.written_out().model_dump(mode="json", exclude_none=True)
    return {**scenario.model_dump(mode="json", exclude_none=True), "workload": workload}


def dump_scenario(scenario: Scenario) -> str:
    """YAML of `plain`."""
    return to_yaml(plain(scenario))


def with_settings(scenario: Scenario, settings: Mapping[Any, Any], source: str = "") -> Scenario:
    """The scenario, without its sweep, with other values of some key paths.

    A path is a text with dots, or a tuple where a key may have a dot, as names of systems do.

    Raises UserError, naming `source`, when a value does not fit its key, or settings each other.
    """
    # Without defaults: those of one kind of latency are unknown keys of another.
    data = scenario.model_dump(exclude={"sweep"}, exclude_unset=True)
    named = []
    for key_path, value in settings.items():
        keys = key_path.split(".") if isinstance(key_path, str) else list(key_path)
        name = ".".join(keys)
        set_key(data, keys, value, f"{source}: sweep.{name}")
        named.append(f"{name}={value_text(value)}")
    at = ", ".join(named)
    where = f"{source}: sweep at {at}" if source and at else source or at
    changed = validated(data, where)
    _check_systems(changed, where)
    return changed


def num_points(scenario: Scenario) -> int:
    """How many combinations a sweep has."""
    return math.prod(len(values) for values in scenario.sweep.values())


def refuse_many(num: int, source: str) -> None:
    """Raises UserError, naming `source`, for more points than are made."""
    if num > _MOST_POINTS:
        raise UserError(
            f"{source}: got {num:,} points, expected at most {_MOST_POINTS:,}; "
            "kvsim sweep --sample N takes some of them"
        )


def points(
    scenario: Scenario, source: str = "sweep", places: Sequence[int] | None = None
) -> Points:
    """The sweep's combinations.

    places: of those that are wanted, where the last key changes first; None: all.

    Raises UserError, naming `source`, when a value does not fit its key, or for too many.
    """
    if places is None:
        refuse_many(num_points(scenario), source)
        places = range(num_points(scenario))
    result = []
    for place in places:
        labels = _combination(scenario.sweep, place)
        result.append((labels, with_settings(scenario, labels, source)))
    return result


def combinations(scenario: Scenario, source: str = "sweep") -> list[dict[str, Any]]:
    """Of the swept values, by key path; one of none without a sweep.

    Raises UserError, naming `source`, for too many.
    """
    refuse_many(num_points(scenario), source)
    return [_combination(scenario.sweep, place) for place in range(num_points(scenario))]


def _combination(swept: dict[str, list[Any]], place: int) -> dict[str, Any]:
    """>>> _combination({"a": [1, 2], "b": [3, 4]}, 2)
    {'a': 2, 'b': 3}
    """
    labels = {}
    for key in reversed(swept):
        place, number = divmod(place, len(swept[key]))
        labels[key] = swept[key][number]
    return {key: labels[key] for key in swept}


def _check_systems(scenario: Scenario, source: str) -> None:
    for system in scenario.systems:
        try:
            config = build_config(scenario, system)
        except ValidationError as error:
            raise user_error(error, source, ("systems", system)) from None
        except UserError as error:  # of a pool that is to fill the memory of the GPUs
            raise UserError(f"{source}: {error}") from None
        if scenario.replicas.router == "prefix-match" and not config.enable_prefix_caching:
            raise UserError(
                f"{source}: replicas.router: got 'prefix-match', which needs "
                f"enable_prefix_caching, expected another one for the system {system!r}"
            )
