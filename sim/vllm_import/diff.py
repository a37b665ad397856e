"""A simulated run against what a vLLM has counted, metric by metric."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sim.errors import UserError
from sim.metrics import PERCENTILES, percentile
from sim.vllm_import.histogram import Histogram, shares_of
from sim.vllm_import.scrape import Scrape
from sim.vllm_import.simulated import VALUES, SimulatedRun
from sim.vllm_metrics import ITL


@dataclass(frozen=True)
class Row:
    """One number of a metric, real and simulated. bucket: between which the real one is known to
    lie, where it is a percentile."""

    metric: str
    what: str
    real: float
    simulated: float
    bucket: tuple[float, float] | None = None

    @property
    def difference(self) -> float | None:
        """Of the simulated number from the real one, as a share of it; None where that is 0, or
        where the real one has no upper bound."""
        is_open = self.bucket is not None and math.isinf(self.bucket[1])
        return None if is_open or not self.real else self.simulated / self.real - 1

    @property
    def is_in_bucket(self) -> bool | None:
        """Whether the simulated number cannot be told from the real one."""
        return None if self.bucket is None else self.bucket[0] <= self.simulated <= self.bucket[1]


@dataclass(frozen=True)
class Shares:
    """Of the requests of a metric up to each finite bound, real and simulated."""

    metric: str
    bounds: tuple[float, ...]
    real: tuple[float, ...]
    simulated: tuple[float, ...]

    @property
    def largest(self) -> int:
        """The place of the bound at which they differ most."""
        return int(np.argmax(np.abs(np.subtract(self.real, self.simulated))))


@dataclass(frozen=True)
class Comparison:
    """missing: metrics that the scrape does not have, or has not counted."""

    rows: list[Row]
    shares: list[Shares]
    missing: list[str]


def compare(run: SimulatedRun, scrape: Scrape) -> Comparison:
    """All that both know. Raises UserError where that is nothing."""
    rows: list[Row] = []
    shares: list[Shares] = []
    missing: list[str] = []
    for name, values_of in VALUES.items():
        histogram = scrape.histogram(name)
        values = values_of(run)
        if histogram is None or not len(values):
            missing.append(name)
            continue
        counts = np.ones(len(values), dtype=np.int64)
        rows += _rows(
            histogram, float(values.mean()), {p: percentile(values, counts, p) for p in PERCENTILES}
        )
        bounds = histogram.bounds[:-1]
        if bounds:
            real, ours = histogram.shares.tolist(), shares_of(values, bounds).tolist()
            shares.append(Shares(histogram.name, bounds, tuple(real), tuple(ours)))
    rows += _inter_token(run, scrape, missing)
    for name, numbers in _COUNTED.items():
        pair = numbers(run, scrape)
        if pair is None:
            missing.append(name)
        else:
            rows.append(Row(name, _WHAT.get(name, "per request"), *pair))
    if not rows:
        raise UserError(f"{scrape.name}: no metric with something to compare, expected requests")
    return Comparison(rows, shares, missing)


def _rows(histogram: Histogram, mean: float, percentiles: dict[int, float]) -> Iterator[Row]:
    yield Row(histogram.name, "mean", histogram.mean, mean)
    for percent, simulated in percentiles.items():
        real = histogram.quantile(percent / 100)
        yield Row(histogram.name, f"p{percent}", real.value, simulated, (real.low, real.high))


def _inter_token(run: SimulatedRun, scrape: Scrape, missing: list[str]) -> list[Row]:
    """The gaps of a run are summed up in summary.csv, its seeds each by itself."""
    histogram = scrape.histogram(*ITL)
    measured = run.summary[run.summary["itl_mean_s"].notna()]
    if histogram is None or measured.empty:
        missing.append(ITL[0])
        return []
    num_gaps = measured["output_tokens"] - measured["finished"]
    mean_s = float(np.average(measured["itl_mean_s"], weights=num_gaps))
    percentiles = {p: float(measured[f"itl_p{p}_s"].mean()) for p in PERCENTILES}
    return list(_rows(histogram, mean_s, percentiles))


Pair = tuple[float, float] | None


def _per_request(counter: str, column: str) -> Callable[[SimulatedRun, Scrape], Pair]:
    def pair(run: SimulatedRun, scrape: Scrape) -> Pair:
        total, num_requests = scrape.total(counter), scrape.num_requests
        if total is None or not num_requests:
            return None
        return total / num_requests, float(run.column(column).mean())

    return pair


def _hit_share(run: SimulatedRun, scrape: Scrape) -> Pair:
    real, queried = scrape.prefix_hit_share, float(run.column("queried_tokens").sum())
    if real is None:
        return None
    return real, float(run.column("cached_tokens").sum()) / queried if queried else 0.0


_COUNTED = {
    name: _per_request(name, column)
    for name, column in (
        ("vllm:prompt_tokens_total", "prompt_tokens"),
        ("vllm:generation_tokens_total", "output_tokens"),
        ("vllm:num_preemptions_total", "preemptions"),
    )
} | {"vllm:prefix_cache_hits_total": _hit_share}
_WHAT = {"vllm:prefix_cache_hits_total": "share of queries"}
