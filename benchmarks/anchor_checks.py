"""What is asked of several published values together: ratios, orders, slopes."""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

_APART = 1.05  # columns nearer than that may stand in either order
_SATURATED = 150  # users, from here on the published TTFT is a line


class Check(NamedTuple):
    """One line: published and ours in words, what is expected, and whether ours is."""

    name: str
    published: str
    ours: str
    expected: str
    is_inside: bool


def ratios_and_order(results: pd.DataFrame) -> list[Check]:
    """Of 9.2: throughput of the H200 by that of the H100, and the order of the columns."""
    by_gpu = {
        kind: results.pivot_table(index="at", columns="series", values=kind, sort=False)
        for kind in ("published", "ours")
    }
    published, ours = ((values["H200"] / values["H100"]).to_dict() for values in by_gpu.values())
    checks = [
        Check(
            f"H200 / H100 at {at}",
            f"{published[at]:.2f}",
            f"{ours[at]:.2f}",
            "within 12 %",
            bool(abs(ours[at] / published[at] - 1) <= 0.12),
        )
        for at in published
    ]
    return checks + [
        _order(gpu, by_gpu["published"][gpu], by_gpu["ours"][gpu]) for gpu in ("H100", "H200")
    ]


def _order(gpu: str, published: pd.Series, ours: pd.Series) -> Check:
    pairs = list(_apart(published))
    wrong = [f"{low} < {high}" for low, high in pairs if ours[low] >= ours[high]]
    return Check(
        f"order of the columns, {gpu}",
        f"{len(pairs)} pairs",
        f"not {', '.join(wrong)}" if wrong else "the same",
        "the same",
        not wrong,
    )


def _apart(values: pd.Series) -> Iterator[tuple[str, str]]:
    """Pairs of columns, the lower one first, that are apart by more than _APART."""
    for a, b in combinations(values.sort_values().index, 2):
        if values[b] > _APART * values[a]:
            yield a, b


def saturation(results: pd.DataFrame) -> list[Check]:
    """Of 9.3: the line that TTFT is on when the KV cache is full, and the throughput there."""
    full = results[results["at"] >= _SATURATED]
    ttft = full[full["metric"] == "ttft_mean_s"]
    rate = full[full["metric"] == "output_tokens_per_s"]
    lines = {kind: np.polyfit(ttft["at"], ttft[kind], 1) for kind in ("published", "ours")}
    slopes = {kind: line[0] for kind, line in lines.items()}
    users = {kind: -line[1] / line[0] for kind, line in lines.items()}
    plateau = {kind: rate[kind].mean() for kind in ("published", "ours")}
    return [
        Check(
            "users at which the line of TTFT begins",
            f"{users['published']:.0f}",
            f"{users['ours']:.0f}",
            "60 to 130",
            bool(60 <= users["ours"] <= 130),
        ),
        _within("TTFT for each further user, s", slopes, 0.25),
        _within("output tokens/s, plateau", plateau, 0.25),
    ]


def _within(name: str, values: dict[str, float], tolerance: float) -> Check:
    published, ours = values["published"], values["ours"]
    return Check(
        name,
        f"{published:.3g}",
        f"{ours:.3g}",
        f"within {tolerance:.0%}",
        bool(abs(ours / published - 1) <= tolerance),
    )


def stability(results: pd.DataFrame) -> list[Check]:
    """Of 9.4: as many requests end as come, and fewer are in flight than the batch may have."""
    row = results[results["metric"] == "in_flight"].iloc[0]
    return [
        Check(
            "requests in flight",
            f"{row['published']:.0f}",
            f"{row['ours']:.0f}",
            "below 1024",
            row["ours"] < 1024,
        )
    ]


CHECKS: dict[str, Callable[[pd.DataFrame], list[Check]]] = {
    "9.2": ratios_and_order,
    "9.3": saturation,
    "9.4": stability,
}
