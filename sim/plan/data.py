"""What a plan has found, for machines."""

import math
from typing import Any

from sim.plan.evaluation import RATIO, Evaluation
from sim.plan.flags import vllm_command
from sim.plan.plan import Plan, num_gpus
from sim.plan.prices import Prices, price_of
from sim.plan.report import Findings


def as_data(findings: Findings, prices: Prices) -> dict[str, Any]:
    """What `print_findings` says, for machines."""
    plans, looks, impossible, best, beside = findings
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
            for look in looks
        ],
        "impossible": len(impossible),
        "best": _plan_data(best, prices),
        "neighbours": [_beside_data(name, found, beside[0][1]) for name, found in beside],
        "vllm": None if best.answer is None else vllm_command(best.scenario, best.system),
    }


def _beside_data(name: str, found: Evaluation, answer: Evaluation) -> dict[str, Any]:
    """difference, half_width: of what is used up of the promise, less what the answer uses up."""
    promise, used = found.worst
    difference, half_width = found.less(answer, RATIO + promise)
    return {
        "setting": name,
        "promise": promise,
        "used": _finite(used),
        "difference": _finite(difference),
        "half_width": _finite(half_width),
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _plan_data(plan: Plan, prices: Prices) -> dict[str, Any]:
    price = price_of(prices, plan.scenario.hardware)
    cost = None if price is None else plan.cost_per_million_tokens(price)
    broken = plan.boundary.broken
    return {
        "find": plan.goal.name,
        "answer": plan.answer,
        "broken_at": None if broken is None else plan.goal.values[broken],
        "gpus": plan.num_gpus,
        "promises": {
            name: {"used": _finite(used), "half_width": _finite(half_width)}
            for name in plan.at_answer.names
            for used, half_width in [plan.at_answer.used(name)]
        },
        "confidence": plan.at_answer.confidence,
        "output_tokens_per_s": plan.at_answer.interval("output_tokens_per_s")[0],
        "kept_share": plan.at_answer.interval("kept_share")[0],
        "seeds": len(plan.at_answer.rows),
        "constraint": plan.constraint,
        "cost_per_million_output_tokens": cost,
    }
