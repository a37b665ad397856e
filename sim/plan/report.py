"""What a plan has found, in words, tables and data."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rich.table import Table

from sim.errors import UserError
from sim.plan.evaluate import GLANCE_RUNS
from sim.plan.evaluation import RATIO, Evaluation
from sim.plan.flags import vllm_command
from sim.plan.goals import Goal
from sim.plan.optimize import Look
from sim.plan.plan import Plan, num_gpus
from sim.plan.prices import Prices, price_of
from sim.tables import number
from sim.terminal import print_table

Beside = tuple[str, Evaluation]  # a setting as one writes it, and its runs
NEIGHBOUR_SEEDS = 4


class Findings(NamedTuple):
    """plans: with the values that make each one, by key path. looks: what was only tried coarsely.

    impossible: why combinations cannot be. best: of the plans. beside: its neighbours, itself
    first; none if they are not wanted.
    """

    plans: list[tuple[dict[str, Any], Plan]]
    looks: list[Look]
    impossible: list[UserError]
    best: Plan
    beside: list[Beside]


def unreachable(plan: Plan) -> str:
    """One line that says why there is no answer."""
    goal = plan.goal
    name, ratio = plan.at_answer.worst
    place = min(plan.boundary.tried)
    return (
        f"no {goal.name} keeps {name}: even at {goal.words(place)} it comes to {ratio:.3g} of its "
        f"limit, mean of {len(plan.at_answer.rows)} runs"
    )


def print_findings(findings: Findings, prices: Prices) -> None:
    """The answer and what it rests on. prices: empty: nothing is said of costs."""
    plans, looks, impossible, best, beside = findings
    if len(plans) > 1:
        print_table(_alternatives_table(plans, prices), num_names=max(len(plans[0][0]), 1))
    if looks:
        print_table(_looks_table(looks, best.goal), num_names=len(looks[0].labels))
    if impossible:
        print(f"combinations that cannot be: {len(impossible)}; the first: {impossible[0]}\n")
    if best.answer is None:
        return
    for line in _answer_lines(best, prices):
        print(line)
    print()
    print_table(_promises_table(best))
    if beside:
        print_table(_neighbours_table(best, beside))
    print("as options of vLLM:\n")
    print(vllm_command(best.scenario, best.system))


def _answer_lines(plan: Plan, prices: Prices) -> list[str]:
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
    if prices:
        lines.append(f"{_cost(plan, prices)} per million output tokens")
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
    decided = f"{plan.at_answer.confidence * 100:.4g} % interval"
    table = _new_table("promise", "of its limit", decided, "first broken")
    for name in plan.at_answer.names:
        mean, width = plan.at_answer.used(name)
        beyond = "-" if plan.beyond is None else _share(plan.beyond.used(name)[0])
        interval = f"{_share(max(mean - width, 0))} to {_share(mean + width)}"
        table.add_row(name, _share(mean), interval, beyond)
    return table


def _share(ratio: float) -> str:
    return f"{ratio:.0%}" if ratio < 100 else "no end"


def _neighbours_table(plan: Plan, beside: list[Beside]) -> Table:
    words = plan.goal.words(plan.boundary.kept or 0)
    runs = f"{NEIGHBOUR_SEEDS} runs each on the same requests; ± of 95 %"
    title = f"one setting changed, at {words}, {runs}"
    less = "less the answer's"
    headings = ("promise used up most", "of its limit", less, "tokens/s", less)
    table = _new_table("", *headings, title=title)
    answer = beside[0][1]
    for name, found in beside:
        worst, ratio = found.worst
        used = per_s = "-"
        if found is not answer:
            used = _difference(*found.less(answer, RATIO + worst), _share)
            per_s = _difference(*found.less(answer, "output_tokens_per_s"), number)
        total = number(found.mean("output_tokens_per_s"))
        table.add_row(name, worst, _share(ratio), used, total, per_s)
    return table


def _difference(mean: float, half_width: float, words: Callable[[float], str]) -> str:
    if math.isnan(mean):
        return "-"
    return f"{'-' if mean < 0 else '+'}{words(abs(mean))} ± {words(half_width)}"


def _cost(plan: Plan, prices: Prices) -> str:
    price = price_of(prices, plan.scenario.hardware)
    if price is None or plan.answer is None:
        return "-"
    cost = plan.cost_per_million_tokens(price)
    return "-" if cost is None else f"{cost:.3g}"


def _a_gpu(plan: Plan, answer: float) -> str:
    return number(answer / plan.num_gpus) if plan.goal.is_highest else "-"


def _alternatives_table(plans: list[tuple[dict[str, Any], Plan]], prices: Prices) -> Table:
    keys = list(plans[0][0])
    goal = plans[0][1].goal
    headings = [key.rpartition(".")[2] for key in keys]
    costs = ["per million tokens"] if prices else []
    table = _new_table(*headings, f"{goal.name}, {goal.unit}", "GPUs", "a GPU", *costs)
    for labels, plan in plans:
        answer, gpus = plan.answer, plan.num_gpus
        cells = ["none", str(gpus), "-"]
        if answer is not None:
            cells = [number(answer), str(gpus), _a_gpu(plan, answer)]
        if prices:
            cells.append(_cost(plan, prices))
        table.add_row(*(str(labels[key]) for key in keys), *cells)
    return table


def _looks_table(looks: list[Look], goal: Goal) -> Table:
    """With `>` or `<` before a value at which a promise is broken: what keeps them lies beyond."""
    keys = list(looks[0].labels)
    headings = [key.rpartition(".")[2] for key in keys]
    title = f"{len(looks)} more, tried coarsely ({GLANCE_RUNS} runs of few values)"
    table = _new_table(*headings, f"{goal.name}, {goal.unit}", "GPUs", title=title)
    for look in looks:
        sign = "" if look.is_kept else "< " if goal.is_highest else "> "
        labels = (str(look.labels[key]) for key in keys)
        table.add_row(*labels, f"{sign}{number(look.value)}", str(num_gpus(look.scenario)))
    return table
