"""Reads the tables of a run folder back, run by run."""

from pathlib import Path

import pandas as pd

from sim.csv_rows import read_rows
from sim.errors import UserError
from sim.one_run import OneRun
from sim.run_folder import check_run


def read_runs(folder: Path) -> list[OneRun]:
    """All runs of a folder, in the order of its summary; labels are words.

    Raises UserError for a folder that is no run.
    """
    check_run(folder)
    requests, steps = read_table(folder, "requests"), read_table(folder, "steps")
    keys = list(requests.columns[: requests.columns.get_loc("request")])
    steps_of = dict(list(steps.groupby(keys, sort=False, dropna=False)))
    runs = []
    for key, rows in requests.groupby(keys, sort=False, dropna=False):
        system, *labels, seed = map(str, key)
        of_key = dict(zip(keys[1:-1], labels, strict=True))
        runs.append(OneRun(system, of_key, int(seed), rows, steps_of.get(key, steps.iloc[:0])))
    return runs


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """The table `requests` or `steps` of a run folder, with what tells runs apart as strings.

    Raises UserError where it cannot be read.
    """
    path = folder / f"{name}.csv"
    try:
        columns = [*map(str, pd.read_csv(path, nrows=0))]
        first = {"requests": "request", "steps": "step"}[name]
        keys = dict.fromkeys(columns[: columns.index(first)], str)
        times = {column: "Int64" for column in columns if column.endswith("_ns")}  # whole, or empty
        rows = read_rows(path, keys | times)
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        raise UserError(f"{path}: is no table that `kvsim run` has left") from None
    return rows.astype(dict.fromkeys(keys, "string"))
