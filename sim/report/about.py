"""The sections that every report ends with: the settings, and how to repeat it."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sim.report.page import Block, Cell, Code, Section, Table, Words
from sim.scenario import Scenario
from sim.scenario.value_text import value_text

_SHOWN = ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens")  # of the engine


def ending(folder: Path, scenario: Scenario, about: dict[str, Any], command: str) -> list[Section]:
    """The last sections. about: versions and code. command: of kvsim, and its options."""
    return [
        Section("Settings", [settings(scenario), *whole(folder / "scenario.yaml")]),
        Section("How to repeat it", _repeat(folder, scenario, about, command)),
    ]


def settings(scenario: Scenario) -> Table:
    """The settings that matter most, swept ones with all values, and in what systems differ."""
    engine, workload = scenario.engine, scenario.workload
    load = f"trace {Path(workload.trace).name}" if workload.trace else "drawn requests"
    said = {
        "model": scenario.model,
        "hardware": scenario.hardware,
        "deployment.tensor_parallel_size": scenario.deployment.tensor_parallel_size,
        "replicas": f"{scenario.replicas.count}, {scenario.replicas.router}",
        "latency": scenario.latency.kind,
        **{f"engine.{name}": getattr(engine, name) for name in _SHOWN},
        "workload": f"{f'{workload.requests:,} ' if workload.requests else ''}{load}",
        **{f"system {name}": _changed(scenario, name) for name in scenario.systems},
    }
    said |= {key: ", ".join(map(value_text, values)) for key, values in scenario.sweep.items()}
    rows = [[Cell(key), Cell(value_text(value))] for key, value in said.items()]
    return Table(("setting", "value"), rows)


def _changed(scenario: Scenario, system: str) -> str:
    """In what a system differs from `engine`."""
    base = asdict(scenario.engine)
    own = scenario.engine_settings(system)
    changed = [f"{key} {value_text(value)}" for key, value in own.items() if value != base[key]]
    return ", ".join(changed) or "as the engine"


def whole(scenario: Path) -> list[Block]:
    """All settings, as the file has them."""
    return [Code(scenario.read_text("utf-8"), "The whole scenario, defaults included")]


def _repeat(folder: Path, scenario: Scenario, about: dict[str, Any], command: str) -> list[Block]:
    """The command, and what else decides the result."""
    name, _, options = command.partition(" ")
    path = shlex.quote(str(folder / "scenario.yaml"))
    return [
        Code(f"kvsim {name} {path} {options}".rstrip()),
        Words(
            [
                f"Seed {scenario.seed}. {versions_in_words(about)}",
                "The same scenario, seed, input files and versions give the same numbers.",
            ]
        ),
    ]


def versions_in_words(about: dict[str, Any]) -> str:
    """Of kvsim and what takes part in results."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return f"{versions}. Code {about['code'][:12]}."
