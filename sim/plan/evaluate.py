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
from sim.plan.evaluation import BROKEN, RATIO, Evaluation, Verdict
from sim.plan.limits import slow_parts
from sim.plan.replications import longer
from sim.plan.slo import FloatArray, Promises, seconds
from sim.records import Records
from sim.scenario import Scenario
from sim.simulate import serve
from sim.sources import build_workload
from sim.steady import FEWEST_COUNTED, Warmup, measure, sent, stop_of, window
from sim.sweep.run import Runner
from sim.sweep.store import Store, key_of
from workloads import ClosedLoop, Workload

GLANCE_RUNS = 2


@dataclass(frozen=True)
class Evaluator:
    """Runs of a scenario's system at whatever settings are asked for.

    seeds: how many at first, and at most. on_planned, on_run: told how many more runs there are to
    be made, as far as is known, and that one more is.

    Raises UserError for fewer than two seeds, of which there is no interval, and for less at most.
    """

    system: str
    promises: Promises
    store: Store
    warmup: Warmup
    seeds: tuple[int, int] = (4, 10)
    backend: Backend = LOCAL
    on_planned: Callable[[int], None] = lambda _: None
    on_run: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        first, most = self.seeds
        if not 2 <= first <= most:
            raise UserError(f"seeds: got {first}, at most {most}; expected 2 or more, and no less")

    def glance(self, scenario: Scenario) -> tuple[Verdict, Evaluation]:
        """With two seeds, where both are far from the limit on one side; else UNSURE."""
        found = self.evaluate(scenario, GLANCE_RUNS, lambda found: found.glance_verdict)
        return found.glance_verdict, found

    def judge(self, scenario: Scenario) -> tuple[Verdict, Evaluation]:
        """With as many seeds as it takes to be sure, from the first number on.

        Raises UserError and WorkloadError for what cannot be simulated.
        """
        for num in self._looks:
            found = self.evaluate(scenario, num, lambda found: found.verdict)
            scenario = found.scenario
            can_be_shown = found.is_steady or found.worst[1] > 1  # to keep, or to break
            if found.verdict is not Verdict.UNSURE or not can_be_shown:
                break
        return found.verdict, found

    @property
    def _looks(self) -> list[int]:
        """Numbers of seeds at which a verdict is asked for: two more each time, and the most."""
        first, most = self.seeds
        return [*range(first, most, 2), most]

    @property
    def _confidence(self) -> float:
        """Of the intervals of one look: all looks together err in 5 % of cases (Bonferroni)."""
        return 1 - 0.05 / len(self._looks)

    def evaluate(
        self, scenario: Scenario, num_seeds: int, verdict: Callable[[Evaluation], Verdict]
    ) -> Evaluation:
        """With more requests where runs are over before they are steady, and break no promise.

        Raises as `judge` does.
        """
        while True:
            (found,) = self.evaluate_all([scenario], num_seeds)
            is_told = found.is_steady or verdict(found) is Verdict.BROKEN
            if is_told or not (more := longer(scenario, found.times_longer)):
                return found
            scenario = more

    def evaluate_all(self, scenarios: list[Scenario], num_seeds: int) -> list[Evaluation]:
        """Each with so many seeds, the same of all. Raises as `judge` does."""
        jobs = [
            Job(self.system, {}, scenario.model_copy(update={"seed": scenario.seed + i}))
            for scenario in scenarios
            for i in range(num_seeds)
        ]
        keys = [key_of(job, self.warmup, str(self.promises)) for job in jobs]
        runner = Runner(
            self.store,
            self.warmup,
            self.backend,
            on_planned=self.on_planned,
            on_done=self.on_run,
        )
        rows = runner.rows(keys, jobs, partial(_row, self.warmup, self.promises))
        for name in self.promises.names:
            if any(np.isnan(float(row[RATIO + name] or 0)) for row in rows):
                raise UserError(f"--slo: no request has anything to hold {name} against")
        names = tuple(self.promises.names)
        return [
            Evaluation(
                tuple(rows[place * num_seeds : (place + 1) * num_seeds]),
                names,
                self._confidence,
                scenario=scenario,
            )
            for place, scenario in enumerate(scenarios)
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
    measured_ns = window(records, warmup)
    counted = np.ones(len(records.requests), np.bool_)
    if measured_ns is not None:
        counted = sent(records, *measured_ns)
    loaded = _seconds(records, counted)
    if alone is not None:
        alone = {name: values[counted] for name, values in alone.items()}
    ratios = promises.ratios(loaded, alone)
    causes: Row = {}
    for metric in promises.metrics:
        causes |= slow_parts(records.requests[counted], metric, loaded[metric])
    metrics, is_batch = measure(records, warmup), _comes_at_once(workload)
    return {
        **metrics,
        "fell_back": metrics["fell_back"] and not is_batch,  # which has no warm-up to leave out
        **{f"{BROKEN}{slo}": share for slo, share in promises.broken(loaded, alone).items()},
        "load_rise": _rise(records, *(measured_ns or (0, stop_of(records)))),
        "enough_end": is_batch or _num_ended(records, 0) >= FEWEST_COUNTED,
        "growth_share": 0.0 if is_batch else _growth_share(records, measured_ns),
        **causes,
        "kept_share": promises.kept(loaded, alone),
        **{RATIO + name: ratio for name, ratio in ratios.items()},
    }


def _comes_at_once(workload: Workload) -> bool:
    return workload.arrival_ns is not None and not bool(workload.arrival_ns.any())


def _num_ended(records: Records, start_ns: int) -> int:
    """Requests that end from then on while others come, or are refused."""
    requests, stop_ns = records.requests, stop_of(records)
    is_over = requests["finished_ns"].between(start_ns, stop_ns, inclusive="right").fillna(False)
    is_refused = requests["finished_ns"].isna() & requests["arrival_ns"].between(start_ns, stop_ns)
    return int((is_over | is_refused).sum())


def _growth_share(records: Records, measured_ns: tuple[int, int] | None) -> float:
    """By how much those in the system become more, as a share of those that are sent."""
    start_ns, stop_ns = measured_ns or (0, stop_of(records))
    num_sent = int(sent(records, start_ns, stop_ns).sum())
    return (num_sent - _num_ended(records, start_ns)) / num_sent if num_sent else 0.0


def _rise(records: Records, start_ns: int, stop_ns: int) -> float:
    """How many times as many requests are sent in the second half of this time."""
    middle_ns = (start_ns + stop_ns) // 2
    num_first = int(sent(records, start_ns, middle_ns - 1).sum())
    num_second = int(sent(records, middle_ns, stop_ns).sum())
    return num_second / num_first if num_first else 1.0


def _seconds(records: Records, counted: np.ndarray | None) -> dict[str, FloatArray]:
    requests = records.requests if counted is None else records.requests[counted]
    return seconds(requests, records.num_outputs)


def _uncached(scenario: Scenario, system: str) -> Scenario:
    """Without a prefix cache: alone is what a request takes on an empty engine."""
    systems = {system: {**scenario.systems[system], "enable_prefix_caching": False}}
    return scenario.model_copy(update={"systems": systems})
