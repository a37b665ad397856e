"""Metrics: pure functions of a run's records. `sim.definitions` says what they are."""

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from sim.records import Distribution, Records

PERCENTILES = (50, 90, 99)

Row = dict[str, float | int | None]


def summarise(records: Records) -> Row:
    """One row of metrics, in the order in which they are shown.

    Times in seconds; rates per second of the span, which is from the start of the run to the last
    output; shares from 0 to 1; None where nothing happened that could be measured.
    """
    return _summarise(records, _span_ns(records))


def summarise_replicas(records: Records) -> list[Row]:
    """The same of each of several replicas, by the span of all; none where there is one."""
    span_ns = _span_ns(records)
    return [
        _summarise(records.of_replica(number), span_ns) for number in range(len(records.replicas))
    ]


def _span_ns(records: Records) -> int:
    last_ns = records.requests["finished_ns"].max()
    return 0 if pd.isna(last_ns) else int(last_ns)


def _summarise(records: Records, span_ns: int) -> Row:
    requests = records.requests
    finished = requests[requests["finished_ns"].notna()]
    num_output_tokens = int(requests["output_tokens"].sum())
    return {
        "requests": len(requests),
        "finished": len(finished),
        "refused": int((requests["finish_reason"] == "refused").sum()),
        "span_s": span_ns / 1e9,
        "output_tokens": num_output_tokens,
        "output_tokens_per_s": _ratio(num_output_tokens * 1e9, span_ns),
        "requests_per_s": _ratio(len(finished) * 1e9, span_ns),
        **_slo(requests, span_ns),
        **_latencies(finished, records.num_outputs),
        **distribution("itl", *records.itl_ns),
        "preemptions": int(requests["preemptions"].sum()),
        "preempted_recomputed_tokens": int(requests["recomputed_tokens"].sum()),
        "preempted_restored_tokens": int(requests["restored_tokens"].sum()),
        **_prefix_cache(requests, records.evicted_for_ns),
        **_memory(records),
        "steps": int(records.steps["steps"].sum()),
    }


def summarise_classes(records: Records) -> dict[str, Row]:
    """The same of the requests of each class, as far as it can be told of a class, by its name."""
    requests = records.requests
    if "class" not in requests:
        return {}
    span_ns = _span_ns(records)
    rows: dict[str, Row] = {}
    for name, of_class in requests.groupby("class", sort=True):
        finished = of_class[of_class["finished_ns"].notna()]
        rows[str(name)] = {
            "requests": len(of_class),
            "finished": len(finished),
            "output_tokens": int(of_class["output_tokens"].sum()),
            **_slo(of_class, span_ns),
            **_latencies(finished, records.num_outputs),
        }
    return rows


def _slo(requests: pd.DataFrame, span_ns: int) -> Row:
    """Of requests that are promised something."""
    if "met_slo" not in requests:
        return {}
    met = requests["met_slo"].dropna()
    num_met = int(met.sum())
    return {
        "slo_share": _ratio(num_met, len(met)),
        "goodput_per_s": _ratio(num_met * 1e9, span_ns) if len(met) else None,
    }


def _latencies(finished: pd.DataFrame, num_outputs: int) -> Row:
    columns = {
        name: finished[name].to_numpy(dtype=np.int64)
        for name in ("arrival_ns", "admitted_ns", "first_token_ns", "finished_ns")
    }
    arrival_ns, first_token_ns = columns["arrival_ns"], columns["first_token_ns"]
    tpot = tpot_ns(finished, num_outputs)
    return {
        **distribution("ttft", first_token_ns - arrival_ns),
        **distribution("tpot", tpot[~np.isnan(tpot)]),
        **distribution("e2e", columns["finished_ns"] - arrival_ns),
        **distribution("queueing", columns["admitted_ns"] - arrival_ns),
    }


