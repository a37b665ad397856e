"""The table of gaps between tokens: how many are in each bucket of vLLM's histogram of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sim.experiment import Result, keys_of
from sim.records import Distribution, Records
from sim.vllm_metrics import HISTOGRAMS, ITL


def gap_rows(results: list[Result]) -> list[dict[str, Any]]:
    """A row for each run, replica and bucket."""
    return [
        {**keys_of(result.job), "replica": number, **bucket}
        for result in results
        for number, itl_ns in enumerate(_of_replicas(result.records))
        for bucket in _buckets(itl_ns)
    ]


def _of_replicas(records: Records) -> list[Distribution]:
    return [part.itl_ns for part in records.replicas] or [records.itl_ns]


def _buckets(gaps_ns: Distribution) -> Iterator[dict[str, float]]:
    """Of each the bound, how many gaps are in it, and their sum in seconds."""
    values_ns, counts = gaps_ns
    bounds = (*(HISTOGRAMS[ITL[0]].bounds or ()), np.inf)
    place = np.searchsorted(bounds, values_ns / 1e9)  # a bound belongs to the bucket below it
    num = np.bincount(place, counts, minlength=len(bounds))
    total_s = np.bincount(place, values_ns / 1e9 * counts, minlength=len(bounds))
    for bound, of_bound, sum_s in zip(bounds, num, total_s, strict=True):
        yield {"up_to_s": bound, "gaps": int(of_bound), "sum_s": float(sum_s)}
