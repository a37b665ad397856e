"""The data files of the catalogue."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read(table: str) -> dict[str, Any]:
    """`hardware`, `models`, `efficiency`, `systems` or `workloads`, as the file has it."""
    return tomllib.loads(files("sim.catalogue").joinpath(f"{table}.toml").read_text("utf-8"))
