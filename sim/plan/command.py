"""What `kvsim plan` does: search, print the answer and what it rests on, keep the curve."""

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table

from sim.errors import InterruptedRun, UserError
from sim.parallel import Backend
from sim.plan.evaluate import Evaluation, Evaluator
from sim.plan.flags import vllm_command
from sim.plan.goals import Goal, at_rate, find_goal, with_replications
from sim.plan.neighbours import neighbours
from sim.plan.optimize import FINALISTS, RUNS, Look, Looks, look_around
from sim.plan.plan import Plan, make_plan, num_gpus
from sim.plan.slo import Promises, parse_slos
from sim.progress import progress_bar
from sim.run_command import assumptions
from sim.scenario import Scenario
from sim.scenario.file import dump_scenario, points
from sim.steady import Warmup
from sim.sweep.points import load_swept, parse_share
from sim.sweep.store import Store
from sim.tables import number, print_table
from sim.whole_file import whole_file

Alternative = tuple[dict[str, Any], Scenario]  # the values that make it one, by key path
Beside = tuple[str, Evaluation]  # a setting as one writes it, and its runs
_NEIGHBOUR_SEEDS = 4


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
    promises = Promises(parse_slos(options.slo), parse_share("--attainment", options.attainment))
    _price(options.gpu_price, "")  # its mistakes before the work
    scenario = load_swept(path, ["sweep={}", *settings])  # its own sweep is for `kvsim run`
    system = _system(scenario, options.system)
    folder = options.out / scenario.name
    if options.trials is not None and not scenario.sweep:
        raise UserError("--optimize: got no choice, expected --set with several values of a key")
    with progress_bar(quiet=options.quiet) as progress:
        task = progress.add_task(f"{scenario.name}: runs", total=None)
        evaluator = Evaluator(
            system,
            promises,
            Store(folder / "results"),
            Warmup.parse(options.warmup),
            options.seeds,
            options.backend,
            on_run=lambda: progress.advance(task),
        )
        try:
            alternatives, looks = _alternatives(scenario, path, options, evaluator)
            plans = [
                (labels, make_plan(point, find_goal(point, options.find), evaluator))
                for labels, point in alternatives
            ]
            best = max((plan for _, plan in plans), key=lambda plan: plan.merit)
            beside = _beside(best, evaluator) if options.compare and best.answer else []
        except KeyboardInterrupt:
            kept = f"runs are kept in {folder / 'results'}, the same command goes on"
            raise InterruptedRun(f"interrupted; {kept}") from None
    _write(folder, plans, best)
    if options.as_json:
        print(json.dumps(_as_data(plans, looks, best, beside, options), indent=1))
    else:
        _print(plans, looks, best, beside, options)
    if not options.quiet:
        for line in assumptions(best.scenario)[1:]:
            print(line, file=sys.stderr)
        for doubt in best.doubts:
            print(
                f"warning: {doubt}; more workload.requests may change the answer", file=sys.stderr
            )
        print(f"written to {folder}", file=sys.stderr)
    if best.answer is None:
        raise UserError(_unreachable(best))


def _system(scenario: Scenario, name: str | None) -> str:
    if name is None and len(scenario.systems) == 1:
        return next(iter(scenario.systems))
    if name not in scenario.systems:
        raise UserError(f"--system: got {name}, expected one of {', '.join(scenario.systems)}")
    return name


def _prepared(scenario: Scenario, options: Options) -> Scenario:
    if options.rate is not None:
        if options.find in ("rate", "concurrency"):
            raise UserError(f"--rate: got one with --find {options.find}, expected none")
        scenario = at_rate(scenario, options.rate)
    return with_replications(scenario)


def _alternatives(
    scenario: Scenario, path: Path, options: Options, evaluator: Evaluator
) -> tuple[list[Alternative], Looks]:
    """What is to be searched finely, and with --optimize what was coarsely only."""
    prepare = partial(_prepared, options=options)
    if options.trials is None:
        every = points(scenario, str(path))
        return [(labels, prepare(point)) for labels, point in every], Looks([], 0)
    looks = look_around(scenario, prepare, options.find, evaluator, options.trials)
    best, rest = looks.all[:FINALISTS], looks.all[FINALISTS:]
    return [(look.labels, look.scenario) for look in best], replace(looks, all=rest)


