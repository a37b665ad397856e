"""Catalogues of GPUs and models: data files in which every figure has its source."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from sim.catalogue.efficiency import Efficiency
from sim.catalogue.hardware import Hardware
from sim.catalogue.hf_config import read_config
from sim.catalogue.hf_ids import key_of
from sim.catalogue.model import Model


def load_hardware(name: str) -> Hardware:
    """A GPU of the catalogue. Raises KeyError for an unknown name."""
    return Hardware(name=name, **_read("hardware")[name])


def load_model(name: str) -> Model:
    """A model of the catalogue, or of the config.json whose path it is (it ends with .json).

    Raises KeyError for an unknown name, UserError for a file that describes no Model.
    """
    if is_config_path(name):
        return read_config(name)
    entry = _read("models")[name]
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
    hf_ids = {key: entry.get("hf_ids", []) for key, entry in _read("models").items()}
    return key_of(name_or_hf_id, hf_ids)


def load_efficiency(hardware: str) -> Efficiency:
    """What a GPU of the catalogue reaches; the common values for all that was not measured.

    A GPU with the processor of one that was measured, but other memory, has all of its shares that
    do not depend on the memory.
    """
    table = _read("efficiency")
    common, own = table["common"], table.get(hardware, {})
    if hardware in table["same_processor"]:
        measured = table[table["same_processor"][hardware]]
        own = {name: value for name, value in measured.items() if name not in _OF_MEMORY}
        own["source"] += "; its memory: " + common["source"]
    shares = {name: {**common[name], **own.get(name, {})} for name in ("flop", "bandwidth")}
    return Efficiency(**{**common, **own, **shares})


_OF_MEMORY = ("bandwidth", "attention_bandwidth", "mixed_attention_bandwidth")


def names(table: str) -> list[str]:
    """Names in a table of the catalogue: `hardware`, `models` or `efficiency`."""
    return sorted(_read(table))


@cache
def _read(table: str) -> dict[str, Any]:
    return tomllib.loads(files("sim.catalogue").joinpath(f"{table}.toml").read_text("utf-8"))
