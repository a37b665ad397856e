"""Reads scenario files: YAML, overrides from the command line, and errors in one line each."""

import difflib
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from sim.errors import UserError
from sim.scenario import Scenario

# Keys whose value is the path of a file: relative to the folder of the scenario file or, on the
# command line, to the current one.
_PATH_KEYS = ("trace", "file")


class _Loader(yaml.SafeLoader):
    """Safe YAML without its two silent traps: a key given twice, and 1e9 read as text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for i, key in enumerate(keys):
            if key in keys[:i]:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key!r} is given twice",
                    problem_mark=node.value[i][0].start_mark,
                )
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
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
        raise UserError(f"{path}: expected a mapping of keys, got {type(data).__name__}")
    data = _anchored(data, path.parent)
    for override in overrides or []:
        _apply(data, override)
    scenario = _validate(data, str(path))
    for _, point in points(scenario, str(path)):
        _check_systems(point, str(path))
    return scenario


def dump_scenario(scenario: Scenario) -> str:
    """YAML that loads as this scenario again, with every default written out."""
    data = scenario.model_dump(mode="json", exclude_none=True)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def points(scenario: Scenario, source: str = "sweep") -> list[tuple[dict[str, Any], Scenario]]:
    """The sweep's combinations: the swept values by key path, and the scenario that has them.

    Raises UserError, naming `source`, when a value does not fit its key.
    """
    result = []
    for values in itertools.product(*scenario.sweep.values()):
        labels = dict(zip(scenario.sweep, values, strict=True))
        data = scenario.model_dump(exclude={"sweep"})
        for key_path, value in labels.items():
            set_key(data, key_path, value, f"{source}: sweep.{key_path}")
        result.append((labels, _validate(data, source)))
    return result


def set_key(data: dict[str, Any], key_path: str, value: Any, where: str) -> None:
    """Set the value at a path such as "engine.block_size". Raises UserError, starting `where`."""
    *parents, last = key_path.split(".")
    node: Any = data
    for key in parents:
        child = node.get(key)
        if isinstance(child, str):  # a bare word names a kind, as in `latency: roofline`
            child = {"kind": child}
        if child is None:
            child = {}
        if not isinstance(child, dict):
            raise UserError(f"{where}: {key} is {child!r}, not a mapping with keys of its own")
        node[key] = child
        node = child
    node[last] = value


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
    key_path, equals, text = override.partition("=")
    if not equals or not all(key_path.split(".")):
        raise UserError(f"--set {override}: expected key.path=value")
    value = _parse(text, f"--set {override}")
    last = key_path.split(".")[-1]
    value = _anchored({last: value}, Path.cwd())[last]
    set_key(data, key_path, value, f"--set {override}")


def map_paths(node: Any, change: Callable[[str], str]) -> Any:
    """A copy of a scenario's data in which the path of every file is changed."""
    if isinstance(node, list):
        return [map_paths(child, change) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        key: change(child)
        if key in _PATH_KEYS and isinstance(child, str)
        else map_paths(child, change)
        for key, child in node.items()
    }


def _anchored(node: Any, folder: Path) -> Any:
    """Paths made independent of the folder in which the scenario is used later."""
    return map_paths(node, lambda path: str(folder.absolute() / Path(path).expanduser()))


def _validate(data: dict[str, Any], source: str) -> Scenario:
    try:
        return Scenario.parse(data)
    except ValidationError as error:
        raise _user_error(error, source, ()) from None


def _check_systems(scenario: Scenario, source: str) -> None:
    for system in scenario.systems:
        try:
            scenario.engine_config(system)
        except ValidationError as error:
            raise _user_error(error, source, ("systems", system)) from None


def _user_error(error: ValidationError, source: str, prefix: tuple[str, ...]) -> UserError:
    lines = [f"{source}: {_explain(detail, prefix)}" for detail in error.errors()]
    return UserError("\n".join(lines))


def _explain(detail: Any, prefix: tuple[str, ...]) -> str:
    """One mistake in one line, from pydantic's account of it."""
    path = ".".join(str(part) for part in _without_tags((*prefix, *detail["loc"])))
    if detail["type"] == "extra_forbidden" or detail["type"] == "unexpected_keyword_argument":
        return f"{path}: unknown key{_suggestion(path.rpartition('.')[2])}"
    if detail["type"] == "missing":
        return f"{path}: missing"
    if detail["type"] == "value_error":  # raised by our own checks
        text = str(detail["ctx"]["error"])
        # A setting names itself: "num_blocks: got 0, expected >= 1".
        return f"{path}.{text}" if ": got " in text else f"{path}: expected {text}"
    expected = detail["msg"].removeprefix("Input should be ")
    return f"{path}: got {_short(detail['input'])}, expected {expected}"


def _without_tags(location: tuple[Any, ...]) -> list[Any]:
    """Drop the names of variants that pydantic puts into a path, as in latency.roofline.model."""
    return [
        part
        for before, part in zip((None, *location), location, strict=False)
        if not (before == "latency" and part in ("constant", "linear", "roofline"))
    ]


def _suggestion(key: str) -> str:
    schema = str(Scenario.model_json_schema())
    known = sorted(set(re.findall(r"'(\w+)': \{", schema)))
    close = difflib.get_close_matches(key, known, n=1)
    return f", did you mean {close[0]}?" if close else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
