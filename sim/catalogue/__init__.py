"""Catalogues of GPUs and models: data files in which every figure has its source."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from sim.catalogue.efficiency import Efficiency
from sim.catalogue.hardware import Hardware
from sim.catalogue.model import Model


def load_hardware(name: str) -> Hardware:
    """A GPU of the catalogue. Raises KeyError for an unknown name."""
    return Hardware(**_read("hardware")[name])


def load_model(name: str) -> Model:
    """A model of the catalogue. Raises KeyError for an unknown name."""
    entry: dict[str, Any] = _read("models")[name]
    tuples: dict[str, Any] = {key: tuple(v) for key, v in entry.items() if isinstance(v, list)}
    return Model(**{**entry, **tuples})


def load_efficiency(hardware: str) -> Efficiency:
    """What a GPU of the catalogue reaches; the common values for all that was not measured."""
    common, own = _read("efficiency")["common"], _read("efficiency").get(hardware, {})
    shares = {name: {**common[name], **own.get(name, {})} for name in ("flop", "bandwidth")}
    return Efficiency(**{**common, **own, **shares})


def names(table: str) -> list[str]:
    """Names in a table of the catalogue: `hardware`, `models` or `efficiency`."""
    return sorted(_read(table))


@cache
def _read(table: str) -> dict[str, Any]:
    return tomllib.loads(files("sim.catalogue").joinpath(f"{table}.toml").read_text("utf-8"))
