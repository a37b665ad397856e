"""What a plan has found, as JSON has it: without infinities, which are null."""

import json
import math
from typing import Any

from sim.fingerprint import code_digest, versions
from sim.plan.evaluation import RATIO
from sim.plan.findings import Beside, Findings
from sim.plan.flags import vllm_command
from sim.plan.plan import Plan, cost_per_hour, num_gpus, ranked_by
from sim.plan.prices import Prices
from sim.plan.words import answer_lines
from sim.scenario.file import plain

Data = dict[str, Any]


def as_json(data: Data) -> str:
    """Text of plain data."""
    return json.dumps(finite(data), indent=1, allow_nan=False)


def whole_plan(findings: Findings, options: Data, notes: list[str]) -> Data:
    """What `as_data` has, and what it rests on. notes: of step times and memory, in words."""
    return {
        "versions": versions(plain(findings.best.scenario)),
        "code": code_digest(),
        "options": options,
        "words": answer_lines(findings),
        "notes": notes,
        **as_data(findings),
    }


def as_data(findings: Findings) -> Data:
    """What is printed, for machines."""
    best, prices = findings.best, findings.prices
    has_answer = best.answer is not None
    return {
        "alternatives": [
            {"settings": labels, **_plan_data(plan, prices)} for labels, plan in findings.plans
        ],
        "tried_coarsely": [
            {
                "settings": look.labels,
                "value": best.goal.plain(look.value),
                "kept": look.is_kept,
                "gpus": num_gpus(look.scenario),
            }
            for look in findings.looks
        ],
        "impossible": [
            {"settings": labels, "reason": reason} for labels, reason in findings.impossible
        ],
        "ranked_by": ranked_by(best.goal, prices),
        "warnings": best.doubts,
        "best": {"settings": findings.plans[0][0], **_plan_data(best, prices)},
        "neighbours": [_beside_data(best, findings.beside[0], one) for one in findings.beside],
        "vllm": vllm_command(best.scenario, best.system) if has_answer else None,
    }


def _plan_data(plan: Plan, prices: Prices) -> Data:
    broken = plan.boundary.broken
    return {
        "system": plan.system,
        "model": plan.scenario.model,
        "hardware": plan.scenario.hardware,
        "find": plan.goal.name,
        "heading": plan.goal.heading,
        "answer": None if plan.answer is None else plan.goal.plain(plan.answer),
        "broken_at": None if broken is None else plan.goal.plain(plan.goal.values[broken]),
        "gpus": plan.num_gpus,
        "replicas": plan.scenario.replicas.count,
        "router": plan.scenario.replicas.router,
        "promises": {
            name: {"used": used, "half_width": half_width}
            for name in plan.at_answer.names
            for used, half_width in [plan.at_answer.used(name)]
        },
        "confidence": plan.at_answer.confidence,
        "output_tokens_per_s": plan.at_answer.interval("output_tokens_per_s")[0],
        "kept_share": plan.at_answer.interval("kept_share")[0],
        "seeds": len(plan.at_answer.rows),
        "constraint": plan.constraint,
        "cost_per_hour": cost_per_hour(plan.scenario, prices),
        "cost_per_million_output_tokens": plan.cost_per_million_tokens(prices),
    }


def _beside_data(plan: Plan, answer: Beside, beside: Beside) -> Data:
    """promise: the one that is used up most; difference: of that to the answer, on the same
    requests."""
    name, found = beside
    worst, used = found.worst
    difference, half_width = found.less(answer[1], RATIO + worst)
    data = {"setting": name, "promise": worst, "used": used}
    data |= {"difference": difference, "half_width": half_width}
    if plan.is_closed_loop:
        data["output_tokens_per_s"] = found.interval("output_tokens_per_s")[0]
    return data


def finite(data: Any) -> Any:
    """The same with nothing that JSON has not: null for infinite and unknown numbers."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
