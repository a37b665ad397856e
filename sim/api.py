"""For notebooks and programs: `Scenario.load`, `simulate`, `sweep`, `plan`; results as pandas.

`notebooks/` shows them at work.

>>> from sim.api import Scenario, simulate
>>> run = simulate(Scenario.load("scenarios/chat.yaml", "sweep={}"))  # doctest: +SKIP
>>> run.summary[["system", "output_tokens_per_s"]]  # doctest: +SKIP
"""

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sim.errors import UserError
from sim.experiment import Result, keys_of, plan_jobs, run_jobs
from sim.metrics import half_width_95, summarise
from sim.plan.evaluate import Evaluator
from sim.plan.flags import vllm_command
from sim.plan.goals import find_goal, prepared
from sim.plan.plan import Plan, make_plan, which_system
from sim.plan.slo import Promises, parse_slos
from sim.scenario import Scenario
from sim.scenario.deployed import build_kv_size
from sim.scenario.file import with_settings
from sim.scenario.mistakes import shorten, validated
from sim.steady import Warmup
from sim.sweep.points import plan_points
from sim.sweep.run import Runner, as_frame
from sim.sweep.store import Store

__all__ = [
    "Plan",
    "Run",
    "Scenario",
    "build_kv_size",
    "intervals",
    "plan",
    "simulate",
    "sweep",
    "vllm_command",
]


@dataclass(frozen=True)
class Run:
    """What `simulate` leaves, of all systems, points and seeds of a scenario.

    summary: a row for each, with the columns of `summary.csv` (docs/reference/metrics.md).
    results: of each the job and its records: `records.requests` and `records.steps` are tables.
    """

    summary: pd.DataFrame
    results: tuple[Result, ...]


def simulate(scenario: Scenario) -> Run:
    """Every system at every point of the scenario's sweep with every seed, over all cores.

    Raises UserError and WorkloadError for what the scenario names and cannot be had.
    """
    results = run_jobs(plan_jobs(scenario), lambda _: None)
    rows = [{**keys_of(result.job), **summarise(result.records)} for result in results]
    return Run(pd.DataFrame(rows), tuple(results))


def sweep(
    scenario: Scenario,
    values: Mapping[str, Iterable[Any]],
    *,
    seeds: int = 1,
    warmup: str = "auto",
    folder: Path | str | None = None,
) -> pd.DataFrame:
    """Metrics of every system at every combination of values, a row for each seed.

    values: by key path, such as {"engine.block_size": [8, 16]}. warmup: `auto` (MSER-5), `none`,
    or seconds. folder: where results are kept, and found again by what decides them.

    Raises UserError and WorkloadError as `simulate` does, and for values that are none.
    """
    if seeds < 1:
        raise UserError(f"seeds: got {seeds}, expected 1 or more")
    swept = {key: _listed(key, choice) for key, choice in values.items()}
    full = validated({**scenario.model_dump(exclude_unset=True), "sweep": swept}, "values")
    jobs = plan_points(full, None, range(scenario.seed, scenario.seed + seeds))
    with _kept(folder) as kept:
        return as_frame(Runner(Store(Path(kept)), Warmup.parse(warmup)).run(jobs))


def _listed(key: str, choice: Iterable[Any]) -> list[Any]:
    """Raises UserError for a single value, of which a text would be one of letters."""
    if isinstance(choice, str | Mapping) or not isinstance(choice, Iterable):
        raise UserError(f"values: {key}: got {shorten(choice)}, expected a list of values")
    return list(choice)


def intervals(frame: pd.DataFrame, metrics: Iterable[str]) -> pd.DataFrame:
    """Mean over the seeds, and half the width of its 95 % interval in a column METRIC_half_width.

    frame: a `Run.summary`, or of `sweep` or `Plan.curve`: what stands before `seed` tells the rows
    apart. One seed has no interval: nan.
    """
    keys = list(frame.columns[: frame.columns.get_loc("seed")])
    groups = frame.groupby(keys, sort=False, dropna=False)
    columns = {}
    for metric in metrics:
        columns[metric] = groups[metric].mean()
        columns[f"{metric}_half_width"] = groups[metric].agg(_half_width)
    return pd.DataFrame(columns).reset_index()


def _half_width(values: "pd.Series[float]") -> float | None:
    return half_width_95(np.asarray(values.dropna(), np.float64))


def plan(
    scenario: Scenario,
    slo: str,
    *,
    find: str = "rate",
    rate: float | None = None,
    system: str | None = None,
    attainment: float = 0.9,
    seeds: tuple[int, int] = (4, 10),
    warmup: str = "auto",
    folder: Path | str | None = None,
) -> Plan:
    """The highest rate or concurrency, or the fewest replicas or blocks, that keep promises.

    slo: such as "ttft_p99<1s,tpot_p99<50ms". rate: to be served, in requests or sessions per
    second. seeds: runs of a value, at first and at most. See docs/planning.md, and `Plan` for the
    answer, `constraint`, `curve()` and `scenario`, whose `vllm_command` are the flags.

    Raises UserError and WorkloadError as `simulate` does, and for promises that are none.
    """
    scenario = prepared(with_settings(scenario, {}), find, rate)
    promises = Promises(parse_slos(slo), attainment)
    name = which_system(scenario, system)
    with _kept(folder) as kept:
        evaluator = Evaluator(name, promises, Store(Path(kept)), Warmup.parse(warmup), seeds)
        goal = find_goal(scenario, find, name)
        whole = replace(goal, values=tuple(map(goal.plain, goal.values)))
        return make_plan(whole, evaluator)


def _kept(folder: Path | str | None) -> AbstractContextManager[Path | str]:
    """A folder that stays, or one that goes."""
    return tempfile.TemporaryDirectory() if folder is None else nullcontext(folder)