def _beside(best: Plan, evaluator: Evaluator) -> list[Beside]:
    """Each neighbour of the answer on the same requests as the answer itself, which comes first."""
    around = neighbours(best.scenario, best.system)
    found = evaluator.evaluate_all([best.scenario, *around.values()], _NEIGHBOUR_SEEDS)
    return list(zip(["the answer", *around], found, strict=True))


def _unreachable(plan: Plan) -> str:
    """One line that says why there is no answer."""
    goal = plan.goal
    name, ratio = plan.at_answer.worst
    place = min(plan.boundary.tried)
    return (
        f"no {goal.name} keeps {name}: even at {goal.words(place)} it comes to {ratio:.3g} of its "
        f"limit, mean of {len(plan.at_answer.rows)} runs"
    )


def _write(folder: Path, plans: list[tuple[dict[str, Any], Plan]], best: Plan) -> None:
    from sim.plan.figure import curve  # matplotlib, slow to import
    from sim.plots.style import save

    with whole_file(folder / "curve.csv") as path:
        _curves(plans).to_csv(path, index=False)
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


def _as_data(
    plans: list[tuple[dict[str, Any], Plan]],
    looks: Looks,
    best: Plan,
    beside: list[Beside],
    options: Options,
) -> dict[str, Any]:
    return {
        "alternatives": [
            {"settings": labels, **_plan_data(plan, options)} for labels, plan in plans
        ],
        "tried_coarsely": [
            {
                "settings": look.labels,
                "value": look.value,
                "kept": look.is_kept,
                "gpus": num_gpus(look.scenario),
            }
            for look in looks.all
        ],
        "impossible": looks.num_impossible,
        "best": _plan_data(best, options),
        "neighbours": [
            {"setting": name, "promise": found.worst[0], "used": found.worst[1]}
            for name, found in beside
        ],
        "vllm": None if best.answer is None else vllm_command(best.scenario, best.system),
    }


def _plan_data(plan: Plan, options: Options) -> dict[str, Any]:
    price = _price(options.gpu_price, plan.scenario.hardware)
    cost = None if price is None else plan.cost_per_million_tokens(price)
    broken = plan.boundary.broken
    return {
        "find": plan.goal.name,
        "answer": plan.answer,
        "broken_at": None if broken is None else plan.goal.values[broken],
        "gpus": plan.num_gpus,
        "promises": {
            name: dict(zip(("used", "half_width"), plan.value(plan.at_answer, name), strict=True))
            for name in plan.at_answer.names
        },
        "output_tokens_per_s": plan.at_answer.interval("output_tokens_per_s")[0],
        "kept_share": plan.at_answer.interval("kept_share")[0],
        "seeds": len(plan.at_answer.rows),
        "constraint": plan.constraint,
        "cost_per_million_output_tokens": cost,
    }


def _print(
    plans: list[tuple[dict[str, Any], Plan]],
    looks: Looks,
    best: Plan,
    beside: list[Beside],
    options: Options,
) -> None:
    if len(plans) > 1:
        print_table(_alternatives_table(plans, options))
    if looks.all:
        print_table(_looks_table(looks.all, best.goal))
    if looks.num_impossible:
        print(f"combinations that cannot be: {looks.num_impossible}\n")
    if best.answer is None:
        return
    for line in _answer_lines(best, options):
        print(line)
    print()
    print_table(_promises_table(best))
    if beside:
        print_table(_neighbours_table(best, beside))
    print("as options of vLLM:\n")
    print(vllm_command(best.scenario, best.system))


def _answer_lines(plan: Plan, options: Options) -> list[str]:
    boundary, goal = plan.boundary, plan.goal
    assert boundary.kept is not None
    which = "highest" if goal.is_highest else "lowest"
    lines = [f"{which} {goal.name} that keeps every promise: {goal.words(boundary.kept)}"]
    if boundary.broken is None:
        lines.append("no value up to the last that was tried breaks one")
    else:
        between = boundary.broken - boundary.kept - 1
        unsure = "" if not between else f"; of {between} values between the runs do not tell"
        lines.append(f"shown to break one: {goal.words(boundary.broken)}{unsure}")
    lines.append(f"what binds there: {plan.constraint}")
    per_s, width = plan.at_answer.interval("output_tokens_per_s")
    lines.append(
        f"at the answer {number(per_s)} ± {number(width)} output tokens/s on "
        f"{plan.num_gpus} GPU{'s' if plan.num_gpus > 1 else ''}; "
        f"{plan.at_answer.interval('kept_share')[0]:.1%} of the requests keep every limit"
    )
    if options.gpu_price is not None:
        lines.append(f"{_cost(plan, options)} per million output tokens")
    return lines


