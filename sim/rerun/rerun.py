"""Finds a run of a folder, and simulates it again."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sim.errors import UserError
from sim.experiment import keys_of, plan_jobs
from sim.explain.selection import select
from sim.one_run import words
from sim.rerun.proof import Proof
from sim.rerun.window import Window, WindowOver
from sim.scenario import Scenario
from sim.scenario.file import load_scenario
from sim.simulate import serve
from sim.sources import build_workload
from sim.watched import Watcher


@dataclass(frozen=True)
class Chosen:
    """A run of a folder.

    run: what tells it from the others there, column -> value. scenario: of its point and seed, for
        the runner that replays: tables and times are those of the toy transformer.
    requests: its rows of requests.csv.
    """

    folder: Path
    run: dict[str, str]
    system: str
    scenario: Scenario
    requests: pd.DataFrame

    @property
    def name(self) -> str:
        """As a title."""
        run = ", ".join(f"{words(key)} {value}" for key, value in self.run.items())
        return f"{self.folder.name}: {run.removeprefix('system ')}"


def choose(folder: Path, system: str | None, seed: int | None, at: list[str]) -> Chosen:
    """The run that is meant, as `kvsim explain` takes it.

    Raises UserError where that is not exactly one, or its scenario cannot be read.
    """
    run, requests = select(folder, system, seed, at)
    for job in plan_jobs(load_scenario(folder / "scenario.yaml")):
        if {key: str(value) for key, value in keys_of(job).items()} == run:
            scenario = job.scenario.model_copy(update={"runner": "replay"})
            return Chosen(folder, run, job.system, scenario, requests)
    raise UserError(f"{folder / 'scenario.yaml'}: has no such run as requests.csv; run it again")


def watch(chosen: Chosen, watcher: Watcher, window: Window) -> bool:
    """Let somebody watch a run up to the end of a window; returns whether the run was over before.

    The watcher may raise WindowOver when it has seen enough. Raises UserError where nobody is
    served, or where the simulation is not the run that the folder has.
    """
    if not chosen.requests["finished_ns"].notna().any():
        raise UserError(f"{chosen.name}: no request is served, so there is nothing to see")
    workload = build_workload(chosen.scenario)
    proof = Proof(watcher, window, workload.num_outputs)
    try:
        serve(chosen.scenario, chosen.system, workload, stepwise=True, watcher=proof)
        is_over = True
    except WindowOver:
        is_over = False
    if proof.differs_from(chosen.requests, is_over=is_over):
        raise UserError(
            f"{chosen.folder}: its requests.csv has other times than this version of kvsim, with "
            "the input files as they are, comes to; expected the same: run the scenario again"
        )
    return is_over
