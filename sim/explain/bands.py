"""Means of the parts of a latency over all requests, and over the slowest of them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.attribution import DECODE_PARTS, TTFT_PARTS
from sim.explain.words import WORDS
from sim.metrics import percentile

# Of each latency: the stamp at which it ends (it begins with the arrival), and its parts.
LATENCIES = {
    "ttft": ("first_token_ns", TTFT_PARTS),
    "e2e": ("finished_ns", (*TTFT_PARTS, *DECODE_PARTS)),
}
SLOW = 99  # percentile from which a request is a slow one
BANDS = {0: "all", 50: "p50 and above", 90: "p90 and above", SLOW: "p99 and above"}
_MOST_FOR_ONE = 0.5  # share from which one part tells enough


@dataclass(frozen=True)
class Band:
    """Means over requests whose latency is at least `least_s`.

    parts_s: of each part of the latency; they add up to mean_s.
    """

    requests: int
    least_s: float
    mean_s: float
    parts_s: dict[str, float]

    def share(self, part: str) -> float:
        """Of a part in the whole; 0 where that is nothing."""
        return self.parts_s[part] / self.mean_s if self.mean_s else 0.0


def band(requests: pd.DataFrame, latency: str, percent: int) -> Band:
    """Of the finished requests at the percentile of a latency and above; 0: of all.

    requests: at least one of them finished.
    """
    stamp, parts = LATENCIES[latency]
    finished = requests[requests["finished_ns"].notna()]
    times_ns = (finished[stamp] - finished["arrival_ns"]).to_numpy(np.int64)
    least_ns = times_ns.min()
    if percent:
        least_ns = percentile(times_ns, np.ones(len(times_ns), np.int64), percent)
    slow = times_ns >= least_ns
    return Band(
        requests=int(slow.sum()),
        least_s=float(least_ns) / 1e9,
        mean_s=float(times_ns[slow].mean()) / 1e9,
        parts_s={
            name: float(finished[name].to_numpy(np.int64)[slow].mean()) / 1e9 for name in parts
        },
    )


def largest_parts(slow: Band) -> list[str]:
    """The part that most of the latency is or, if there is none, the two largest."""
    by_size = sorted(slow.parts_s, key=slow.parts_s.__getitem__, reverse=True)
    return by_size[: 1 if slow.share(by_size[0]) >= _MOST_FOR_ONE else 2]


def verdict(slow: Band, latency: str) -> str:
    """In a line, what the slow requests do most."""
    what = "TTFT" if latency == "ttft" else "time"
    deeds = [f"{WORDS[name].deed} ({100 * slow.share(name):.0f} %)" for name in largest_parts(slow)]
    if len(deeds) == 1:
        (name,) = largest_parts(slow)
        return (
            f"the slow requests {WORDS[name].deed}: {100 * slow.share(name):.0f} % of their {what}"
        )
    return f"the slow requests {' and '.join(deeds)}: most of their {what}"
