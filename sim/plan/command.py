"""What `kvsim plan` does: search, print the answer and what it rests on, keep the curve."""

import math
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from rich.progress import Progress, TaskID

from sim.about_file import about_text
from sim.errors import InterruptedRun, UserError
from sim.parallel import Backend
from sim.plan.alternatives import Alternative, all_ready, refuse_searched
from sim.plan.data import Data, as_data, as_json, finite, whole_plan
from sim.plan.evaluate import Evaluator
from sim.plan.findings import NEIGHBOUR_SEEDS, Beside, Findings, Impossible, Labels, Look
from sim.plan.goals import find_goal, prepared
from sim.plan.neighbours import neighbours
from sim.plan.optimize import FINALISTS, look_around
from sim.plan.plan import Plan, make_plan, which_system
from sim.plan.prices import Prices, parse_prices, refuse_unpriced
from sim.plan.report import print_findings
from sim.plan.slo import Promises, parse_slos
from sim.plan.words import unreachable
from sim.progress import planner, progress_bar
from sim.run_command import assumptions
from sim.scenario import Scenario
from sim.scenario.file import dump_scenario
from sim.scenario.value_text import value_text
from sim.steady import Warmup
from sim.sweep.points import load_swept, parse_share
from sim.sweep.store import Store
from sim.terminal import print_prose
from sim.whole_file import whole_file

_RUNS_OF_A_SEARCH = 100  # about: those of the starter's took 98 to 104


@dataclass(frozen=True)
class Options:
    """Of the command; see its help. trials: of --optimize; None: every alternative is searched."""

    slo: str
    find: str
    rate: float | None
    system: str | None
    attainment: str | None
    seeds: tuple[int, int]
    warmup: str
    gpu_price: str | None
    compare: bool
    trials: int | None
    backend: Backend
    out: Path
    as_json: bool
    quiet: bool

    def decisive(self, scenario: Path, settings: list[str]) -> Data:
        """Those that decide what is found, and what they are about, as plain data."""
        no_part = ("backend", "out", "as_json", "quiet")
        decisive = {name: value for name, value in vars(self).items() if name not in no_part}
        return {"scenario": str(scenario), "set": settings, **decisive}


def plan_scenario(path: Path, settings: list[str], options: Options) -> Path:
    """Returns its folder.

    Raises UserError and WorkloadError for mistakes of the user, and where nothing will do.
    """
    prices = parse_prices(options.gpu_price)
    # Its own sweep is for `kvsim run`.
    scenario = load_swept(path, ["sweep={}", *settings], checks_points=False)
    _refuse_contradictions(scenario, options, prices)
    folder = options.out / scenario.name
    if options.trials is not None and not scenario.sweep:
        raise UserError("--optimize: got no choice, expected --set with several values of a key")
    with progress_bar(quiet=options.quiet) as progress:
        task = progress.add_task(
            f"{scenario.name}: runs, about", total=_num_runs(scenario, options)
        )
        evaluator = _evaluator(scenario, folder, options, progress, task)
        try:
            findings = _searched(scenario, path, settings, options, evaluator, prices)
            _write(folder, findings, options.decisive(path, settings))  # before anything goes wrong
            progress.update(task, total=progress.tasks[task].completed)
            if options.compare and findings.best.answer is not None:
                findings = findings._replace(beside=_beside(findings.best, evaluator))
                _write(folder, findings, options.decisive(path, settings))
        except KeyboardInterrupt:
            kept = f"runs are kept in {folder / 'results'}, the same command goes on"
            raise InterruptedRun(f"interrupted; {kept}") from None
    if options.as_json:
        print(as_json(as_data(findings)))
    else:
        print_findings(findings)
    if not options.quiet:
        for line in (*_notes(findings.best), f"written to {folder}"):
            print_prose(line, sys.stderr)
    if findings.best.answer is None:
        raise UserError(unreachable(findings.best))
    return folder


def _refuse_contradictions(scenario: Scenario, options: Options, prices: Prices) -> None:
    refuse_unpriced(prices, scenario.sweep.get("hardware", [scenario.hardware]))
    refuse_searched(scenario.sweep, f"--find {options.find}", options.find)
    if options.rate is not None:
        refuse_searched(scenario.sweep, "--rate", "rate")


