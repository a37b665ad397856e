"""Simulates the points of published series."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from sim.errors import UserError
from sim.metrics import summarise
from sim.parallel import over_cores
from sim.records import Records
from sim.reproduce.paper import Paper, Series
from sim.scenario.file import load_scenario
from sim.simulate import simulate


@dataclass(frozen=True, kw_only=True)
class Result:
    """A published value (nan: none) and ours, in the units of `sim.metrics.summarise`."""

    series: Series
    at: Any
    metric: str
    published: float
    ours: float
    tolerance: float

    @property
    def is_printed(self) -> bool:
        """Whether anything was published."""
        return not math.isnan(self.published)

    @property
    def error(self) -> float:
        """Relative to what was published, or the difference; see Series."""
        difference = self.ours - self.published
        return difference if self.series.absolute else difference / self.published

    @property
    def is_inside(self) -> bool | None:
        """Whether it is within the tolerance; None where there is none."""
        return None if math.isnan(self.tolerance) else abs(self.error) <= self.tolerance


def run_paper(
    paper: Paper,
    folder: Path,
    settings: list[str],
    on_progress: Callable[[float], None] = lambda _: None,
) -> list[Result]:
    """Simulate every point, with further settings. folder: where the scenarios are.

    Raises UserError for mistakes in the scenarios or the settings.
    """
    points = [(series, place) for series in paper.series for place in range(len(series.at))]
    summaries: dict[int, dict[str, float]] = {}
    for number, summary in over_cores(partial(_summary, folder, settings), points):
        on_progress(1)
        summaries[number] = summary
    return [
        result
        for number, (series, place) in enumerate(points)
        for result in _results(series, place, summaries[number])
    ]


def num_points(paper: Paper) -> int:
    """Runs that it takes."""
    return sum(len(series.at) for series in paper.series)


def _summary(folder: Path, settings: list[str], point: tuple[Series, int]) -> dict[str, float]:
    series, place = point
    path = folder / f"{series.scenario}.yaml"
    scenario = load_scenario(path, [*series.overrides(place), *settings])
    if series.system not in scenario.systems:
        raise UserError(
            f"{series.title}: got system {series.system!r}, {path} has "
            f"{', '.join(scenario.systems)}"
        )
    records = simulate(scenario, series.system)
    if records.first_refusal:
        raise UserError(f"{path}: {series.title} at {series.at[place]}: {records.first_refusal}")
    num_requests = len(records.requests)
    first = math.floor(series.warm_up * num_requests)
    return steady(records, first, num_requests - math.floor(series.cool_down * num_requests))


def steady(records: Records, first: int, last: int) -> dict[str, float]:
    """Metrics of the requests from `first` to `last`, which is not one of them.

    Rates are those at which requests ended in the meantime: between the ends that are number
    `first` and number `last` in time. Shares of memory are of the whole run.
    """
    summary = summarise(replace(records, requests=records.requests.iloc[first:last]))
    metrics = {name: float(value) for name, value in summary.items() if value is not None}
    ended = records.requests.sort_values("finished_ns").iloc[max(first - 1, 0) : last]
    start_ns = int(ended["finished_ns"].iloc[0]) if first else 0
    span_s = (int(ended["finished_ns"].iloc[-1]) - start_ns) / 1e9
    counted = ended.iloc[1 if first else 0 :]
    num_tokens = int(counted["output_tokens"].sum())
    metrics["requests_per_s"] = (last - first) / span_s
    metrics["output_tokens_per_s"] = num_tokens / span_s
    metrics["tokens_per_s"] = (num_tokens + int(counted["prompt_tokens"].sum())) / span_s
    latency_s = (counted["finished_ns"] - counted["arrival_ns"]) / 1e9
    normalised_s = latency_s / (counted["output_tokens"] / records.num_outputs)
    metrics["normalised_latency_s"] = float(normalised_s.mean())
    metrics["normalised_latency_p50_s"] = float(normalised_s.median())
    metrics["in_flight"] = metrics["requests_per_s"] * metrics["e2e_mean_s"]
    metrics["awaited_share"] = metrics["tail_share"] + metrics["reserved_share"]
    outside = ("cached_share", "unusable_share", "free_share")
    metrics["outside_share"] = sum(metrics[name] for name in outside)
    return metrics


def _results(series: Series, place: int, summary: dict[str, float]) -> list[Result]:
    for metric in series.published:
        if metric not in summary:
            raise UserError(
                f"{series.title}: {metric}: no such metric, or nothing to measure it on"
            )
    return [
        Result(
            series=series,
            at=series.at[place],
            metric=metric,
            published=column[place],
            ours=summary[metric],
            tolerance=series.tolerance.get(metric, [math.nan] * len(column))[place],
        )
        for metric, column in series.published.items()
    ]


def as_frame(results: list[Result]) -> pd.DataFrame:
    """Columns series, at, metric, published, ours."""
    return pd.DataFrame(
        [(r.series.title, r.at, r.metric, r.published, r.ours) for r in results],
        columns=["series", "at", "metric", "published", "ours"],
    )
