"""Reads scenario files: YAML, overrides from the command line, and errors in one line each."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from sim.build import build_config
from sim.catalogue import is_config_path
from sim.errors import UserError
from sim.scenario.mistakes import explain, shorten
from sim.scenario.scenario import Scenario

# Keys whose value is the path of a file: relative to the folder of the scenario file or, on the
# command line, to the current one. That of `model` only where it ends like one.
_PATH_KEYS = ("trace", "file", "files", "folder", "model")

_LENGTH_KEYS = ("outputs", "unique", "tokens")


class _Loader(yaml.SafeLoader):
    """Safe YAML without its silent traps: a key given twice, 1e9 read as text, a date as none."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            mark = key_node.start_mark
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is no text", problem_mark=mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key!r} is given twice", problem_mark=mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def refuse_date(self, node: yaml.ScalarNode) -> None:
        """Raise the mistake: no key of a scenario takes a date, and text has to be quoted."""
        problem = f"{node.value} is a date; to be text it must be in quotes"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever _Loader would not read as text."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.refuse_date)
for _yaml in (_Loader, _Dumper):
    _yaml.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$"),
        list("-+0123456789"),
    )


def load_scenario(path: Path, overrides: list[str] | None = None) -> Scenario:
    """Scenario of a YAML file, with overrides such as "engine.block_size=8" applied.

    Raises UserError with one line for each mistake: file, key path, what came, what was expected.
    """
    data = _parse(_read(path), str(path))
    if not isinstance(data, dict):
        raise UserError(f"{path}: got {shorten(data)}, expected a mapping of keys")
    data = _anchored(data, path.parent, str(path))
    for override in overrides or []:
        _apply(data, override)
    source = f"{path} (with --set)" if overrides else str(path)
    scenario = validated(data, source)
    points(scenario, source)  # for the mistakes that are there only
    return scenario


def dump_scenario(scenario: Scenario) -> str:
    """YAML that loads as this scenario again, with every default written out."""
    data = scenario.model_dump(mode="json", exclude_none=True)
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def points(scenario: Scenario, source: str = "sweep") -> list[tuple[dict[str, Any], Scenario]]:
    """The sweep's combinations: the swept values by key path, and the scenario that has them.

    Raises UserError, naming `source`, when a value does not fit its key.
    """
    result = []
    for values in itertools.product(*scenario.sweep.values()):
        labels = dict(zip(scenario.sweep, values, strict=True))
        # Without defaults: those of one kind of latency are unknown keys of another.
        data = scenario.model_dump(exclude={"sweep"}, exclude_unset=True)
        for key_path, value in labels.items():
            _set_key(data, key_path.split("."), value, f"{source}: sweep.{key_path}")
        at = ", ".join(f"{key_path}={value!r}" for key_path, value in labels.items())
        where = f"{source}: sweep at {at}" if at else source
        point = validated(data, where)
        _check_systems(point, where)
        result.append((labels, point))
    return result


def _set_key(data: dict[str, Any], keys: list[str], value: Any, where: str) -> None:
    """Set the value at the end of a path of keys. Raises UserError, starting with `where`."""
    node: Any = data
    for key in keys[:-1]:
        child = node.get(key)
        if key == "latency" and not isinstance(child, dict):  # a bare word names the kind
            child = {"kind": child or "roofline"}
        if key in _LENGTH_KEYS and isinstance(child, int):  # a bare number is a fixed length
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


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UserError(f"{where}{line}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{where}: not YAML: {' '.join(str(error).split())}") from None


def _apply(data: dict[str, Any], override: str) -> None:
    """Set a key from the command line, where it wins over the sweep and over no system."""
    where = f"--set {override}"
    key_path, equals, text = override.partition("=")
    if not equals or not all(key_path.split(".")):
        raise UserError(f"{where}: expected key.path=value")
    first, _, rest = key_path.partition(".")
    keys = ["sweep", rest] if first == "sweep" and rest else key_path.split(".")
    value = _anchored({key_path: _parse(text, where)}, Path.cwd(), where)[key_path]
    _set_key(data, keys, value, where)
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


def _anchored(data: Any, folder: Path, where: str) -> Any:
    """Paths made independent of the folder in which the scenario is used later."""
    try:
        return map_paths(data, lambda path: str(folder.absolute() / path))
    except RecursionError:
        raise UserError(f"{where}: a value contains itself through an anchor") from None


def validated(data: dict[str, Any], source: str) -> Scenario:
    """A scenario from plain data. Raises UserError, each line of it starting with `source`."""
    try:
        return Scenario.parse(data)
    except ValidationError as error:
        raise _user_error(error, source, ()) from None


def _check_systems(scenario: Scenario, source: str) -> None:
    for system in scenario.systems:
        try:
            build_config(scenario, system)
        except ValidationError as error:
            raise _user_error(error, source, ("systems", system)) from None
        except UserError as error:  # of a pool that is to fill the memory of the GPUs
            raise UserError(f"{source}: {error}") from None


def _user_error(error: ValidationError, source: str, prefix: tuple[str, ...]) -> UserError:
    return UserError("\n".join(f"{source}: {line}" for line in explain(error, prefix)))
