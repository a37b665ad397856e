"""Runs every system at every point of the sweep, as often as replications are asked for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from sim.errors import UserError
from sim.records import Records
from sim.scenario import Scenario
from sim.scenario_file import points
from sim.simulate import simulate


@dataclass(frozen=True)
class Job:
    """One run: a system at one point of the sweep with one seed."""

    system: str
    labels: dict[str, Any]  # swept key path -> value
    scenario: Scenario  # of this point and seed


@dataclass(frozen=True)
class Result:
    """A finished run."""

    job: Job
    records: Records


def plan_jobs(scenario: Scenario) -> list[Job]:
    """All runs of a scenario, in the order of its tables."""
    swept = points(scenario)
    return [
        Job(system, labels, point.model_copy(update={"seed": scenario.seed + replication}))
        for system in scenario.systems
        for labels, point in swept
        for replication in range(scenario.replications)
    ]


def run_jobs(jobs: list[Job], on_progress: Callable[[float], None]) -> list[Result]:
    """Run all jobs over the cores, whichever order they end in; results in the order of the jobs.

    on_progress: told how much more is done, in jobs and parts of jobs.

    Raises UserError when a job serves no request at all.
    """
    results: dict[int, Result] = {}
    for index, result in _results(jobs, on_progress):
        results[index] = result
    return [results[index] for index in range(len(jobs))]


def _results(jobs: list[Job], on_progress: Callable[[float], None]) -> Iterator[tuple[int, Result]]:
    if len(jobs) == 1:
        yield 0, _run(jobs[0], on_progress)
        return
    parallel = joblib.Parallel(n_jobs=-1, return_as="generator_unordered")
    for index, result in parallel(joblib.delayed(_run_indexed)(i, j) for i, j in enumerate(jobs)):
        on_progress(1)
        yield index, result


def _run_indexed(index: int, job: Job) -> tuple[int, Result]:
    return index, _run(job, lambda _: None)


def _run(job: Job, on_progress: Callable[[float], None]) -> Result:
    # One thread: the matrices are small, and sums in BLAS depend on the number of threads.
    with threadpool_limits(1):
        records = simulate(job.scenario, job.system, on_progress)
    if not records.requests["finished_ns"].notna().any():
        reason = records.refusals[0] if records.refusals else "there are none"
        raise UserError(f"system {job.system!r} serves none of the requests; {reason}")
    return Result(job, records)
