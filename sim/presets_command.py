"""What `kvsim systems` does: show the presets."""

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from sim import catalogue


def print_systems(*, as_json: bool) -> None:
    """Print every preset with its meaning and its settings."""
    systems = [catalogue.load_system(name) for name in catalogue.names("systems")]
    if as_json:
        print(json.dumps([asdict(system) for system in systems], indent=1))
        return
    table = Table(box=None, pad_edge=False, header_style="", padding=(0, 2, 1, 0))
    for column in ("preset", "meaning", "settings"):
        table.add_column(
            column, no_wrap=column == "preset", ratio=None if column == "preset" else 1
        )
    for system in systems:
        settings = ", ".join(f"{key}: {_word(value)}" for key, value in system.engine.items())
        table.add_row(system.name, system.meaning, settings)
    Console(markup=False, highlight=False).print(table)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
