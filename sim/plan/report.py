"""What a plan has found, in words, tables and data."""

import math
from typing import Any, NamedTuple

from rich.table import Table

from sim.plan.evaluate import Evaluation
from sim.plan.flags import vllm_command
from sim.plan.goals import Goal
from sim.plan.optimize import RUNS, Look, Looks
from sim.plan.plan import Plan, cost_per_hour, num_gpus, ranked_by
from sim.plan.prices import Prices
from sim.steady import FEWEST_COUNTED
from sim.tables import number, print_table

Beside = tuple[str, Evaluation]  # a setting as one writes it, and its runs
NEIGHBOUR_SEEDS = 4


class Findings(NamedTuple):
    """plans: with the values that make each one, by key path. looks: what was tried coarsely.

    best: of the plans. beside: its neighbours, itself first; none if they are not wanted.
    """

    plans: list[tuple[dict[str, Any], Plan]]
    looks: Looks
    best: Plan
    beside: list[Beside]


def unreachable(plan: Plan) -> str:
    """One line that says why there is no answer."""
    goal = plan.goal
    name, ratio = plan.at_answer.worst
    place = min(plan.boundary.tried)
    if ratio <= 1 and not plan.at_answer.is_steady:
        return (
            f"no answer: even at {goal.words(place)} fewer than {FEWEST_COUNTED} of "
            f"{plan.at_answer.rows[0]['requests']} requests end while others come, so no run is "
            "steady; expected more workload.requests"
        )
    return (
        f"no {goal.name} keeps {name}: even at {goal.words(place)} it comes to {ratio:.3g} of its "
        f"limit, mean of {len(plan.at_answer.rows)} runs"
    )


def as_data(findings: Findings, prices: Prices) -> dict[str, Any]:
    """What `print_findings` says, for machines."""
    plans, looks, best, beside = findings
    return {
        "alternatives": [
            {"settings": labels, **_plan_data(plan, prices)} for labels, plan in plans
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
        "ranked_by": ranked_by(best.goal, prices),
        "warnings": best.doubts,
        "best": {"settings": plans[0][0], **_plan_data(best, prices)},
        "neighbours": [
            {"setting": name, "promise": found.worst[0], "used": _finite(found.worst[1])}
            for name, found in beside
        ],
        "vllm": None if best.answer is None else vllm_command(best.scenario, best.system),
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _plan_data(plan: Plan, prices: Prices) -> dict[str, Any]:
    broken = plan.boundary.broken
    return {
        "find": plan.goal.name,
        "answer": plan.answer,
        "broken_at": None if broken is None else plan.goal.values[broken],
        "gpus": plan.num_gpus,
        "promises": {
            name: {"used": _finite(used), "half_width": _finite(half_width)}
            for name in plan.at_answer.names
            for used, half_width in [plan.value(plan.at_answer, name)]
        },
        "output_tokens_per_s": plan.at_answer.interval("output_tokens_per_s")[0],
        "kept_share": plan.at_answer.interval("kept_share")[0],
        "seeds": len(plan.at_answer.rows),
        "constraint": plan.constraint,
        "cost_per_hour": cost_per_hour(plan.scenario, prices),
        "cost_per_million_output_tokens": plan.cost_per_million_tokens(prices),
    }


def print_findings(findings: Findings, prices: Prices) -> None:
    """The answer and what it rests on. prices: empty: nothing is said of costs."""
    plans, looks, best, beside = findings
    if len(plans) > 1:
        print_table(_alternatives_table(plans, prices))
        if best.answer is not None:
            print(f"the best: {_settings(plans[0][0])}")
    if looks.all:
        print_table(_looks_table(looks.all, best.goal))
    if looks.num_impossible:
        print(f"combinations that cannot be: {looks.num_impossible}\n")
    if best.answer is None:
        return
    for line in _answer_lines(best, prices):
        print(line)
    for doubt in best.doubts:
        print(f"warning: {doubt}")
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
        lines.append(
            f"{_cost(cost_per_hour(plan.scenario, prices))} an hour, "
            f"{_cost(plan.cost_per_million_tokens(prices))} per million output tokens"
        )
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
    title = f"one setting changed, at {words}, {NEIGHBOUR_SEEDS} runs each on the same requests"
    table = _new_table("", "promise used up most", "of its limit", "tokens/s", title=title)
    for name, found in beside:
        worst, ratio = found.worst
        per_s = number(found.interval("output_tokens_per_s")[0])
        table.add_row(name, worst, _share(ratio), per_s)
    return table


def _cost(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.3g}"


def _a_gpu(plan: Plan, answer: float) -> str:
    return number(answer / plan.num_gpus) if plan.goal.is_highest else "-"


def _goal_heading(goal: Goal) -> str:
    return goal.name if goal.name == goal.unit else f"{goal.name}, {goal.unit}"


def _alternatives_table(plans: list[tuple[dict[str, Any], Plan]], prices: Prices) -> Table:
    keys = list(plans[0][0])
    goal = plans[0][1].goal
    headings = [key.rpartition(".")[2] for key in keys]
    costs = ["an hour", "per million tokens"] if prices else []
    title = f"alternatives, the best first by {ranked_by(goal, prices)}"
    headings += [_goal_heading(goal), "GPUs", "a GPU", *costs]
    table = _new_table(*headings, title=title)
    for labels, plan in plans:
        answer, gpus = plan.answer, plan.num_gpus
        cells = ["none", str(gpus), "-"]
        if answer is not None:
            cells = [number(answer), str(gpus), _a_gpu(plan, answer)]
        if prices:
            cells.append(_cost(cost_per_hour(plan.scenario, prices)))
            cells.append("-" if answer is None else _cost(plan.cost_per_million_tokens(prices)))
        table.add_row(*(str(labels[key]) for key in keys), *cells)
    return table


def _settings(labels: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())


def _looks_table(looks: list[Look], goal: Goal) -> Table:
    """With `>` or `<` before a value at which a promise is broken: what keeps them lies beyond."""
    keys = list(looks[0].labels)
    headings = [key.rpartition(".")[2] for key in keys]
    title = f"{len(looks)} more, tried coarsely ({RUNS} runs of few values)"
    table = _new_table(*headings, _goal_heading(goal), "GPUs", title=title)
    for look in looks:
        sign = "" if look.is_kept else "< " if goal.is_highest else "> "
        labels = (str(look.labels[key]) for key in keys)
        table.add_row(*labels, f"{sign}{number(look.value)}", str(num_gpus(look.scenario)))
    return table
