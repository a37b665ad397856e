"""What stands behind a promise that is used up: where the time of the slowest requests goes."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from sim.attribution import DECODE_PARTS, TTFT_PARTS, UNTIL_ADMITTED, waits_ns
from sim.explain.words import WORDS
from sim.metrics import Row
from sim.plan.slo import FloatArray

# What part of a latency speaks for which constraint.
_CONSTRAINTS = {
    "the limit of sequences": ("ttft_slots_ns",),
    "KV blocks": (
        *("ttft_blocks_ns", "ttft_preempted_ns", "ttft_recompute_ns"),
        *("decode_preempted_ns", "decode_recompute_ns"),
    ),
    "the token budget": ("ttft_budget_ns", "ttft_other_prefills_ns", "decode_stalls_ns"),
    "compute": ("ttft_prefill_ns", "ttft_decodes_ns", "decode_steps_ns"),
    "queueing": ("ttft_step_ns", "ttft_batch_ns"),
}
_PARTS = {
    "ttft": TTFT_PARTS,
    "queueing": UNTIL_ADMITTED,
    "tpot": DECODE_PARTS,
    "e2e": (*TTFT_PARTS, *DECODE_PARTS),
}
_SLOWEST = 0.1


def slow_parts(requests: pd.DataFrame, metric: str, seconds: FloatArray) -> Row:
    """Shares of the parts in the time of the slowest tenth of those that were served.

    requests: [n]. seconds: [n] the metric of each.
    """
    values = np.where(np.isfinite(seconds), seconds, -1.0)
    num_slow = max(round(_SLOWEST * int((values >= 0).sum())), 1)
    slow = requests.iloc[np.argsort(-values, kind="stable")[:num_slow]]
    parts_ns = waits_ns(slow) if metric == "queueing" else slow
    sums_ns = {name: float(parts_ns[name].fillna(0).sum()) for name in _PARTS[metric]}
    total_ns = sum(sums_ns.values()) or 1.0
    return {_column(metric, name): ns / total_ns for name, ns in sums_ns.items()}


def _column(metric: str, part: str) -> str:
    return f"slow_{metric}_{part.removesuffix('_ns')}_share"


def binding(share: Callable[[str], float], promise: str) -> str:
    """The constraint behind a promise, in words; share: of a column of `slow_parts`."""
    metric = promise.partition("<")[0].partition("_")[0]
    shares = {name: share(_column(metric, name)) for name in _PARTS[metric]}
    by_constraint = {
        constraint: sum(shares.get(name, 0) for name in names)
        for constraint, names in _CONSTRAINTS.items()
    }
    constraint = max(by_constraint, key=by_constraint.__getitem__)
    part = max(_CONSTRAINTS[constraint], key=lambda name: shares.get(name, -1))
    return (
        f"{constraint}: {by_constraint[constraint]:.0%} of the time of the slowest tenth, who "
        f"{WORDS[part].deed}; look at {WORDS[part].settings}"
    )
