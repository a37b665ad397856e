"""The folder a run leaves: written whole or not at all, and found again instead of repeated."""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import pandas as pd

from sim.errors import UserError
from sim.experiment import Result
from sim.metrics import summarise
from sim.scenario import Scenario
from sim.scenario_file import dump_scenario, map_paths

Draw = Callable[[Path, pd.DataFrame, list[Result]], None]  # figures into a folder

_PACKAGES = ("engine", "workloads", "sim")


def folder_for(scenario: Scenario, out: Path) -> Path:
    """Where the results of this scenario belong, by a hash of everything that decides them.

    Raises UserError for an input file that cannot be read.
    """
    content = map_paths(scenario.model_dump(mode="json"), _file_digest)
    decisive = json.dumps([content, _versions(), _code_digest()], sort_keys=True)
    return out / f"{scenario.name}-{hashlib.sha256(decisive.encode()).hexdigest()[:10]}"


def write_run(folder: Path, scenario: Scenario, results: list[Result], draw: Draw) -> None:
    """Write everything into a folder of another name, then give it its own in one move.

    Raises UserError when the place cannot be written to.
    """
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        _write_tables(partial, scenario, results)
        draw(partial / "figures", read_summary(partial), results)
        if not folder.exists():  # else the same run was finished by another process meanwhile
            partial.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_summary(folder: Path) -> pd.DataFrame:
    """The summary table of a run: one row per system, point of the sweep and seed."""
    return pd.read_csv(folder / "summary.csv")


def read_notes(folder: Path) -> list[str]:
    """What was changed or refused in a run, in words."""
    notes: list[str] = json.loads((folder / "run.json").read_text("utf-8"))["notes"]
    return notes


def _write_tables(folder: Path, scenario: Scenario, results: list[Result]) -> None:
    (folder / "scenario.yaml").write_text(dump_scenario(scenario), "utf-8")
    about = {
        "versions": _versions(),
        "seeds": sorted({result.job.scenario.seed for result in results}),
        "notes": list(dict.fromkeys(note for r in results for note in r.records.notes)),
    }
    (folder / "run.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    rows = [{**result.job.keys, **summarise(result.records)} for result in results]
    pd.DataFrame(rows).to_csv(folder / "summary.csv", index=False)
    for name in ("requests", "steps"):
        _write_records(folder / f"{name}.csv", name, results)


def _write_records(path: Path, name: str, results: list[Result]) -> None:
    for result in results:
        rows: pd.DataFrame = getattr(result.records, name).reset_index()
        for place, (key, value) in enumerate(result.job.keys.items()):
            rows.insert(place, key, value)
        is_first = result is results[0]
        rows.to_csv(path, index=False, header=is_first, mode="w" if is_first else "a")


def _versions() -> dict[str, str]:
    names = ("kvsim", "numpy", "pandas", "simpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _file_digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _code_digest() -> str:
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for file in _source_files(files(package)):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _source_files(folder: Traversable) -> list[Traversable]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _source_files(entry)
        elif entry.name.endswith((".py", ".toml")):
            found.append(entry)
    return found
