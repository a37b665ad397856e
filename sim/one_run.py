"""One run of a folder, as figures and reports look at it: who, at which point, and its tables."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from sim.experiment import Result
from sim.scenario.value_text import value_text


class OneRun(NamedTuple):
    """A system at a point of the sweep with a seed.

    labels: swept key path -> value. requests, steps: its rows of requests.csv and steps.csv.
    """

    system: str
    labels: dict[str, Any]
    seed: int
    requests: pd.DataFrame
    steps: pd.DataFrame

    @property
    def is_served(self) -> bool:
        """Whether any request is; else there is nothing to see over time."""
        return bool(self.requests["finished_ns"].notna().any())


def of_result(result: Result) -> OneRun:
    """A run that has just been made."""
    job, records = result.job, result.records
    return OneRun(
        job.system, job.labels, job.scenario.seed, records.requests.reset_index(), records.steps
    )


def last_point(runs: Iterable[OneRun]) -> list[OneRun]:
    """Of each system that serves anybody at the last point where one does, the first run."""
    served = [run for run in runs if run.is_served]
    at_last = [run for run in served if run.labels == served[-1].labels]
    return [run for run in at_last if run.seed == at_last[0].seed]


def words(key: str) -> str:
    """The name of a setting, without where it belongs."""
    return key.rpartition(".")[2].replace("_", " ")


def point_in_words(run: OneRun, num_seeds: int = 1) -> str:
    """The point of the sweep that a run is of, and its seed, or over how many a mean is."""
    labels = [f"{words(key)} {value_text(value)}" for key, value in run.labels.items()]
    seed = f"seed {run.seed}" if num_seeds == 1 else f"mean of {num_seeds} runs"
    return ", ".join([*labels, seed])
