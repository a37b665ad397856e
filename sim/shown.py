"""What figures and reports of a run are drawn from."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from sim.errors import UserError
from sim.explain.selection import parse_at
from sim.one_run import OneRun, last_point
from sim.over_seeds import is_number
from sim.run_folder import read_summary
from sim.run_tables import read_runs


class Shown(NamedTuple):
    """One point of a run, and all of it.

    summary: all its rows. key: of what was swept, if that is one number. runs: of each system at
    one point of the sweep, each serving somebody. at_point: the rows of all seeds there.
    """

    summary: pd.DataFrame
    key: str | None
    runs: list[OneRun]
    at_point: pd.DataFrame


def read_shown(folder: Path, at: list[str]) -> Shown:
    """What figures of a run folder are drawn from. Raises UserError for mistakes."""
    runs = read_runs(folder)
    values = parse_at(at, list(runs[0].labels))
    meant = [run for run in runs if run.labels.items() >= values.items()]
    if not meant:
        raise UserError(f"{folder}: has no run with {', '.join(at)}")
    if not any(run.is_served for run in meant):
        raise UserError(f"{folder}: no request is served{' at ' if at else ''}{', '.join(at)}")
    return shown_of(read_summary(folder), runs, values)


def shown_of(summary: pd.DataFrame, runs: list[OneRun], at: dict[str, str] | None = None) -> Shown:
    """The last point at which anybody is served, of those with these values of swept keys.

    summary: has a row for each run, in the same order. In one of them a request is served.
    """
    wanted = (at or {}).items()
    last = last_point(run for run in runs if run.labels.items() >= wanted)
    served = [place for place, run in enumerate(runs) if run.is_served]
    at_point = [place for place in served if runs[place].labels == last[0].labels]
    return Shown(summary, _swept_number(summary, runs), last, summary.iloc[at_point])


def _swept_number(summary: pd.DataFrame, runs: list[OneRun]) -> str | None:
    """The swept key, when there is only one and its values are numbers."""
    keys = list(runs[0].labels)
    return keys[0] if len(keys) == 1 and is_number(summary[keys[0]]) else None
