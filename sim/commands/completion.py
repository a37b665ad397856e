"""What a shell offers when Tab is pressed; `kvsim --install-completion` sets it up."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# What is looked up is imported when it is, for `kvsim --help` does not wait for it.


def scenario_files(incomplete: str) -> list[str]:
    """YAML files, and folders that may have some."""
    return [*_paths(incomplete, lambda path: path.suffix in (".yaml", ".yml"))]


def run_folders(incomplete: str) -> list[str]:
    """Folders that runs have left, and those that they may be in."""
    return [*_paths(incomplete, lambda _: False)]


def _paths(incomplete: str, is_wanted: Callable[[Path], bool]) -> Iterator[str]:
    folder, _, start = incomplete.rpartition("/")
    where = Path(f"{folder}/" if "/" in incomplete else ".")
    for path in sorted(where.glob(f"{start}*")):
        name = f"{folder}/{path.name}" if "/" in incomplete else path.name
        if path.is_dir() and not path.name.startswith("."):
            yield f"{name}/"
        elif is_wanted(path):
            yield name


def names_of(table: str) -> Callable[[str], list[str]]:
    """Names in a table of the catalogue."""

    def complete(incomplete: str) -> list[str]:
        from sim import catalogue

        return [name for name in catalogue.names(table) if name.startswith(incomplete)]

    return complete


def published(incomplete: str) -> list[str]:
    """Publications that `kvsim reproduce` can redraw."""
    files = sorted(Path("scenarios/published").glob(f"{incomplete}*.toml"))
    return [path.stem for path in files]


def figures(incomplete: str) -> list[str]:
    """Figures of a run."""
    from sim.plots.run_figures import FIGURES

    return [name for name in FIGURES if name.startswith(incomplete)]


def settings(incomplete: str) -> list[tuple[str, str]]:
    """Keys of a scenario, each with its meaning; after `=` the values, where they have names."""
    from sim.scenario.json_schema import scenario_schema

    schema = scenario_schema()
    key, equals, start = incomplete.partition("=")
    keys = dict(_keys(schema, schema, ""))
    if not equals:
        return [
            (name, node.get("description", ""))
            for name, node in keys.items()
            if name.startswith(incomplete)
        ]
    values = _values(schema, keys.get(key, {}))
    return [(f"{key}={value}", "") for value in values if value.startswith(start)]


def _keys(schema: dict[str, Any], node: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Every key path below a node, and its own node of the schema."""
    for part in _alternatives(schema, node):
        for key, child in part.get("properties", {}).items():
            yield f"{path}{key}", child
            yield from _keys(schema, child, f"{path}{key}.")


def _alternatives(schema: dict[str, Any], node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from sim.scenario.json_schema import alternatives

    for part in alternatives(node):
        if "$ref" in part:
            yield from _alternatives(schema, schema["$defs"][part["$ref"].rpartition("/")[2]])
        else:
            yield part


def _values(schema: dict[str, Any], node: dict[str, Any]) -> list[str]:
    values = []
    for part in _alternatives(schema, node):
        words = {"boolean": ["true", "false"]}.get(part.get("type", ""), [])
        constant = [part["const"]] if "const" in part else []
        values += [*part.get("enum", ()), *constant, *words]
    return [str(value) for value in dict.fromkeys(values)]
