"""Published serving results against the scenarios that redraw them: how far off are we?

The published values, their sources and tolerances are in anchors.toml; docs/anchors.md has the
results, and why some are outside. Takes some seconds.

    python -m benchmarks.anchors 9.3 9.4
    python -m benchmarks.anchors 9.2 --set latency.kind=silicon
"""

import math
import tomllib
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.table import Table

from benchmarks.anchor_checks import CHECKS, Check
from sim.metrics import summarise
from sim.parallel import over_cores
from sim.records import Records
from sim.scenario.file import load_scenario
from sim.simulate import simulate
from sim.tables import print_table

_FOLDER = Path(__file__).parent
SCENARIOS = _FOLDER.parent / "scenarios" / "published"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a published table; anchors.toml says what its keys mean."""

    entry: str
    title: str
    scenario: str
    settings: list[str]
    points: dict[str, list[Any]]
    published: dict[str, list[float]]
    tolerance: dict[str, list[float]]
    warm_up: float = 0.0
    cool_down: float = 0.0

    @property
    def at(self) -> list[Any]:
        """What its points are called."""
        return self.points["at"]

    def overrides(self, place: int) -> list[str]:
        """The settings at one of the points."""
        values = {name: column[place] for name, column in self.points.items()}
        return [setting.format(**values) for setting in self.settings]


@dataclass(frozen=True, kw_only=True)
class Result:
    """A published value and ours, in the units of `sim.metrics.summarise`."""

    series: Series
    at: Any
    metric: str
    published: float
    ours: float
    tolerance: float

    @property
    def error(self) -> float:
        """Relative to what was published."""
        return self.ours / self.published - 1

    @property
    def verdict(self) -> str:
        """Whether it is within the tolerance; nothing where there is none."""
        if math.isnan(self.tolerance):
            return ""
        return "inside" if abs(self.error) <= self.tolerance else "OUTSIDE"


def main(
    entries: Annotated[
        list[str] | None, typer.Argument(help="Entries such as 9.1; all, if none is named.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Setting of every scenario: key.path=value.")
    ] = None,
) -> None:
    """Simulate the published points and print both results, and what follows from them."""
    series = load_series()
    known = sorted({one.entry for one in series})
    if unknown := [entry for entry in entries or [] if entry not in known]:
        raise typer.BadParameter(f"got {unknown[0]}, expected one of {', '.join(known)}")
    chosen = [one for one in series if not entries or one.entry in entries]
    by_entry: dict[str, list[Result]] = defaultdict(list)
    for result in run(chosen, settings or []):
        by_entry[result.series.entry].append(result)
    for entry, results in by_entry.items():
        print_table(results_table(entry, results))
        if entry in CHECKS:
            print_table(checks_table(CHECKS[entry](frame_of(results))))


def load_series() -> list[Series]:
    """All series of anchors.toml."""
    text = (_FOLDER / "anchors.toml").read_text("utf-8")
    return [Series(**entry) for entry in tomllib.loads(text)["series"]]


def run(chosen: list[Series], settings: list[str]) -> list[Result]:
    """Simulate every point of some series, with further settings."""
    points = [(series, place) for series in chosen for place in range(len(series.at))]
    summaries = dict(over_cores(partial(_summary, settings), points))
    return [
        result
        for number, (series, place) in enumerate(points)
        for result in _results(series, place, summaries[number])
    ]


def _summary(settings: list[str], point: tuple[Series, int]) -> dict[str, float]:
    series, place = point
    overrides = [*series.overrides(place), *settings]
    scenario = load_scenario(SCENARIOS / f"{series.scenario}.yaml", overrides)
    records = simulate(scenario, "default")
    num_requests = len(records.requests)
    first = math.floor(series.warm_up * num_requests)
    return steady(records, first, num_requests - math.floor(series.cool_down * num_requests))


def steady(records: Records, first: int, last: int) -> dict[str, float]:
    """Metrics of the requests from `first` to `last`, which is not one of them.

    Rates are those at which requests ended in the meantime: between the ends that are number
    `first` and number `last` in time.
    """
    summary = summarise(replace(records, requests=records.requests.iloc[first:last]))
    metrics = {name: float(value) for name, value in summary.items() if value is not None}
    ended = records.requests.sort_values("finished_ns").iloc[max(first - 1, 0) : last]
    start_ns = int(ended["finished_ns"].iloc[0]) if first else 0
    span_s = (int(ended["finished_ns"].iloc[-1]) - start_ns) / 1e9
    num_tokens = int(ended["output_tokens"].iloc[1 if first else 0 :].sum())
    metrics["requests_per_s"] = (last - first) / span_s
    metrics["output_tokens_per_s"] = num_tokens / span_s
    metrics["in_flight"] = metrics["requests_per_s"] * metrics["e2e_mean_s"]
    return metrics


def _results(series: Series, place: int, summary: dict[str, float]) -> list[Result]:
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
        if not math.isnan(column[place])
    ]


def frame_of(results: list[Result]) -> pd.DataFrame:
    """Columns series, at, metric, published, ours."""
    return pd.DataFrame(
        [(r.series.title, r.at, r.metric, r.published, r.ours) for r in results],
        columns=["series", "at", "metric", "published", "ours"],
    )


def results_table(entry: str, results: list[Result]) -> Table:
    """A line for each published value."""
    table = _table(entry, ["series", "at", "metric"], ["published", "ours", "error", "tolerance"])
    for r in results:
        tolerance = "" if math.isnan(r.tolerance) else f"{r.tolerance:.0%}"
        table.add_row(
            r.series.title,
            str(r.at),
            r.metric if r.metric.endswith("_per_s") else r.metric.removesuffix("_s"),
            _value(r.metric, r.published),
            _value(r.metric, r.ours),
            f"{r.error:+.1%}",
            tolerance,
            r.verdict,
        )
    return table


def checks_table(checks: list[Check]) -> Table:
    """A line for each thing that follows from the values."""
    table = _table("what follows", ["check"], ["published", "ours", "expected"])
    for check in checks:
        verdict = "inside" if check.is_inside else "OUTSIDE"
        table.add_row(check.name, check.published, check.ours, check.expected, verdict)
    return table


def _table(title: str, names: list[str], numbers: list[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="")
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    table.add_column("")
    return table


def _value(metric: str, value: float) -> str:
    if metric.endswith("_per_s") or metric == "in_flight":
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"


if __name__ == "__main__":
    typer.run(main)
