"""Catalogues of GPUs, models, systems and workloads: data files, every figure with its source."""

from typing import Any

from sim.catalogue.data import read
from sim.catalogue.efficiency import Efficiency, common_efficiency, load_efficiency
from sim.catalogue.hardware import Hardware
from sim.catalogue.hf_config import read_config
from sim.catalogue.hf_ids import key_of
from sim.catalogue.model import Model
from sim.catalogue.systems import System, load_system
from sim.catalogue.workloads import WorkloadPreset, load_workload
from sim.errors import UserError

__all__ = [
    "Efficiency",
    "Hardware",
    "Model",
    "System",
    "WorkloadPreset",
    "common_efficiency",
    "find_model",
    "is_config_path",
    "load_efficiency",
    "load_hardware",
    "load_model",
    "load_system",
    "load_workload",
    "names",
]


def load_hardware(name: str) -> Hardware:
    """A GPU of the catalogue. Raises UserError for an unknown name."""
    table = read("hardware")
    if name not in table:
        raise UserError(f"got {name!r}, expected a GPU of the catalogue: {', '.join(table)}")
    return Hardware(name=name, **table[name])


def load_model(name: str) -> Model:
    """A model of the catalogue, or of the config.json whose path it is (it ends with .json).

    Raises UserError for an unknown name and for a file that describes no Model.
    """
    if is_config_path(name):
        return read_config(name)
    entry = read("models")[find_model(name)]
    lists: dict[str, Any] = {k: tuple(v) for k, v in entry.items() if isinstance(v, list)}
    return Model(**entry | lists)


def is_config_path(name: str) -> bool:
    """Whether a model is named by a file, not by the catalogue."""
    return name.endswith(".json")


def find_model(name_or_hf_id: str) -> str:
    """The key of a model in the catalogue, by that key or by its id on Hugging Face.

    The organisation and endings such as -Instruct or -FP8 may differ from the ids of the catalogue.
    Raises UserError, naming models with a similar name.
    """
    hf_ids = {key: entry.get("hf_ids", []) for key, entry in read("models").items()}
    return key_of(name_or_hf_id, hf_ids)


def names(table: str) -> list[str]:
    """Names in a table of the catalogue: `hardware`, `models`, `systems` or `workloads`."""
    return sorted(read(table))
