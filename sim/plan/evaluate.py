"""How well a configuration keeps its promises: runs, seed by seed, until that is sure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from sim.errors import UserError
from sim.experiment import Job
from sim.metrics import Row, half_width
from sim.parallel import LOCAL, Backend
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

RATIO = "ratio "  # before the name of a promise, of the columns that say how far it is used up


_AT_A_GLANCE = 2  # runs
_FAR = 1.5


class Verdict(Enum):
    """Whether promises are kept, as far as the runs tell."""

    KEPT = "kept"
    BROKEN = "broken"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Evaluation:
    """A configuration after some runs.

    rows: of each seed the metrics of `measure`, `kept_share`, a ratio for each promise, and
        `steady`: whether enough requests end while others come.
    """

    rows: tuple[Row, ...]
    names: tuple[str, ...]

    def interval(self, metric: str) -> tuple[float, float]:
        """Mean and half-width of the 95 % interval; nan for one seed, inf where any is."""
        return self._interval(metric, 0.95)

    def _interval(self, metric: str, confidence: float) -> tuple[float, float]:
        values = np.array([row[metric] for row in self.rows], dtype=np.float64)
        mean = float(values.mean())
        if not np.isfinite(mean):
            return mean, 0.0
        width = half_width(values, confidence)
        return mean, np.nan if width is None else width

    def less(self, other: "Evaluation", metric: str) -> tuple[float, float]:
        """Mean difference to another under the same seeds, and half-width of its 95 % interval.

        Both nan where one is infinite.
        """
        pairs = zip(self.rows, other.rows, strict=True)
        values = np.array([[one[metric], two[metric]] for one, two in pairs], dtype=np.float64)
        if not np.isfinite(values).all():
            return np.nan, np.nan
        differences = values[:, 0] - values[:, 1]
        width = half_width(differences, 0.95)
        return float(differences.mean()), np.nan if width is None else width

    def verdict(self, confidence: float) -> Verdict:
        """Kept if the whole interval of each ratio is up to 1; broken if one's is above it.

        Nothing is shown to be kept by runs that are over before they are steady: a load that could
        not be served for long keeps its promises for a moment. confidence: of each interval.
        """
        intervals = [self._interval(RATIO + name, confidence) for name in self.names]
        if any(mean - width > 1 or np.isinf(mean) for mean, width in intervals):
            return Verdict.BROKEN
        if self.is_steady and all(mean + width <= 1 for mean, width in intervals):
            return Verdict.KEPT
        return Verdict.UNSURE

    @property
    def is_steady(self) -> bool:
        """Whether enough requests end while others come, in every run."""
        return all(row["steady"] for row in self.rows)

    @property
    def num_requests(self) -> int:
        """That are counted, of all runs."""
        return sum(int(row["requests"] or 0) for row in self.rows)

    @property
    def num_refused(self) -> int:
        """Of `num_requests`."""
        return sum(int(row["refused"] or 0) for row in self.rows)

    @property
    def is_far(self) -> bool:
        """Whether in every run all promises are kept, or one is broken, by half of the limit."""
        most = [max(float(row[RATIO + name] or 0) for name in self.names) for row in self.rows]
        return max(most) <= 1 / _FAR or min(most) >= _FAR

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
    return {
        **measure(records, warmup),
        **{f"broken {slo}": share for slo, share in promises.broken(loaded, alone).items()},
        "load_rise": _rise(records, start_ns),
        "steady": int(_is_steady(records, workload, start_ns)),
        **causes,
        "kept_share": promises.kept(loaded, alone),
        **{RATIO + name: ratio for name, ratio in ratios.items()},
    }


def _is_steady(records: Records, workload: Workload, start_ns: int) -> bool:
    """Whether ten requests end while others come; requests that all come at once need not."""
    if workload.arrival_ns is not None and not workload.arrival_ns.any():
        return True
    is_ended = records.requests["finished_ns"].between(
        start_ns, stop_of(records), inclusive="right"
    )
    return int(is_ended.fillna(False).sum()) >= FEWEST_COUNTED


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
