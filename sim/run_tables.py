"""Reads the tables of a run folder back, run by run."""

from pathlib import Path

from sim.errors import UserError
from sim.explain.selection import read_table
from sim.one_run import OneRun
from sim.run_folder import is_finished


def read_runs(folder: Path) -> list[OneRun]:
    """All runs of a folder, in the order of its summary; labels are words.

    Raises UserError for a folder that is no run.
    """
    if not is_finished(folder):
        raise UserError(f"{folder}: is no folder, expected one that `kvsim run` has left")
    requests, steps = read_table(folder, "requests"), read_table(folder, "steps")
    keys = list(requests.columns[: requests.columns.get_loc("request")])
    steps_of = dict(list(steps.groupby(keys, sort=False, dropna=False)))
    runs = []
    for key, rows in requests.groupby(keys, sort=False, dropna=False):
        system, *labels, seed = map(str, key)
        of_key = dict(zip(keys[1:-1], labels, strict=True))
        runs.append(OneRun(system, of_key, int(seed), rows, steps_of.get(key, steps.iloc[:0])))
    return runs
