"""Runs what a sweep lacks, and repeats it until it is known well enough."""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from sim.experiment import Job, keys_of, run_job
from sim.metrics import Row, half_width_95
from sim.over_seeds import is_number
from sim.parallel import LOCAL, Backend, over_cores
from sim.steady import Warmup, measure
from sim.sweep.store import Store, key_of

MOST_SEEDS = 100
_FEWEST_SEEDS = 3  # of which an interval says something


@dataclass(frozen=True)
class Measured:
    """A run and its metrics."""

    job: Job
    row: Row


@dataclass(frozen=True)
class Runner:
    """How runs are made: kept in a store, on a backend, measured after a warm-up.

    on_planned, on_done: told how many more runs there are to be made, and that one more is.
    """

    store: Store
    warmup: Warmup
    backend: Backend = LOCAL
    on_planned: Callable[[int], None] = lambda _: None
    on_done: Callable[[], None] = lambda: None

    def run(self, jobs: list[Job]) -> list[Measured]:
        """The metrics of all jobs, in their order; only what the store lacks is simulated.

        Raises UserError and WorkloadError for what a scenario names and cannot be had.
        """
        keys = [key_of(job, self.warmup) for job in jobs]
        rows = self.rows(keys, jobs, partial(_measured, self.warmup))
        return [Measured(job, row) for job, row in zip(jobs, rows, strict=True)]

    def rows(self, keys: list[str], jobs: list[Job], work: Callable[[Job], Row]) -> list[Row]:
        """What `work` makes of each job; it is kept under its key, and found there again.

        Raises what `work` raises.
        """
        found: dict[str, Row] = {}
        missing: dict[str, Job] = {}
        for key, job in zip(keys, jobs, strict=True):
            row = self.store.get(key)
            if row is None:
                missing[key] = job
            else:
                found[key] = row
        self.on_planned(len(missing))
        names = list(missing)
        for place, new in over_cores(work, list(missing.values()), self.backend):
            self.store.put(names[place], new)
            found[names[place]] = new
            self.on_done()
        return [found[key] for key in keys]

    def run_until(
        self,
        jobs_of: Callable[[range], list[Job]],
        first_seed: int,
        num_seeds: int,
        *,
        precision: float,
        metrics: Collection[str],
    ) -> list[Measured]:
        """Seed by seed until the 95 % interval of each metric of each point is so narrow.

        jobs_of: of all points with these seeds. precision: half-width by the mean. All points have
        as many seeds, common to all systems; at most MOST_SEEDS.
        """
        num = max(num_seeds, _FEWEST_SEEDS)
        while True:
            measured = self.run(jobs_of(range(first_seed, first_seed + num)))
            wanted = num_seeds_wanted(as_frame(measured), precision, metrics)
            if wanted <= num or num >= MOST_SEEDS:
                return measured
            num = min(wanted, 2 * num, MOST_SEEDS)


def _measured(warmup: Warmup, job: Job) -> Row:
    return measure(run_job(job).records, warmup)


def num_seeds_wanted(frame: pd.DataFrame, precision: float, metrics: Collection[str]) -> int:
    """Seeds with which every interval would be narrow enough, its deviation as it is now."""
    most = 0
    for one in intervals(frame, metrics):
        ratio = one.share / precision
        # At least one more where it is too wide: a metric may lack in some of the runs.
        more = max(math.ceil(one.num_values * ratio**2), one.num_runs + 1)
        most = max(most, one.num_runs if ratio <= 1 else more)
    return most


class Interval(NamedTuple):
    """Of a metric at a point. point: system and swept values by key; share: half-width by mean."""

    metric: str
    point: dict[str, Any]
    num_runs: int
    num_values: int
    share: float


def intervals(frame: pd.DataFrame, metrics: Collection[str]) -> Iterator[Interval]:
    """The 95 % interval of each metric at each point, where there is one and a mean but 0."""
    keys = list(frame.columns[: frame.columns.get_loc("seed")])
    for labels, rows in frame.groupby(keys, sort=False, dropna=False):
        point = dict(zip(keys, labels, strict=True))
        for metric in metrics:
            values = rows[metric].dropna().to_numpy(float)
            half_width = half_width_95(values)
            if half_width is not None and values.mean():
                share = half_width / abs(float(values.mean()))
                yield Interval(metric, point, len(rows), len(values), share)


def as_frame(measured: list[Measured]) -> pd.DataFrame:
    """One tidy table: a row per system, point and seed; swept keys, seed, metrics.

    Swept values of a key that are not all numbers are all text.
    """
    frame = pd.DataFrame([{**keys_of(one.job), **one.row} for one in measured])
    keys = measured[0].job.labels if measured else {}
    return frame.astype({key: str for key in keys if not is_number(frame[key])})
