"""Serving systems of the field: named settings of the engine."""

from dataclasses import dataclass
from typing import Any

from sim.catalogue.data import read
from sim.errors import UserError


@dataclass(frozen=True)
class System:
    """A preset: what it stands for, and the engine's settings that make it so."""

    name: str
    meaning: str
    engine: dict[str, Any]


def load_system(name: str) -> System:
    """A system of the catalogue. Raises UserError for an unknown name."""
    table = read("systems")
    if name not in table:
        raise UserError(f"got {name!r}, expected a preset: {', '.join(table)}")
    return System(name, **table[name])
