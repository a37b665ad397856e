"""How well a configuration keeps its promises: runs, seed by seed, until that is sure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from sim.errors import UserError
from sim.experiment import Job
from sim.metrics import Row
from sim.parallel import LOCAL, Backend
from sim.plan.evaluation import RATIO, Evaluation, Verdict
from sim.plan.limits import slow_parts
from sim.plan.slo import FloatArray, Promises, seconds
from sim.records import Records
from sim.scenario import Scenario
from sim.simulate import serve
from sim.sources import build_workload
from sim.steady import FEWEST_COUNTED, Warmup, measure, start_of, stop_of
from sim.sweep.run import Runner
from sim.sweep.store import Store, key_of
from workloads import ClosedLoop, Workload

_AT_A_GLANCE = 2  # runs


@dataclass(frozen=True)
class Evaluator:
    """Runs of a scenario's system at whatever settings are asked for.

    seeds: how many at first, and at most.
    """

    system: str
    promises: Promises
    store: Store
    warmup: Warmup
    seeds: tuple[int, int] = (4, 10)
    backend: Backend = LOCAL
    on_run: Callable[[], None] = lambda: None

    def glance(self, scenario: Scenario) -> tuple[Verdict, Evaluation]:
        """With two seeds, where both are far from the limit on one side; else UNSURE."""
        (found,) = self.evaluate_all([scenario], _AT_A_GLANCE)
        if not found.is_far:
            return Verdict.UNSURE, found
        if found.worst[1] >= 1:
            return Verdict.BROKEN, found
        return (Verdict.KEPT if found.is_steady else Verdict.UNSURE), found

    def judge(self, scenario: Scenario) -> tuple[Verdict, Evaluation]:
        """With as many seeds as it takes to be sure, from the first number on.

        The intervals of all looks together err with a probability of 5 % (Bonferroni), so each is
        wider. Raises UserError and WorkloadError for what cannot be simulated.
        """
        first, most = self.seeds
        looks = range(first, most + 1, 2)
        confidence = 1 - 0.05 / len(looks)
        for num in looks:
            (found,) = self.evaluate_all([scenario], num)
            verdict = found.verdict(confidence)
            if verdict is not Verdict.UNSURE or not found.is_steady:
                break
        return verdict, found

    def evaluate_all(self, scenarios: list[Scenario], num_seeds: int) -> list[Evaluation]:
        """Each with so many seeds, the same of all. Raises as `judge` does."""
        jobs = [
            Job(self.system, {}, scenario.model_copy(update={"seed": scenario.seed + i}))
            for scenario in scenarios
            for i in range(num_seeds)
        ]
        keys = [key_of(job, self.warmup, str(self.promises)) for job in jobs]
        runner = Runner(self.store, self.warmup, self.backend, on_done=self.on_run)
        rows = runner.rows(keys, jobs, partial(_row, self.warmup, self.promises))
        for name in self.promises.names:
            if any(np.isnan(float(row[RATIO + name] or 0)) for row in rows):
                raise UserError(f"--slo: no request has anything to hold {name} against")
        return [
            Evaluation(tuple(rows[first : first + num_seeds]), tuple(self.promises.names))
            for first in range(0, len(rows), num_seeds)
        ]


def _row(warmup: Warmup, promises: Promises, job: Job) -> Row:
    scenario, system = job.scenario, job.system
    try:
        with threadpool_limits(1):
            workload = build_workload(scenario)
            records = serve(scenario, system, workload)
            alone = None
            if promises.needs_alone:
                one_by_one = replace(workload, arrival_ns=None, closed_loop=ClosedLoop(1, 0.0))
                alone = _seconds(serve(_uncached(scenario, system), system, one_by_one), None)
    except OverflowError:
        raise UserError(f"{job.name}: the simulated time goes past 292 years") from None
    start_ns = start_of(records, warmup)
    arrival_ns = records.requests["arrival_ns"]
    counted = ((arrival_ns >= start_ns) & (arrival_ns <= stop_of(records))).to_numpy()
    if counted.sum() < FEWEST_COUNTED:
        counted[:] = True
    loaded = _seconds(records, counted)
    if alone is not None:
        alone = {name: values[counted] for name, values in alone.items()}
    ratios = promises.ratios(loaded, alone)
    causes: Row = {}
    for metric in promises.metrics:
        causes |= slow_parts(records.requests[counted], metric, loaded[metric])
    metrics, is_batch = measure(records, warmup), _comes_at_once(workload)
    counts_whole = warmup.rule != "none" and metrics["measured_s"] == metrics["span_s"]
    return {
        **metrics,
        **{f"broken {slo}": share for slo, share in promises.broken(loaded, alone).items()},
        "load_rise": _rise(records, start_ns),
        "steady": int(is_batch or _is_steady(records)),
        "falls_back": int(counts_whole and not is_batch),
        **causes,
        "kept_share": promises.kept(loaded, alone),
        **{RATIO + name: ratio for name, ratio in ratios.items()},
    }


def _comes_at_once(workload: Workload) -> bool:
    return workload.arrival_ns is not None and not workload.arrival_ns.any()


def _is_steady(records: Records) -> bool:
    """Whether ten requests end while others come."""
    is_ended = (records.requests["finished_ns"] <= stop_of(records)).fillna(False)
    return int(is_ended.sum()) >= FEWEST_COUNTED


def _rise(records: Records, start_ns: int) -> float:
    """How many times as many requests are sent in the second half of the measured time."""
    arrival_ns, stop_ns = records.requests["arrival_ns"], stop_of(records)
    middle_ns = (start_ns + stop_ns) // 2
    num_first = int(((arrival_ns >= start_ns) & (arrival_ns < middle_ns)).sum())
    num_second = int(((arrival_ns >= middle_ns) & (arrival_ns <= stop_ns)).sum())
    return num_second / num_first if num_first else 1.0


def _seconds(records: Records, counted: np.ndarray | None) -> dict[str, FloatArray]:
    requests = records.requests if counted is None else records.requests[counted]
    return seconds(requests, records.num_outputs)


def _uncached(scenario: Scenario, system: str) -> Scenario:
    """Without a prefix cache: alone is what a request takes on an empty engine."""
    systems = {system: {**scenario.systems[system], "enable_prefix_caching": False}}
    return scenario.model_copy(update={"systems": systems})
