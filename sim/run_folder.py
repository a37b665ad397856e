"""The folder a run leaves: written whole or not at all, and found again instead of repeated."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from sim.about_file import about_text, read_about
from sim.csv_rows import read_rows
from sim.errors import UserError
from sim.experiment import Result, keys_of
from sim.fingerprint import code_digest, fingerprint, versions
from sim.gaps import gap_rows
from sim.metrics import summarise, summarise_classes, summarise_replicas
from sim.one_run import of_result
from sim.scenario import Scenario
from sim.scenario.file import dump_scenario, plain
from sim.whole_file import refuse_no_folder

ABOUT = "run.json"


def folder_for(scenario: Scenario, out: Path, *, stepwise: bool = False) -> Path:
    """Where the results of this scenario belong, by a hash of everything that decides them.

    stepwise: decides nothing, but who compares it wants both.

    Raises UserError for an input file that cannot be read.
    """
    decisive = fingerprint(plain(scenario), stepwise)
    return out / f"{scenario.name}-{decisive[:10]}"


def refuse_other_folder(out: Path, mark: str, what: str) -> None:
    """Raise UserError for a folder that is there and is not an earlier one of the same kind.

    mark: a file that all of the kind have. what: they are, in a word.
    """
    if out.exists() and not (out / mark).is_file():
        raise UserError(f"{out}: is there and no earlier {what}; expected a new --out folder")
    if Path.cwd().is_relative_to(out.resolve()):
        raise UserError(f"{out}: is where you are, expected a folder that can be replaced")
    written = (".md", ".png", ".svg", ".json", ".csv")
    others = [path.name for path in out.glob("*") if path.suffix not in written]
    if others:
        raise UserError(
            f"{out}: has {others[0]} beside an earlier {what}; expected a new --out folder"
        )


@contextmanager
def new_folder(folder: Path, *, replaces: bool = False) -> Iterator[Path]:
    """A folder to write into, that becomes `folder` at the end if all went well.

    replaces: whether it takes the place of one that is there; else that one stays.

    Made at once, so that a place that cannot be written to is found before the work is done, and
    taken away again whatever happens. Raises UserError for such a place.
    """
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    before = folder.with_name(f".{folder.name}.before-{os.getpid()}")
    is_first = not folder.parent.exists()
    try:
        refuse_no_folder(folder)
        partial.mkdir(parents=True)
        yield partial
        if replaces and folder.exists():
            folder.rename(before)
        if not folder.exists():  # else the same run was finished by another process meanwhile
            partial.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if before.exists() and not folder.exists():
            before.rename(folder)
        shutil.rmtree(before, ignore_errors=True)
        if is_first and not folder.exists():
            with suppress(OSError):  # another run may have put something there
                folder.parent.rmdir()


def write_run(folder: Path, scenario: Scenario, results: list[Result]) -> None:
    """Write the tables and figures of a run into an empty folder."""
    # matplotlib: slow to import, and a run that is found again needs none
    from sim.plots.run_figures import draw_figures

    (folder / "scenario.yaml").write_text(dump_scenario(scenario), "utf-8")
    rows = [{**keys_of(result.job), **summarise(result.records)} for result in results]
    pd.DataFrame(rows).to_csv(folder / "summary.csv", index=False)
    if of_classes := _class_rows(results):
        pd.DataFrame(of_classes).to_csv(folder / "classes.csv", index=False)
    if of_replicas := _replica_rows(results):
        pd.DataFrame(of_replicas).to_csv(folder / "replicas.csv", index=False)
    pd.DataFrame(gap_rows(results)).to_csv(folder / "gaps.csv", index=False)
    for name in ("requests", "steps"):
        _write_records(folder / f"{name}.csv", name, results)
    about = {
        "versions": versions(plain(scenario)),
        "code": code_digest(),
        "seeds": sorted({result.job.scenario.seed for result in results}),
        "notes": _notes(results),
    }
    names = [path.name for path in folder.iterdir()]
    (folder / ABOUT).write_text(about_text(about, folder, names), "utf-8")
    (folder / "figures").mkdir()
    draw_figures(folder / "figures", read_summary(folder), [of_result(r) for r in results])


def is_finished(folder: Path) -> bool:
    """Whether the results of a run are here. Raises UserError for a folder that is no whole run."""
    try:
        if not folder.exists():
            return False
        read_about(folder / ABOUT, "remove the folder to run it again")
    except OSError as error:
        raise UserError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    return True


def check_run(folder: Path) -> dict[str, Any]:
    """What `run.json` says of a run. Raises UserError for a folder that has no whole one."""
    if not (folder / ABOUT).is_file():
        raise UserError(f"{folder}: is no folder that `kvsim run` has left")
    return read_about(folder / ABOUT, "remove the folder and run it again")


def read_summary(folder: Path) -> pd.DataFrame:
    """The summary table of a run: one row per system, point of the sweep and seed."""
    return read_rows(folder / "summary.csv")


def read_classes(folder: Path) -> pd.DataFrame | None:
    """The table of classes of a run: a row per system, point, seed and class; None without any."""
    path = folder / "classes.csv"
    return read_rows(path, {"class": str}) if path.exists() else None


def read_replicas(folder: Path) -> pd.DataFrame | None:
    """The table of replicas: a row per system, point, seed and replica of several; None without."""
    path = folder / "replicas.csv"
    return read_rows(path) if path.exists() else None


def read_notes(folder: Path) -> list[str]:
    """What was changed or refused in a run, in words."""
    return list(check_run(folder)["notes"])


def _class_rows(results: list[Result]) -> list[dict[str, Any]]:
    return [
        {**keys_of(result.job), "class": name, **row}
        for result in results
        for name, row in summarise_classes(result.records).items()
    ]


def _replica_rows(results: list[Result]) -> list[dict[str, Any]]:
    return [
        {**keys_of(result.job), "replica": number, **row}
        for result in results
        for number, row in enumerate(summarise_replicas(result.records))
    ]


def _notes(results: list[Result]) -> list[str]:
    notes = [note for result in results for note in result.records.notes]
    return [*dict.fromkeys(notes), *_refusals(results)]


def _refusals(results: list[Result]) -> list[str]:
    """A line for each system and point of the sweep at which requests were refused."""
    refused: dict[str, list[Result]] = {}
    for result in results:
        if result.records.first_refusal:
            refused.setdefault(result.job.name, []).append(result)
    return [
        f"{where}: {sum((r.records.requests['finish_reason'] == 'refused').sum() for r in runs)} "
        f"requests refused in {len(runs)} runs, the first: {runs[0].records.first_refusal}"
        for where, runs in refused.items()
    ]


def _write_records(path: Path, name: str, results: list[Result]) -> None:
    for result in results:
        rows: pd.DataFrame = getattr(result.records, name).reset_index()
        for place, (key, value) in enumerate(keys_of(result.job).items()):
            rows.insert(place, key, value)
        is_first = result is results[0]
        rows.to_csv(path, index=False, header=is_first, mode="w" if is_first else "a")
