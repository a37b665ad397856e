"""The metrics of a run: those that vLLM has, as vLLM has them, and kvsim's own."""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path

import numpy as np
import pandas as pd

from engine.kv_manager import HELD, KVUsage
from sim.definitions.plain import METRICS, TIMES
from sim.metrics import PERCENTILES
from sim.prometheus.series import RunTables, Series, labels_of, read_tables, series_of
from sim.prometheus.text import Family, Labels, number
from sim.scenario import Scenario
from sim.vllm_import.simulated import VALUES, Values
from sim.vllm_metrics import COUNTERS, GAUGES, HISTOGRAMS, ITL, SUCCESS, SUCCESS_MEANING

_OVER_RUN = "kvsim: of the whole run"
_MEAN = "kvsim: the mean over the time of the run"
_REASONS = ("stop", "length")  # of those that vLLM has; requests that are refused never were in it

# Columns of summary.csv that the metrics of vLLM say.
_SAID = (
    *("finished", "output_tokens", "preemptions", "block_utilisation"),
    *("prefix_query_tokens", "prefix_hit_tokens", "prefix_hit_share"),
)
_UNITS = {"_per_s": "_per_second", "_s": "_seconds", "_share": "_ratio", "_mean": ""}


def families_of_run(folder: Path, scenario: Scenario) -> list[Family]:
    """All metrics of a finished run of this scenario."""
    tables = read_tables(folder, scenario)
    return [*_vllm(list(series_of(tables, scenario))), *_own(tables, scenario)]


def _vllm(all_series: list[Series]) -> Iterator[Family]:
    for name, histogram in HISTOGRAMS.items():
        family = Family(name, "histogram", f"{histogram.meaning} ({_OVER_RUN}).")
        for series in all_series:
            if name in ITL:
                _add_gaps(family, series)
            else:
                bounds = histogram.bounds_for(series.max_model_len)
                _add_histogram(family, series.labels, VALUES[name](series.run), bounds)
        yield family
    yield from _counters(all_series)
    for name, meaning in GAUGES.items():
        family = Family(name, "gauge", f"{meaning} ({_MEAN}).")
        for series in all_series:
            family.add(series.labels, _mean_over_time(name, series.steps))
        yield family


def _counters(all_series: list[Series]) -> Iterator[Family]:
    for name, (column, meaning) in COUNTERS.items():
        family = Family(name, "counter", f"{meaning} ({_OVER_RUN}).")
        for series in all_series:
            family.add(series.labels, float(series.run.column(column).sum()))
        yield family
    success = Family(SUCCESS, "counter", f"{SUCCESS_MEANING} ({_OVER_RUN}).")
    for series in all_series:
        for reason in _REASONS:
            count = (series.requests["finish_reason"] == reason).sum()
            success.add({**series.labels, "finished_reason": reason}, float(count))
    yield success


def _add_histogram(
    family: Family, labels: Labels, values: Values, bounds: tuple[float, ...]
) -> None:
    counts = np.searchsorted(np.sort(values), bounds, side="right").tolist()
    _add_buckets(family, labels, zip((*bounds, np.inf), (*counts, len(values)), strict=True))
    family.add(labels, float(values.sum()), "_sum")
    family.add(labels, len(values), "_count")


def _add_gaps(family: Family, series: Series) -> None:
    counts = list(accumulate(series.gaps["gaps"].tolist()))
    bounds = series.gaps["up_to_s"].tolist()
    _add_buckets(family, series.labels, zip(bounds, counts, strict=True))
    family.add(series.labels, float(series.gaps["sum_s"].sum()), "_sum")
    family.add(series.labels, counts[-1], "_count")


def _add_buckets(family: Family, labels: Labels, buckets: Iterable[tuple[float, int]]) -> None:
    for bound, count in buckets:
        family.add({**labels, "le": number(bound)}, count, "_bucket")


def _mean_over_time(name: str, steps: pd.DataFrame) -> float:
    """Of a gauge, as vLLM would show it on average."""
    time_ns = steps["duration_ns"].to_numpy(np.float64)
    if not time_ns.sum():
        return float("nan")
    if name == "vllm:kv_cache_usage_perc":
        values = steps[list(HELD)].sum(axis=1) / steps[list(KVUsage._fields)].sum(axis=1)
    else:
        values = steps[name.rpartition("_")[2]]
    return float(np.average(values.to_numpy(np.float64), weights=time_ns))


def _own(tables: RunTables, scenario: Scenario) -> Iterator[Family]:
    labels = [
        labels_of(scenario, {key: row[key] for key in tables.keys})
        for _, row in tables.summary.iterrows()
    ]
    for name, meaning in TIMES.items():
        yield _quantiles(name, meaning, tables.summary, labels)
    for column, metric in METRICS.items():
        is_said = column in _SAID or column.partition("_")[0] in TIMES
        if column in tables.summary and not is_said:
            yield _family(column, metric.meaning, metric.unit, tables.summary[column], labels)


def _quantiles(name: str, meaning: str, summary: pd.DataFrame, all_labels: list[Labels]) -> Family:
    """The exact percentiles, which a histogram only tells between which bounds they lie."""
    family = Family(f"kvsim:{name}_seconds", "summary", f"Percentiles of the time {meaning}.")
    for percent in PERCENTILES:
        for labels, value in zip(all_labels, summary[f"{name}_p{percent}_s"], strict=True):
            family.add({**labels, "quantile": f"{percent / 100:g}"}, float(value))
    return family


def _family(
    column: str, meaning: str, unit: str, values: "pd.Series[float]", all_labels: list[Labels]
) -> Family:
    name = column
    for suffix, word in _UNITS.items():
        if column.endswith(suffix):
            name = column.removesuffix(suffix) + word
            break
    is_counter = unit in ("", "tokens")
    family = Family(f"kvsim:{name}", "counter" if is_counter else "gauge", f"{meaning}.")
    for labels, value in zip(all_labels, values, strict=True):
        family.add(labels, float(value))
    return family
