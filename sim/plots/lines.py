"""What requests got, as lines: against what was swept, or over the requests of a run."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from sim.one_run import OneRun, point_in_words, words
from sim.over_seeds import over_seeds
from sim.plots.colours import SYSTEM_COLOURS
from sim.plots.scales import WIDE
from sim.plots.style import (
    SECONDS,
    SMALL,
    SYSTEM_MARKERS,
    dash,
    label_seconds,
    legend,
    note_runs,
    tidy,
)

_MOST_TICKS = 10  # more values than this get ticks of their own choosing


def throughput(summary: pd.DataFrame, key: str) -> Figure:
    """Output tokens per second against what was swept."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    _draw_lines(axes, summary, key, "output_tokens_per_s")
    axes.set_ylabel("output tokens per second")
    axes.set_ylim(bottom=0)
    axes.set_title(f"Throughput against {words(key)}", loc="left")
    legend(figure)
    note_runs(figure, summary)
    return figure


def latency(summary: pd.DataFrame, key: str) -> Figure:
    """TTFT and TPOT against what was swept."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = {"ttft": "Time to first token", "tpot": "Time per output token"}
    for axes, (metric, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        _draw_lines(axes, summary, key, f"{metric}_p99_s", line_style=":", with_label=False)
        _draw_lines(axes, summary, key, f"{metric}_p50_s", line_style="-")
        if metric == "ttft":
            axes.set_yscale("log")
            label_seconds(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(SECONDS)
        axes.set_title(f"{title}: p50 (solid), p99 (dotted)", loc="left")
    legend(figure)
    note_runs(figure, summary)
    return figure


def _draw_lines(
    axes: Axes,
    summary: pd.DataFrame,
    key: str,
    metric: str,
    *,
    line_style: str | None = None,
    with_label: bool = True,
) -> None:
    """Mean over the seeds against the key, one line a system, with 95 % confidence intervals.

    line_style: of all; None: the system's own.
    """
    for number, (system, rows) in enumerate(summary.groupby("system", sort=False)):
        found = over_seeds(rows, key, metric)
        has_intervals = found["half_width"].notna().any()
        axes.errorbar(
            found.index,
            found["mean"],
            yerr=found["half_width"] if has_intervals else None,
            label=str(system) if with_label else None,
            color=SYSTEM_COLOURS[number % len(SYSTEM_COLOURS)],
            marker=SYSTEM_MARKERS[number % len(SYSTEM_MARKERS)],
            linestyle=line_style or dash(number),
            markersize=5,
            capsize=3,
        )
    _set_swept_axis(axes, summary, key)
    tidy(axes)


def _set_swept_axis(axes: Axes, summary: pd.DataFrame, key: str) -> None:
    values = sorted(summary[key].unique())
    if values[0] > 0 and values[-1] / values[0] >= WIDE:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
    if len(values) <= _MOST_TICKS:
        axes.set_xticks(values, [f"{value:.4g}" for value in values])
    axes.set_xlabel(words(key))


def latency_distribution(runs: list[OneRun]) -> Figure:
    """TTFT and end-to-end latency over the requests, a line for each run, each serving some."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = {"first_token_ns": "Time to first token", "finished_ns": "End-to-end latency"}
    for axes, (column, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for number, run in enumerate(runs):
            finished = run.requests.dropna(subset="finished_ns")
            seconds = (finished[column] - finished["arrival_ns"]).to_numpy(np.float64) / 1e9
            axes.ecdf(
                seconds,
                label=run.system,
                color=SYSTEM_COLOURS[number % len(SYSTEM_COLOURS)],
                linestyle=dash(number),
            )
        axes.set_xscale("log")
        label_seconds(axes.xaxis)
        axes.set_title(title, loc="left")
        axes.set_ylabel("share of requests")
        tidy(axes)
    if len(runs) > 1:
        legend(figure)
    figure.supxlabel(point_in_words(runs[0]), x=0.99, ha="right", **SMALL)
    return figure
