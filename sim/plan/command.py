"""What `kvsim plan` does: search, print the answer and what it rests on, keep the curve."""

import json
import math
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import Progress, TaskID

from sim.errors import InterruptedRun, UserError
from sim.parallel import Backend
from sim.plan.alternatives import alternatives
from sim.plan.data import as_data
from sim.plan.evaluate import Evaluator
from sim.plan.goals import find_goal, prepared
from sim.plan.neighbours import neighbours
from sim.plan.optimize import FINALISTS, look_around
from sim.plan.plan import Plan, make_plan, which_system
from sim.plan.prices import parse_prices
from sim.plan.report import (
    NEIGHBOUR_SEEDS,
    Beside,
    Findings,
    print_findings,
    unreachable,
)
from sim.plan.slo import Promises, parse_slos
from sim.progress import planner, progress_bar
from sim.run_command import assumptions
from sim.scenario import Scenario
from sim.scenario.file import dump_scenario
from sim.steady import Warmup
from sim.sweep.points import load_swept, parse_share
from sim.sweep.store import Store
from sim.whole_file import whole_file

_RUNS_OF_A_SEARCH = 100  # about: those of the starter's took 98 to 104


@dataclass(frozen=True)
class Options:
    """Of the command; see its help. trials: of --optimize; None: every alternative is searched."""

    slo: str
    find: str
    rate: float | None
    system: str | None
    attainment: str
    seeds: tuple[int, int]
    warmup: str
    gpu_price: str | None
    compare: bool
    trials: int | None
    backend: Backend
    out: Path
    as_json: bool
    quiet: bool


def plan_scenario(path: Path, settings: list[str], options: Options) -> None:
    """Raises UserError and WorkloadError for mistakes of the user, and where nothing will do."""
    prices = parse_prices(options.gpu_price)
    scenario = load_swept(path, ["sweep={}", *settings])  # its own sweep is for `kvsim run`
    folder = options.out / scenario.name
    if options.trials is not None and not scenario.sweep:
        raise UserError("--optimize: got no choice, expected --set with several values of a key")
    with progress_bar(quiet=options.quiet) as progress:
        task = progress.add_task(
            f"{scenario.name}: runs, about", total=_num_runs(scenario, options)
        )
        evaluator = _evaluator(scenario, folder, options, progress, task)
        try:
            findings = _searched(scenario, path, options, evaluator)
            _write(folder, findings)  # before anything else can go wrong
            progress.update(task, total=progress.tasks[task].completed)
            if options.compare and findings.best.answer is not None:
                findings = findings._replace(beside=_beside(findings.best, evaluator))
        except KeyboardInterrupt:
            kept = f"runs are kept in {folder / 'results'}, the same command goes on"
            raise InterruptedRun(f"interrupted; {kept}") from None
    if options.as_json:
        print(json.dumps(as_data(findings, prices), indent=1))
    else:
        print_findings(findings, prices)
    if not options.quiet:
        _print_notes(findings.best, folder)
    if findings.best.answer is None:
        raise UserError(unreachable(findings.best))


def _num_runs(scenario: Scenario, options: Options) -> int:
    """About, of the search."""
    num_alternatives = math.prod(len(values) for values in scenario.sweep.values())
    return _RUNS_OF_A_SEARCH * (num_alternatives if options.trials is None else FINALISTS)


def _evaluator(
    scenario: Scenario, folder: Path, options: Options, progress: Progress, task: TaskID
) -> Evaluator:
    return Evaluator(
        which_system(scenario, options.system),
        Promises(parse_slos(options.slo), parse_share("--attainment", options.attainment)),
        Store(folder / "results"),
        Warmup.parse(options.warmup),
        options.seeds,
        options.backend,
        on_planned=planner(progress, task),
        on_run=lambda: progress.advance(task),
    )


def _searched(scenario: Scenario, path: Path, options: Options, evaluator: Evaluator) -> Findings:
    """A plan of each alternative or, with --optimize, of the best of those tried coarsely."""
    find, system = options.find, evaluator.system
    prepare = partial(prepared, find=find, rate=options.rate)
    if options.trials is None:
        every = alternatives(scenario, str(path))
        finalists = [(labels, prepare(point)) for labels, point in every.possible]
        looks, impossible = [], every.impossible
    else:
        found = look_around(scenario, prepare, find, evaluator, options.trials)
        finalists = [(look.labels, look.scenario) for look in found.all[:FINALISTS]]
        looks, impossible = found.all[FINALISTS:], found.impossible
    plans = [
        (labels, make_plan(point, find_goal(point, find, system), evaluator))
        for labels, point in finalists
    ]
    best = max((plan for _, plan in plans), key=lambda plan: plan.merit)
    return Findings(plans, looks, impossible, best, [])


def _beside(best: Plan, evaluator: Evaluator) -> list[Beside]:
    """Each neighbour of the answer on the same requests as the answer itself, which comes first."""
    around = neighbours(best.scenario, best.system)
    found = evaluator.evaluate_all([best.scenario, *around.values()], NEIGHBOUR_SEEDS)
    return list(zip(["the answer", *around], found, strict=True))


def _print_notes(best: Plan, folder: Path) -> None:
    for line in assumptions(best.scenario)[1:]:
        print(line, file=sys.stderr)
    for doubt in best.doubts:
        print(f"warning: {doubt}; more workload.requests may change the answer", file=sys.stderr)
    print(f"written to {folder}", file=sys.stderr)


def _write(folder: Path, findings: Findings) -> None:
    from sim.plan.figure import curve  # matplotlib, slow to import
    from sim.plots.style import save

    best = findings.best
    with whole_file(folder / "curve.csv") as path:
        _curves(findings.plans).to_csv(path, index=False)
    with whole_file(folder / "curve.png") as path:
        save(curve(best), path)
    if best.answer is not None:
        with whole_file(folder / "answer.yaml") as path:
            path.write_text(dump_scenario(best.scenario), "utf-8")


def _curves(plans: list[tuple[dict[str, Any], Plan]]) -> pd.DataFrame:
    """The curves of all, with what was compared before each row."""
    curves = []
    for labels, plan in plans:
        curve = plan.curve()
        for place, (key, value) in enumerate(labels.items()):
            curve.insert(place, key, [value] * len(curve))
        curves.append(curve)
    return pd.concat(curves)
