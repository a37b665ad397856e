"""The parts of a run that have samples of their own: a system, a point, a seed, a replica."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from sim.csv_rows import read_rows
from sim.prometheus.text import Labels
from sim.run_folder import read_summary
from sim.scenario import Scenario
from sim.vllm_import.simulated import SimulatedRun, refuse_several_outputs


@dataclass(frozen=True)
class Series:
    """labels: of its samples. run: its requests. steps, gaps: its rows of these tables."""

    labels: Labels
    run: SimulatedRun
    requests: pd.DataFrame
    steps: pd.DataFrame
    gaps: pd.DataFrame
    max_model_len: int


@dataclass(frozen=True)
class RunTables:
    """What a run has left, each table with a column `replica` but for the summary.

    keys: columns that tell runs apart.
    """

    summary: pd.DataFrame
    requests: pd.DataFrame
    steps: pd.DataFrame
    gaps: pd.DataFrame
    keys: list[str]


def read_tables(folder: Path, scenario: Scenario) -> RunTables:
    """The tables of a finished run of this scenario."""
    summary = read_summary(folder)
    tables = {name: _read(folder / f"{name}.csv") for name in ("requests", "steps", "gaps")}
    return RunTables(summary, keys=["system", *scenario.sweep, "seed"], **tables)


def _read(path: Path) -> pd.DataFrame:
    rows = read_rows(path)
    return rows if "replica" in rows else rows.assign(replica=0)


def series_of(tables: RunTables, scenario: Scenario) -> Iterator[Series]:
    """In the order of the summary; replicas by their number.

    Raises UserError for requests of several outputs.
    """
    keys = [*tables.keys, "replica"]
    parts = {
        name: dict(list(getattr(tables, name).groupby(keys, sort=False, dropna=False)))
        for name in ("requests", "steps", "gaps")
    }
    for key, gaps in parts["gaps"].items():
        row = dict(zip(keys, key, strict=True))
        requests = parts["requests"].get(key, tables.requests.iloc[:0])
        finished = requests[requests["finished_ns"].notna()]
        refuse_several_outputs(int(row.get("workload.n", scenario.workload.n)), scenario.name)
        yield Series(
            labels=labels_of(scenario, row),
            run=SimulatedRun("", row["system"], finished, tables.summary),
            requests=requests,
            steps=parts["steps"].get(key, tables.steps.iloc[:0]),
            gaps=gaps,
            max_model_len=int(row.get("engine.max_model_len", scenario.engine.max_model_len)),
        )


def labels_of(scenario: Scenario, row: Mapping[str, Any]) -> Labels:
    """vLLM's labels, then what tells the runs apart: system, swept keys, seed.

    row: what a row of the tables has of them; with a replica, its number is that of the engine.
    """
    others = {_label(key): _text(value) for key, value in row.items() if key != "replica"}
    engine = {"engine": str(row["replica"])} if "replica" in row else {}
    return {"model_name": str(row.get("model", scenario.model)), **engine, **others}


def _label(key: str) -> str:
    return re.sub("[^A-Za-z0-9_]", "_", key)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
