"""Workloads of the field: named settings of what requests are like."""

from dataclasses import dataclass
from typing import Any

from sim.catalogue.data import read
from sim.errors import UserError


@dataclass(frozen=True)
class WorkloadPreset:
    """A preset: what it stands for, what it resembles, and the keys of `workload` it sets.

    max_model_len: tokens of context that its longest requests need.
    """

    name: str
    meaning: str
    resembles: str
    max_model_len: int
    settings: dict[str, Any]


def load_workload(name: str) -> WorkloadPreset:
    """A workload of the catalogue. Raises UserError for an unknown name."""
    table = read("workloads")
    if name not in table:
        raise UserError(f"got {name!r}, expected a preset: {', '.join(table)}")
    return WorkloadPreset(name, **table[name])