def tpot_ns(requests: pd.DataFrame, num_outputs: int) -> npt.NDArray[np.float64]:
    """[n] time per output token of each request; nan where there is none: a single token, or none.

    num_outputs: of each request, all of one length.
    """
    first_ns, last_ns = (
        requests[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("first_token_ns", "finished_ns")
    )
    num_gaps = requests["output_tokens"].to_numpy(dtype=np.float64) // num_outputs - 1
    tpot: npt.NDArray[np.float64] = np.full(len(requests), np.nan)
    np.divide(last_ns - first_ns, num_gaps, out=tpot, where=num_gaps > 0)
    return tpot


def distribution(
    name: str,
    values_ns: npt.NDArray[np.int64] | npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64] | None = None,
) -> Row:
    """Mean and percentiles in seconds of values, each counted once or `counts` times."""
    if counts is None:
        counts = np.ones(len(values_ns), dtype=np.int64)
    total = int(counts.sum())
    mean_ns = _ratio(float(values_ns.astype(np.float64) @ counts), total)
    row: Row = {f"{name}_mean_s": None if mean_ns is None else mean_ns / 1e9}
    for percent in PERCENTILES:
        row[f"{name}_p{percent}_s"] = (
            percentile(values_ns, counts, percent) / 1e9 if total else None
        )
    return row


def percentile(
    values: npt.NDArray[np.int64] | npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    percent: int,
) -> float:
    """The smallest value that at least percent % of all values do not exceed (nearest rank).

    values [n], each standing for counts [n] equal ones; at least one in all.

    >>> percentile(np.array([10, 20, 30]), np.array([1, 2, 1]), 75)
    20.0
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(counts[order])
    rank = -(-percent * int(reached[-1]) // 100)
    return float(values[order[np.searchsorted(reached, rank)]])


def _prefix_cache(requests: pd.DataFrame, evicted_for_ns: Distribution) -> Row:
    """Queries and hits as vLLM counts them, at admission; a preempted request counts once."""
    names = ("queried", "cached", "partial", "unseen", "evicted")
    queried, cached, partial, unseen, evicted = (
        int(requests[f"{name}_tokens"].sum()) for name in names
    )
    ages_ns, counts = evicted_for_ns
    mean_ns = _ratio(float(ages_ns.astype(np.float64) @ counts), int(counts.sum()))
    return {
        "prefix_query_tokens": queried,
        "prefix_hit_tokens": cached,
        "prefix_hit_share": _ratio(cached, queried),
        "prefix_miss_partial_tokens": partial,
        "prefix_miss_unseen_tokens": unseen,
        "prefix_miss_evicted_tokens": evicted,
        "prefix_evicted_for_mean_s": None if mean_ns is None else mean_ns / 1e9,
    }


def _memory(records: Records) -> Row:
    """Time-weighted shares of all pools, and what sharing saved, as the allocator counts them."""
    time_ns = int(records.steps["duration_ns"].sum()) // max(len(records.replicas), 1)
    slot_ns, saved = records.slot_ns, records.saved_slot_ns
    total = sum(slot_ns)
    held = slot_ns.live + slot_ns.tail + slot_ns.reserved + slot_ns.over_reserved
    return {
        "block_utilisation": _ratio(held, total),
        "internal_fragmentation": _ratio(held - slot_ns.live, held),
        **{f"{name}_share": _ratio(slots, total) for name, slots in slot_ns._asdict().items()},
        "saved_slots_mean": _ratio(saved, time_ns),
        "saved_share": _ratio(saved, held + saved),
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def half_width_95(values: npt.NDArray[np.float64]) -> float | None:
    """Half the width of the 95 % confidence interval of the mean of independent runs.

    Student's t with n - 1 degrees of freedom; None for a single run, which says nothing of it.
    """
    return half_width(values, 0.95)


def half_width(values: npt.NDArray[np.float64], confidence: float) -> float | None:
    """The same of an interval that covers the mean with this probability."""
    n = len(values)
    if n < 2:
        return None
    from scipy.special import stdtrit  # slow to import, and not needed for a single run

    return float(stdtrit(n - 1, (1 + confidence) / 2) * np.std(values, ddof=1) / math.sqrt(n))
