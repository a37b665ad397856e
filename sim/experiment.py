"""Runs every system at every point of the sweep, as often as replications are asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from sim.errors import UserError
from sim.parallel import over_cores
from sim.records import Records
from sim.scenario import Scenario
from sim.scenario.file import points
from sim.scenario.value_text import value_text
from sim.simulate import simulate


@dataclass(frozen=True)
class Job:
    """One run: a system at one point of the sweep with one seed."""

    system: str
    labels: dict[str, Any]  # swept key path -> value
    scenario: Scenario  # of this point and seed
    stepwise: bool = False  # see `simulate`

    @property
    def name(self) -> str:
        """System and point of the sweep, as in messages."""
        labels = (f"{key}={value_text(value)}" for key, value in self.labels.items())
        return ", ".join([self.system, *labels])


def keys_of(job: Job) -> dict[str, Any]:
    """What tells a run from the others, as columns: numbers are numbers, all else is text."""
    labels = {
        key: value if type(value) in (int, float) else value_text(value)
        for key, value in job.labels.items()
    }
    return {"system": job.system, **labels, "seed": job.scenario.seed}


@dataclass(frozen=True)
class Result:
    """A finished run."""

    job: Job
    records: Records


def plan_jobs(scenario: Scenario, *, stepwise: bool = False) -> list[Job]:
    """All runs of a scenario, in the order of its tables."""
    swept = points(scenario)
    return [
        Job(
            system, labels, point.model_copy(update={"seed": scenario.seed + replication}), stepwise
        )
        for system in scenario.systems
        for labels, point in swept
        for replication in range(scenario.replications)
    ]


def run_jobs(jobs: list[Job], on_progress: Callable[[float], None]) -> list[Result]:
    """Run all jobs over the cores, whichever order they end in; results in the order of the jobs.

    on_progress: told how much more is done, in jobs and parts of jobs.

    Raises UserError when not one request is served in any of them.
    """
    results: dict[int, Result] = {}
    if len(jobs) == 1:
        results[0] = run_job(jobs[0], on_progress)
    else:
        for place, result in over_cores(run_job, jobs):
            on_progress(1)
            results[place] = result
    ordered = [results[place] for place in range(len(jobs))]
    if not any(result.records.requests["finished_ns"].notna().any() for result in ordered):
        raise UserError(f"none of the requests is served; {ordered[0].records.first_refusal}")
    return ordered


def run_job(job: Job, on_progress: Callable[[float], None] = lambda _: None) -> Result:
    """Simulate one run. Raises UserError also where the simulated time leaves the clock."""
    try:
        # One thread: the matrices are small, and sums in BLAS depend on the number of threads.
        with threadpool_limits(1):
            records = simulate(job.scenario, job.system, on_progress, stepwise=job.stepwise)
    except OverflowError:
        raise UserError(
            f"{job.name}: the simulated time goes past 292 years, where int64 nanoseconds end; "
            "expected shorter steps, or fewer"
        ) from None
    return Result(job, records)
