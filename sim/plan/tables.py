"""The tables of a plan: promises, neighbours, alternatives."""

import math

from rich.table import Table

from sim.one_run import words as setting_words
from sim.plan.evaluate import GLANCE_RUNS
from sim.plan.evaluation import RATIO
from sim.plan.findings import NEIGHBOUR_SEEDS, Beside, Findings, Labels, Look
from sim.plan.goals import Goal
from sim.plan.plan import Plan, cost_per_hour, num_gpus, ranked_by
from sim.plan.words import cost_words
from sim.scenario.value_text import value_text
from sim.tables import number


def promises_table(plan: Plan) -> Table:
    """How far each is used up at the answer, and at the first value that breaks one."""
    interval = f"{100 * plan.at_answer.confidence:.4g} % interval"
    table = _new_table("promise", "of its limit", interval, "first broken")
    for name in plan.at_answer.names:
        mean, width = plan.at_answer.used(name)
        beyond = "-" if plan.beyond is None else _share(plan.beyond.used(name)[0])
        interval = f"{_share(max(mean - width, 0))} to {_share(mean + width)}"
        table.add_row(name, _share(mean), interval, beyond)
    return table


def neighbours_table(plan: Plan, beside: list[Beside]) -> Table:
    """Throughput only where it is not the load that decides it."""
    words = plan.goal.words(plan.boundary.kept or 0)
    title = f"one setting changed, at {words}, {NEIGHBOUR_SEEDS} runs each on the same requests"
    headings = ["", "promise used up most", "of its limit", "against the answer"]
    per_s = ["tokens/s"] if plan.is_closed_loop else []
    table = _new_table(*headings, *per_s, title=title)
    answer = beside[0][1]
    for name, found in beside:
        worst, ratio = found.worst
        apart = "-" if found is answer else _difference(*found.less(answer, RATIO + worst))
        mean = found.interval("output_tokens_per_s")[0]
        cells = [number(mean) if math.isfinite(mean) else "-"] if per_s else []
        table.add_row(name, worst, _share(ratio), apart, *cells)
    return table


def alternatives_table(findings: Findings) -> Table:
    """A row for each that was searched finely."""
    plans, prices = findings.plans, findings.prices
    keys, goal = list(plans[0][0]), findings.best.goal
    costs = ["an hour", "per million tokens"] if prices else []
    title = f"alternatives, the best first by {ranked_by(goal, prices)}"
    table = _new_table(
        *map(setting_words, keys), goal.heading, "GPUs", "a GPU", *costs, title=title
    )
    for labels, plan in plans:
        cells = ["none", str(plan.num_gpus), "-"]
        if plan.answer is not None:
            cells = [number(plan.answer), str(plan.num_gpus), _a_gpu(plan, plan.answer)]
        if prices:
            cells.append(cost_words(cost_per_hour(plan.scenario, prices)))
            has_none = plan.answer is None
            cells.append("-" if has_none else cost_words(plan.cost_per_million_tokens(prices)))
        table.add_row(*_values(labels, keys), *cells)
    return table


def looks_table(looks: list[Look], goal: Goal) -> Table:
    """With `>` or `<` before a value at which a promise is broken: what keeps them lies beyond."""
    keys = list(looks[0].labels)
    title = f"{len(looks)} more, tried coarsely ({GLANCE_RUNS} runs of few values)"
    table = _new_table(*map(setting_words, keys), goal.heading, "GPUs", title=title)
    for look in looks:
        sign = "" if look.is_kept else "< " if goal.is_highest else "> "
        value = f"{sign}{number(look.value)}"
        table.add_row(*_values(look.labels, keys), value, str(num_gpus(look.scenario)))
    return table


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


def _values(labels: Labels, keys: list[str]) -> list[str]:
    return [value_text(labels[key]) for key in keys]


def _share(ratio: float) -> str:
    return f"{ratio:.0%}" if ratio < 100 else "no end"


def _difference(mean: float, half_width: float) -> str:
    if not math.isfinite(mean):
        return "no end"
    size = f"{mean:+.0%}" if round(100 * mean) else "0%"
    return f"{size} ± {half_width:.0%}"


def _a_gpu(plan: Plan, answer: float) -> str:
    return number(answer / plan.num_gpus) if plan.goal.is_highest else "-"
