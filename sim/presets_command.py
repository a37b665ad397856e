"""What `kvsim systems` and `kvsim workloads` do: show the presets."""

import json
from dataclasses import asdict
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from sim import catalogue


def print_systems(*, as_json: bool) -> None:
    """Print every preset of a system with its meaning and its settings."""
    systems = [catalogue.load_system(name) for name in catalogue.names("systems")]
    if as_json:
        print(json.dumps([asdict(system) for system in systems], indent=1))
    else:
        _print([(system.name, system.meaning, system.engine) for system in systems])


def print_workloads(*, as_json: bool) -> None:
    """Print every preset of a workload with its meaning, what it resembles, and its settings."""
    workloads = [catalogue.load_workload(name) for name in catalogue.names("workloads")]
    if as_json:
        print(json.dumps([asdict(workload) for workload in workloads], indent=1))
    else:
        rows = [
            (
                workload.name,
                f"{workload.meaning}; like {workload.resembles}; needs a max_model_len of "
                f"{workload.max_model_len}",
                workload.settings,
            )
            for workload in workloads
        ]
        _print(rows)


def _print(rows: list[tuple[str, str, dict[str, Any]]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="", padding=(0, 2, 1, 0))
    for column in ("preset", "meaning", "settings"):
        table.add_column(
            column, no_wrap=column == "preset", ratio=None if column == "preset" else 1
        )
    for name, meaning, settings in rows:
        words = ", ".join(f"{key}: {_word(value)}" for key, value in settings.items())
        table.add_row(name, meaning, words)
    Console(markup=False, highlight=False).print(table)


def _word(value: Any) -> str:
    """A value as a scenario writes it."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
