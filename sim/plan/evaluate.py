"""How well a configuration keeps its promises: runs, seed by seed, until that is sure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from sim.errors import UserError
from sim.experiment import Job
from sim.metrics import Row, half_width_95
from sim.parallel import LOCAL, Backend, over_cores
from sim.plan.limits import shares_waiting
from sim.plan.slo import FloatArray, Promises, seconds
from sim.records import Records
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.simulate import serve
from sim.sources import build_workload
from sim.steady import Warmup, measure, start_of
from sim.sweep.store import Store, key_of
from workloads import ClosedLoop

RATIO = "ratio "  # before the name of a promise, of the columns that say how far it is used up


class Verdict(Enum):
    """Whether promises are kept, as far as the runs tell."""

    KEPT = "kept"
    BROKEN = "broken"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Evaluation:
    """A configuration after some runs.

    rows: of each seed the metrics of `measure`, `kept_share`, and a ratio for each promise.
    """

    rows: tuple[Row, ...]
    names: tuple[str, ...]

    def interval(self, metric: str) -> tuple[float, float]:
        """Mean and half-width of the 95 % interval; nan for one seed, inf where any is."""
        values = np.array([row[metric] for row in self.rows], dtype=np.float64)
        mean = float(values.mean())
        if not np.isfinite(mean):
            return mean, 0.0
        half_width = half_width_95(values)
        return mean, np.nan if half_width is None else half_width

    @property
    def verdict(self) -> Verdict:
        """Kept if the whole interval of each ratio is up to 1; broken if one's is above it."""
        intervals = [self.interval(RATIO + name) for name in self.names]
        if any(mean - width > 1 or np.isinf(mean) for mean, width in intervals):
            return Verdict.BROKEN
        if all(mean + width <= 1 for mean, width in intervals):
            return Verdict.KEPT
        return Verdict.UNSURE

    @property
    def worst(self) -> tuple[str, float]:
        """The promise that is used up most, and how far."""
        ratios = {name: self.interval(RATIO + name)[0] for name in self.names}
        name = max(ratios, key=ratios.__getitem__)
        return name, ratios[name]


@dataclass(frozen=True)
class Evaluator:
    """Runs of a scenario's system at whatever settings are asked for.

    seeds: how many at first, and at most.
    """

    system: str
    promises: Promises
    store: Store
    warmup: Warmup
    seeds: tuple[int, int] = (2, 10)
    backend: Backend = LOCAL
    on_run: Callable[[], None] = lambda: None

    def evaluate(self, scenario: Scenario) -> Evaluation:
        """With as many seeds as it takes to be sure, from the scenario's on, at most seeds[1].

        Raises UserError and WorkloadError for what cannot be simulated.
        """
        first, most = self.seeds
        num = first
        while True:
            found = Evaluation(tuple(self._rows(scenario, num)), tuple(self.promises.names))
            if found.verdict is not Verdict.UNSURE or num >= most:
                return found
            num = min(num + 2, most)

    def evaluate_briefly(self, scenario: Scenario) -> Evaluation:
        """With the first seeds only. Raises as `evaluate` does."""
        return Evaluation(tuple(self._rows(scenario, self.seeds[0])), tuple(self.promises.names))

    def _rows(self, scenario: Scenario, num: int) -> list[Row]:
        jobs = [
            Job(self.system, {}, scenario.model_copy(update={"seed": scenario.seed + i}))
            for i in range(num)
        ]
        keys = [f"{key_of(job, self.warmup, str(self.promises))}" for job in jobs]
        found = {key: row for key in keys if (row := self.store.get(key)) is not None}
        missing = [(key, job) for key, job in zip(keys, jobs, strict=True) if key not in found]
        work = partial(_row, self.warmup, self.promises)
        for place, row in over_cores(work, [job for _, job in missing], self.backend):
            self.store.put(missing[place][0], row)
            found[missing[place][0]] = row
            self.on_run()
        return [found[key] for key in keys]


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
    counted = (records.requests["arrival_ns"] >= start_ns).to_numpy()
    loaded = _seconds(records, counted)
    if alone is not None:
        alone = {name: values[counted] for name, values in alone.items()}
    ratios = promises.ratios(loaded, alone)
    return {
        **measure(records, warmup),
        **shares_waiting(records, build_config(scenario, system), start_ns),
        "kept_share": promises.kept(loaded, alone),
        **{RATIO + name: ratio for name, ratio in ratios.items()},
    }


def _seconds(records: Records, counted: np.ndarray | None) -> dict[str, FloatArray]:
    requests = records.requests if counted is None else records.requests[counted]
    return seconds(requests, records.num_outputs)


def _uncached(scenario: Scenario, system: str) -> Scenario:
    """Without a prefix cache: alone is what a request takes on an empty engine."""
    systems = {system: {**scenario.systems[system], "enable_prefix_caching": False}}
    return scenario.model_copy(update={"systems": systems})
