"""Metrics without the start and the end of a run, where the system is not as it is between them."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.kv_manager import KVUsage
from sim.errors import UserError
from sim.metrics import Row, summarise
from sim.records import Records

BoolArray = npt.NDArray[np.bool_]

_BATCH = 5
FEWEST_COUNTED = 10  # requests in the measured time, else the whole run counts


@dataclass(frozen=True)
class Warmup:
    """How much of the start is not counted: found by MSER-5 (auto), nothing of the run (none), or
    so many seconds."""

    rule: Literal["auto", "none", "seconds"] = "auto"
    seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Warmup":
        """Of `auto`, `none`, or seconds such as `30`. Raises UserError for anything else."""
        if text in ("auto", "none"):
            return cls(rule="auto" if text == "auto" else "none")
        try:
            seconds = float(text.removesuffix("s"))
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < 1e9:
            raise UserError(f"--warmup: got {text!r}, expected auto, none, or seconds")
        return cls(rule="seconds", seconds=seconds)

    def __str__(self) -> str:
        return f"{self.seconds:g}" if self.rule == "seconds" else self.rule


def measure(records: Records, warmup: Warmup) -> Row:
    """`summarise`, but for what was sent before the warm-up ended and what happened after arrivals.

    Latencies, hits and preemptions are of requests sent in the `window`; rates of those that end in
    it; shares of the pool of that time. Gaps between tokens (ITL) and how long ago content was
    evicted that misses (prefix_evicted_for_mean_s) are of the whole run. Further metrics: warmup_s;
    measured_s, the time that rates are of; fell_back, whether that is the whole run though a part
    was asked for.
    """
    whole: Row = {**summarise(records), "warmup_s": 0.0, "measured_s": None}
    whole |= {"measured_s": whole["span_s"], "fell_back": False}
    measured_ns = window(records, warmup)
    if measured_ns is None:
        return {**whole, "fell_back": warmup.rule != "none"}
    start_ns, stop_ns = measured_ns
    ended = records.requests[_ended(records, start_ns, stop_ns)]
    window_ns = stop_ns - start_ns
    row = summarise(_within(records, start_ns, stop_ns))
    num_tokens = int(ended["output_tokens"].sum())
    row |= {
        "span_s": whole["span_s"],
        "requests_per_s": len(ended) * 1e9 / window_ns,
        "output_tokens": num_tokens,
        "output_tokens_per_s": num_tokens * 1e9 / window_ns,
        "warmup_s": start_ns / 1e9,
        "measured_s": window_ns / 1e9,
        "fell_back": False,
    }
    if "met_slo" in ended:
        row["goodput_per_s"] = int(ended["met_slo"].fillna(False).sum()) * 1e9 / window_ns
    return row


def window(records: Records, warmup: Warmup) -> tuple[int, int] | None:
    """From when to when a run is measured, in ns: from the end of the warm-up to that of arrivals.

    Arrivals end with the last request that waits for no answer. None, the whole run counts: with
    the rule `none`, and where fewer than ten requests are sent or end in that time.
    """
    if warmup.rule == "none":
        return None
    start_ns, stop_ns = start_of(records, warmup), stop_of(records)
    counted = (sent(records, start_ns, stop_ns), _ended(records, start_ns, stop_ns))
    return None if min(int(one.sum()) for one in counted) < FEWEST_COUNTED else (start_ns, stop_ns)


def sent(records: Records, start_ns: int, stop_ns: int) -> BoolArray:
    """[n] whether each request was sent in this time, both ends included."""
    return records.requests["arrival_ns"].between(start_ns, stop_ns).to_numpy(dtype=np.bool_)


def _ended(records: Records, start_ns: int, stop_ns: int) -> BoolArray:
    """[n] whether each request ended after the start, up to the stop."""
    ended = records.requests["finished_ns"].between(start_ns, stop_ns, inclusive="right")
    return ended.fillna(False).to_numpy(dtype=np.bool_)


def start_of(records: Records, warmup: Warmup) -> int:
    """When the warm-up is over, in ns."""
    if warmup.rule == "none":
        return 0
    if warmup.rule == "seconds":
        return round(warmup.seconds * 1e9)
    requests = records.requests
    served = requests[requests["finished_ns"].notna()].sort_values("arrival_ns", kind="stable")
    ttft_ns = (served["first_token_ns"] - served["arrival_ns"]).to_numpy(dtype=np.float64)
    return int(served["arrival_ns"].iloc[mser5(ttft_ns)]) if len(served) > 1 else 0


def stop_of(records: Records) -> int:
    """When nothing new comes any more, in ns: after the last request that waited for no answer."""
    requests = records.requests
    firsts = requests[requests["turn"] == 1] if "turn" in requests else requests
    return int(firsts["arrival_ns"].max())


def mser5(values: npt.NDArray[np.float64]) -> int:
    """How many of the first values to leave out, by MSER-5 (White, Simulation 69, 1997).

    Of means over batches of 5 in a row, the first d are left out for which the standard error of
    the mean of the others, as if they were independent, is smallest; d is at most half of them.

    >>> mser5(np.array([90.0] * 5 + [1.0, 2.0] * 20))
    5
    """
    num_batches = len(values) // _BATCH
    if num_batches < 2:
        return 0
    means = values[: num_batches * _BATCH].reshape(num_batches, _BATCH).mean(axis=1)
    means = means - means.mean()  # the sums of squares below are of small numbers then
    num_left = np.arange(num_batches, 0, -1)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(means[::-1] ** 2)[::-1]
    deviations = np.maximum(squares - sums**2 / num_left, 0)
    errors = deviations / num_left.astype(np.float64) ** 2
    return _BATCH * int(np.argmin(errors[: num_batches // 2 + 1]))


def _within(records: Records, start_ns: int, stop_ns: int) -> Records:
    """Requests sent from start_ns on, and the steps that lie wholly between the two times."""
    steps = records.steps
    ends_ns = steps["start_ns"] + steps["duration_ns"]
    inside = steps[(steps["start_ns"] >= start_ns) & (ends_ns <= stop_ns)]
    duration_ns = inside["duration_ns"].to_numpy(np.float64)
    slot_ns = KVUsage(
        *(round(float(inside[name].to_numpy(np.float64) @ duration_ns)) for name in KVUsage._fields)
    )
    return replace(
        records,
        requests=records.requests[sent(records, start_ns, stop_ns)],
        steps=inside,
        slot_ns=slot_ns,
        saved_slot_ns=round(float(inside["saved"].to_numpy(np.float64) @ duration_ns)),
    )
