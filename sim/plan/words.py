"""The answer of a plan in lines."""

from sim.plan.findings import Findings, Impossible, Labels
from sim.plan.plan import Plan, cost_per_hour
from sim.plan.prices import Prices
from sim.scenario.value_text import value_text
from sim.sources import build_workload
from sim.steady import FEWEST_COUNTED
from sim.tables import with_interval

_MOST_IMPOSSIBLE = 5  # that are shown


def unreachable(plan: Plan) -> str:
    """One line that says why there is no answer."""
    goal, found = plan.goal, plan.at_answer
    name, ratio = found.worst
    place = min(plan.boundary.tried)
    even_at = f"even at {goal.words(place)}{goal.first if place == 0 else ''}"
    if ratio <= 1 and not found.is_steady:
        why = f"fewer than {FEWEST_COUNTED} of {found.rows[0]['requests']} requests end"
        if found.do_enough_end:
            why = f"{found.growth_share:.0%} of the requests that come do not end"
        return (
            f"no answer: {even_at} {why} while others come, so nothing is steady; expected more "
            "workload.requests"
        )
    none_keeps = f"no {goal.noun} keeps {name}: {even_at}"
    if found.is_broken_by_refusals:
        why = f", the first: {refusal}" if (refusal := plan.first_refusal) else ""
        return f"{none_keeps} {found.num_refused} of {found.num_requests} requests are refused{why}"
    return f"{none_keeps} it comes to {ratio:.3g} of its limit, mean of {len(found.rows)} runs"


def answer_lines(findings: Findings) -> list[str]:
    """What was found, where it ends, what binds there, and what comes of it; why there is none."""
    plan, prices = findings.best, findings.prices
    if plan.answer is None:
        return [unreachable(plan)]
    labels = findings.plans[0][0]
    is_one_of_many = len(findings.plans) + len(findings.impossible) > 1
    lines = [f"the best: {settings_words(labels)}"] if is_one_of_many else []
    lines += [*_boundary_lines(plan), f"what binds there: {plan.constraint}", _throughput(plan)]
    if prices:
        lines.append(_cost_line(plan, prices))
    asked = plan.goal.apply(plan.answer)
    if asked.workload != plan.scenario.workload:
        few, many = (len(build_workload(each)) for each in (asked, plan.scenario))
        lines.append(f"runs of {many:,} requests: {few:,} are over before anything is steady")
    return lines


def impossible_lines(impossible: list[Impossible]) -> list[str]:
    """Of some of them, why."""
    lines = [
        f"cannot be: {settings_words(labels)}; {reason}"
        for labels, reason in impossible[:_MOST_IMPOSSIBLE]
    ]
    num_more = len(impossible) - len(lines)
    return [*lines, f"and {num_more} more cannot be"] if num_more else lines


def _boundary_lines(plan: Plan) -> list[str]:
    boundary, goal = plan.boundary, plan.goal
    assert boundary.kept is not None
    which = "highest" if goal.is_highest else "lowest"
    answer = goal.words(boundary.kept)
    line = f"{which} {goal.noun} that keeps every promise: {answer}"
    if boundary.kept == len(goal.values) - 1:
        return [line, f"it is the {'most' if goal.is_highest else 'least'} there is"]
    if boundary.broken is None:
        return [line, "no value beyond it is shown to break one"]
    between = boundary.broken - boundary.kept - 1
    values = f"{between} value{'s' if between > 1 else ''}"
    unsure = f"; of {values} between the runs do not tell" if between else ""
    return [line, f"shown to break one: {goal.words(boundary.broken)}{unsure}"]


def _throughput(plan: Plan) -> str:
    per_s = with_interval(*plan.at_answer.interval("output_tokens_per_s"))
    return (
        f"at the answer {per_s} output tokens/s on "
        f"{plan.num_gpus} GPU{'s' if plan.num_gpus > 1 else ''}; "
        f"{plan.at_answer.interval('kept_share')[0]:.1%} of the requests keep every limit"
    )


def _cost_line(plan: Plan, prices: Prices) -> str:
    return (
        f"{cost_words(cost_per_hour(plan.scenario, prices))} an hour, "
        f"{cost_words(plan.cost_per_million_tokens(prices))} per million output tokens"
    )


def cost_words(cost: float | None) -> str:
    """With three digits."""
    return "-" if cost is None else f"{cost:.3g}"


def settings_words(labels: Labels) -> str:
    """As one writes them after --set."""
    return ", ".join(f"{key}={value_text(value)}" for key, value in labels.items())
