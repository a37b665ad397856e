"""Finds the records of one run in the tables of a run folder."""

from pathlib import Path

import pandas as pd

from sim.errors import UserError
from sim.run_folder import check_run
from sim.run_tables import read_table


def select(
    folder: Path, system: str | None, seed: int | None, at: list[str]
) -> tuple[dict[str, str], pd.DataFrame]:
    """What tells a run from the others of its folder (column -> value), and its requests.

    at: KEY=VALUE of what was swept. Raises UserError for a folder that is no run, or where not
    exactly one run is meant.
    """
    check_run(folder)
    requests = read_table(folder, "requests")
    keys = list(requests.columns[: requests.columns.get_loc("request")])
    runs = requests[keys].drop_duplicates()
    runs = runs[_is_meant(runs, _wanted(system, seed, at, runs), folder)]
    if len(runs) > 1:
        raise UserError(f"{folder}: has {len(runs)} such runs, expected one of {_choices(runs)}")
    run = {key: str(runs[key].iloc[0]) for key in keys}
    return run, of_run(requests, run)


def as_numbers(run: dict[str, str]) -> dict[str, str | int]:
    """What tells a run from the others; the seed is a number."""
    return {**run, "seed": int(run["seed"])}


def read_steps(folder: Path, run: dict[str, str]) -> pd.DataFrame:
    """The steps of a run."""
    return of_run(read_table(folder, "steps"), run)


def of_run(rows: pd.DataFrame, run: dict[str, str]) -> pd.DataFrame:
    """Those rows of a table that are of a run."""
    is_of = pd.Series(True, index=rows.index)
    for key, value in run.items():
        is_of &= rows[key] == value
    return rows[is_of]


def _wanted(
    system: str | None, seed: int | None, at: list[str], runs: pd.DataFrame
) -> dict[str, str]:
    wanted = parse_at(at, [key for key in map(str, runs) if key not in ("system", "seed")])
    if system is not None:
        wanted["system"] = system
    if seed is not None:
        wanted["seed"] = str(seed)
    return wanted


def parse_at(at: list[str], swept: list[str]) -> dict[str, str]:
    """Values of swept keys, from KEY=VALUE each. Raises UserError for any other key."""
    values = {}
    for text in at:
        key, equals, value = text.partition("=")
        if not equals or key not in swept:
            expected = ", ".join(swept) or "a sweep"
            raise UserError(f"--at: got {text!r}, expected KEY=VALUE of {expected}")
        if key in values:
            raise UserError(f"--at: got two values of {key}, expected one")
        values[key] = value
    return values


def _is_meant(runs: pd.DataFrame, wanted: dict[str, str], folder: Path) -> pd.Series:
    is_meant = pd.Series(True, index=runs.index)
    for key, value in wanted.items():
        is_meant &= runs[key] == value
    if not is_meant.any():
        got = ", ".join(f"{key}={value}" for key, value in wanted.items())
        raise UserError(f"{folder}: has no run with {got}, expected one of {_choices(runs)}")
    return is_meant


def _choices(runs: pd.DataFrame) -> str:
    """What differs between runs, as options."""
    options = {"system": "--system ", "seed": "--seed "}
    return "; ".join(
        options.get(key, f"--at {key}=") + ", ".join(dict.fromkeys(runs[key]))
        for key in map(str, runs)
        if runs[key].nunique() > 1 or len(runs) == 1
    )
