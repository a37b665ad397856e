"""Keys of a scenario's plain data: set from the command line or a sweep, and those of files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sim.catalogue import is_config_path
from sim.errors import UserError
from sim.scenario.mistakes import shorten
from sim.scenario.replicas import counted
from sim.scenario.scenario import named_systems
from sim.scenario.yaml_text import parse

# Keys whose value is the path of a file: relative to the folder of the scenario file or, on the
# command line, to the current one. That of `model` only where it ends like one.
_PATH_KEYS = ("trace", "resample", "file", "files", "folder", "tokenizer", "model")

_DISTRIBUTIONS = ("outputs", "unique", "tokens", "turns", "first", "think_time_s")


def apply_override(data: dict[str, Any], override: str) -> None:
    """Set a key from the command line, where it wins over the sweep and over no system."""
    where = f"--set {override}"
    key_path, equals, text = override.partition("=")
    if not equals or not all(key_path.split(".")):
        raise UserError(f"{where}: expected key.path=value")
    first, _, rest = key_path.partition(".")
    keys = ["sweep", rest] if first == "sweep" and rest else key_path.split(".")
    value = anchored({key_path: parse(text, where)}, Path.cwd(), where)[key_path]
    set_key(data, keys, value, where)
    if isinstance(data.get("sweep"), dict):
        data["sweep"].pop(key_path, None)
    if first == "engine" and _all_override(data.get("systems"), rest):
        raise UserError(f"{where}: every system sets {rest}; use --set systems.NAME.{rest}=...")


def _all_override(systems: Any, key: str) -> bool:
    return bool(
        isinstance(systems, dict)
        and systems
        and all(isinstance(settings, dict) and key in settings for settings in systems.values())
    )


def set_key(data: dict[str, Any], keys: list[str], value: Any, where: str) -> None:
    """Set the value at the end of a path of keys. Raises UserError, starting with `where`."""
    node: Any = data
    for key in keys[:-1]:
        child = node.get(key)
        if key == "latency" and not isinstance(child, dict):  # a bare word names the kind
            child = {"kind": child or "roofline"}
        if key == "systems":
            child = named_systems(child)
        if key == "replicas":
            child = counted(child)
        if key in _DISTRIBUTIONS and isinstance(child, int | float):  # a bare number
            child = {"fixed": child}
        if child is None:
            child = {}
        if not isinstance(child, dict):
            raise UserError(
                f"{where}: {key} is {shorten(child)}, not a mapping with keys of its own"
            )
        node[key] = child
        node = child
    node[keys[-1]] = value


def map_paths(node: Any, change: Callable[[str], str]) -> Any:
    """A copy of a scenario's data in which the path of every file is changed, swept ones too."""
    if isinstance(node, list):
        return [map_paths(child, change) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _map_path(last, child, change)
        if (last := str(key).rpartition(".")[2]) in _PATH_KEYS
        else map_paths(child, change)
        for key, child in node.items()
    }


def _map_path(key: str, value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_map_path(key, child, change) for child in value]
    if isinstance(value, dict):  # a mistake, but one that may contain itself
        return map_paths(value, change)
    is_path = isinstance(value, str) and (key != "model" or is_config_path(value))
    return change(value) if is_path else value


def anchored(data: Any, folder: Path, where: str) -> Any:
    """Paths made independent of the folder in which the scenario is used later."""
    try:
        return map_paths(data, lambda path: str(folder.absolute() / path))
    except RecursionError:
        raise UserError(f"{where}: a value contains itself through an anchor") from None