def _num_runs(scenario: Scenario, options: Options) -> int:
    """About, of the search."""
    num_alternatives = math.prod(len(values) for values in scenario.sweep.values())
    return _RUNS_OF_A_SEARCH * (num_alternatives if options.trials is None else FINALISTS)


def _evaluator(
    scenario: Scenario, folder: Path, options: Options, progress: Progress, task: TaskID
) -> Evaluator:
    return Evaluator(
        which_system(scenario, options.system),
        _promises(options),
        Store(folder / "results"),
        Warmup.parse(options.warmup),
        options.seeds,
        options.backend,
        on_planned=planner(progress, task),
        on_run=lambda: progress.advance(task),
    )


def _promises(options: Options) -> Promises:
    slos = parse_slos(options.slo)
    if options.attainment is None:
        return Promises(slos)
    if all(slo.statistic for slo in slos):
        raise UserError(
            f"--attainment: got {options.attainment} for {options.slo}, expected a promise of each "
            "request, such as ttft<1s"
        )
    return Promises(slos, parse_share("--attainment", options.attainment))


def _searched(
    scenario: Scenario,
    path: Path,
    settings: list[str],
    options: Options,
    evaluator: Evaluator,
    prices: Prices,
) -> Findings:
    """A plan of each alternative or, with --optimize, of the best of those tried coarsely."""
    source = f"{path} (with --set)" if settings else str(path)
    alternatives, looks, impossible = _alternatives(scenario, source, options, evaluator, prices)
    plans = [(labels, make_plan(goal, evaluator)) for labels, goal in alternatives]
    plans.sort(key=lambda found: (-found[1].merit(prices), found[1].at_answer.worst[1]))
    return Findings(plans, looks, impossible, [], prices)


def _alternatives(
    scenario: Scenario, source: str, options: Options, evaluator: Evaluator, prices: Prices
) -> tuple[list[Alternative], list[Look], list[Impossible]]:
    """What is to be searched finely, with --optimize what was coarsely only, what cannot be."""
    prepare = partial(prepared, find=options.find, rate=options.rate)
    if options.trials is None:
        alternatives, impossible = all_ready(
            scenario, prepare, options.find, evaluator.system, source
        )
        return alternatives, [], impossible
    looks, impossible = look_around(
        scenario, prepare, options.find, evaluator, options.trials, prices
    )
    best = [
        (look.labels, find_goal(look.scenario, options.find, evaluator.system))
        for look in looks[:FINALISTS]
    ]
    return best, looks[FINALISTS:], impossible


def _beside(best: Plan, evaluator: Evaluator) -> list[Beside]:
    """Each neighbour of the answer on the same requests as the answer itself, which comes first."""
    around = neighbours(best.scenario, best.system)
    found = evaluator.evaluate_all([best.scenario, *around.values()], NEIGHBOUR_SEEDS)
    return list(zip(["the answer", *around], found, strict=True))


def _notes(plan: Plan) -> list[str]:
    """What step times and memory of the planned system rest on."""
    only = {plan.system: plan.scenario.systems[plan.system]}
    return assumptions(plan.scenario.model_copy(update={"systems": only}))[1:]


def _write(folder: Path, findings: Findings, options: Data) -> None:
    from sim.plan.figure import curve  # matplotlib, slow to import
    from sim.plots.style import save

    best = findings.best
    with whole_file(folder / "curve.csv") as path:
        _curves(findings.plans).to_csv(path, index=False)
    with whole_file(folder / "curve.png") as path:
        save(curve(best), path)
    if best.answer is None:
        (folder / "answer.yaml").unlink(missing_ok=True)  # of an earlier plan
    else:
        with whole_file(folder / "answer.yaml") as path:
            path.write_text(dump_scenario(best.scenario), "utf-8")
    with whole_file(folder / "plan.json") as path:
        whole = finite(whole_plan(findings, options, _notes(best)))
        path.write_text(about_text(whole, folder, ["curve.csv", "answer.yaml"]), "utf-8")


def _curves(plans: list[tuple[Labels, Plan]]) -> pd.DataFrame:
    """The curves of all, with what was compared before each row."""
    curves = []
    for labels, plan in plans:
        curve = plan.curve()
        for place, (key, value) in enumerate(labels.items()):
            curve.insert(place, key, [value_text(value)] * len(curve))
        curves.append(curve)
    return pd.concat(curves)