def _new_table(*headings: str, title: str | None = None) -> Table:
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table


def _promises_table(plan: Plan) -> Table:
    table = _new_table("promise", "of its limit", "95 % interval", "first broken")
    for name in plan.at_answer.names:
        mean, width = plan.value(plan.at_answer, name)
        beyond = "-" if plan.beyond is None else _share(plan.value(plan.beyond, name)[0])
        interval = f"{_share(max(mean - width, 0))} to {_share(mean + width)}"
        table.add_row(name, _share(mean), interval, beyond)
    return table


def _share(ratio: float) -> str:
    return f"{ratio:.0%}" if ratio < 100 else "no end"


def _neighbours_table(plan: Plan, beside: list[Beside]) -> Table:
    words = plan.goal.words(plan.boundary.kept or 0)
    title = f"one setting changed, at {words}, {_NEIGHBOUR_SEEDS} runs each on the same requests"
    table = _new_table("", "promise used up most", "of its limit", "tokens/s", title=title)
    for name, found in beside:
        worst, ratio = found.worst
        per_s = number(found.interval("output_tokens_per_s")[0])
        table.add_row(name, worst, _share(ratio), per_s)
    return table


def _cost(plan: Plan, options: Options) -> str:
    price = _price(options.gpu_price, plan.scenario.hardware)
    if price is None or plan.answer is None:
        return "-"
    cost = plan.cost_per_million_tokens(price)
    return "-" if cost is None else f"{cost:.3g}"


def _price(text: str | None, hardware: str) -> float | None:
    """Of a GPU hour: `3`, or by its name in the catalogue, `h100-80gb=3,a100-80gb=1.5`."""
    if text is None:
        return None
    prices = dict(part.partition("=")[::2] for part in text.split(",") if "=" in part)
    word = prices.get(hardware) if prices else text
    if word is None:
        return None
    try:
        price = float(word)
    except ValueError:
        price = -1.0
    if not 0 <= price < 1e9:
        raise UserError(f"--gpu-price: got {text!r}, expected such as 3 or {hardware}=3")
    return price


def _a_gpu(plan: Plan, answer: float) -> str:
    return number(answer / plan.num_gpus) if plan.goal.is_highest else "-"


def _alternatives_table(plans: list[tuple[dict[str, Any], Plan]], options: Options) -> Table:
    keys = list(plans[0][0])
    goal = plans[0][1].goal
    headings = [key.rpartition(".")[2] for key in keys]
    costs = ["per million tokens"] if options.gpu_price is not None else []
    table = _new_table(*headings, f"{goal.name}, {goal.unit}", "GPUs", "a GPU", *costs)
    for labels, plan in plans:
        answer, gpus = plan.answer, plan.num_gpus
        cells = ["none", str(gpus), "-"]
        if answer is not None:
            cells = [number(answer), str(gpus), _a_gpu(plan, answer)]
        if options.gpu_price is not None:
            cells.append(_cost(plan, options))
        table.add_row(*(str(labels[key]) for key in keys), *cells)
    return table


def _looks_table(looks: list[Look], goal: Goal) -> Table:
    """With `>` or `<` before a value at which a promise is broken: what keeps them lies beyond."""
    keys = list(looks[0].labels)
    headings = [key.rpartition(".")[2] for key in keys]
    title = f"{len(looks)} more, tried coarsely ({RUNS} runs of few values)"
    table = _new_table(*headings, f"{goal.name}, {goal.unit}", "GPUs", title=title)
    for look in looks:
        sign = "" if look.is_kept else "< " if goal.is_highest else "> "
        labels = (str(look.labels[key]) for key in keys)
        table.add_row(*labels, f"{sign}{number(look.value)}", str(num_gpus(look.scenario)))
    return table
