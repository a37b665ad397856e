"""The figures of a run. They read the summary and the records and compute no metric."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from engine.kv_manager import KVUsage
from sim.experiment import Result
from sim.metrics import half_width_95

# Okabe and Ito, "Color Universal Design", 2008: distinct under colour blindness and in grey.
SYSTEM_COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
SYSTEM_MARKERS = "osD^vPX"  # one more than colours: 42 systems before a pair repeats
_CLASS_COLOURS = {
    "live": "#0072B2",
    "tail": "#56B4E9",
    "reserved": "#F0E442",
    "over_reserved": "#D55E00",
    "cached": "#009E73",
    "unusable": "#999999",
    "free": "#EEEEEE",
}
_SMALL: dict[str, Any] = {"fontsize": "small", "color": "#555555"}
_MOST_TICKS = 10  # more values than this get ticks of their own choosing
_NUM_BINS = 400
SECONDS = FuncFormatter(lambda s, _: f"{s:g} s" if s >= 1 else f"{s * 1000:g} ms")


def draw_figures(folder: Path, summary: pd.DataFrame, results: list[Result]) -> None:
    """PNG files for a run: against what was swept if that is one number, and over time."""
    key = _swept_number(summary, results)
    if key:
        save(_throughput(summary, key), folder / "throughput.png")
        save(_latency(summary, key), folder / "latency.png")
    last = _last_point(results)
    if not key:
        save(_latency_distribution(last), folder / "latency.png")
    save(_kv_memory(last), folder / "kv_memory.png")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix says in which format."""
    # Neither date nor version in the file: equal runs give equal bytes.
    unsaid = {"Software": None} if path.suffix == ".png" else {"Date": None}
    with rc_context({"svg.hashsalt": "kvsim"}):  # ids in it are random otherwise
        figure.savefig(path, dpi=150, metadata=unsaid)


def _swept_number(summary: pd.DataFrame, results: list[Result]) -> str | None:
    """The swept key, when there is only one and its values are numbers."""
    keys = list(results[0].job.labels)
    if len(keys) != 1 or pd.api.types.is_bool_dtype(summary[keys[0]]):
        return None
    return keys[0] if pd.api.types.is_numeric_dtype(summary[keys[0]]) else None


def _last_point(results: list[Result]) -> list[Result]:
    """The first run of each system at the last point of the sweep."""
    last, first = results[-1].job, results[0].job
    return [
        result
        for result in results
        if result.job.labels == last.labels and result.job.scenario.seed == first.scenario.seed
    ]


def _throughput(summary: pd.DataFrame, key: str) -> Figure:
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    _draw_lines(axes, summary, key, "output_tokens_per_s")
    axes.set_ylabel("output tokens per second")
    axes.set_ylim(bottom=0)
    axes.set_title(f"Throughput against {_words(key)}", loc="left")
    _legend(figure)
    _note_runs(figure, summary)
    return figure


def _latency(summary: pd.DataFrame, key: str) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = {"ttft": "Time to first token", "tpot": "Time per output token"}
    for axes, (metric, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        _draw_lines(axes, summary, key, f"{metric}_p99_s", line_style=":", with_label=False)
        _draw_lines(axes, summary, key, f"{metric}_p50_s")
        if metric == "ttft":
            axes.set_yscale("log")
            _label_seconds(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(SECONDS)
        axes.set_title(f"{title}: p50 (solid), p99 (dotted)", loc="left")
    _legend(figure)
    _note_runs(figure, summary)
    return figure


def _draw_lines(
    axes: Axes,
    summary: pd.DataFrame,
    key: str,
    metric: str,
    *,
    line_style: str = "-",
    with_label: bool = True,
) -> None:
    """Mean over the seeds against the key, one line a system, with 95 % confidence intervals."""
    for number, (system, rows) in enumerate(summary.groupby("system", sort=False)):
        groups = rows.groupby(key, dropna=False)[metric]
        half_widths = groups.apply(lambda values: half_width_95(values.to_numpy()))
        has_intervals = half_widths.notna().any()
        axes.errorbar(
            groups.mean().index,
            groups.mean(),
            yerr=half_widths if has_intervals else None,
            label=str(system) if with_label else None,
            color=SYSTEM_COLOURS[number % len(SYSTEM_COLOURS)],
            marker=SYSTEM_MARKERS[number % len(SYSTEM_MARKERS)],
            linestyle=line_style,
            markersize=5,
            capsize=3,
        )
    _set_swept_axis(axes, summary, key)
    _tidy(axes)


def _set_swept_axis(axes: Axes, summary: pd.DataFrame, key: str) -> None:
    values = sorted(summary[key].unique())
    if values[0] > 0 and values[-1] / values[0] >= 8:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
    if len(values) <= _MOST_TICKS:
        axes.set_xticks(values, [f"{value:.4g}" for value in values])
    axes.set_xlabel(_words(key))


def _latency_distribution(results: list[Result]) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = {"first_token_ns": "Time to first token", "finished_ns": "End-to-end latency"}
    for axes, (column, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for number, result in enumerate(results):
            finished = result.records.requests.dropna(subset="finished_ns")
            if finished.empty:
                continue
            seconds = (finished[column] - finished["arrival_ns"]).to_numpy(np.float64) / 1e9
            axes.ecdf(
                seconds,
                label=result.job.system,
                color=SYSTEM_COLOURS[number % len(SYSTEM_COLOURS)],
            )
        axes.set_xscale("log")
        _label_seconds(axes.xaxis)
        axes.set_title(title, loc="left")
        axes.set_ylabel("share of requests")
        _tidy(axes)
    if len(results) > 1:
        _legend(figure)
    figure.supxlabel(_first_seed(results[0]), x=0.99, ha="right", **_SMALL)
    return figure


def _kv_memory(results: list[Result]) -> Figure:
    """The ledger over time, stacked, a panel for each system."""
    num_systems = len(results)
    figure = Figure(figsize=(8, 1.2 + 2.1 * num_systems), layout="constrained")
    panels = figure.subplots(num_systems, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    shown = [name for name in KVUsage._fields if _is_ever_used(results, name)]
    for axes, result in zip(panels, results, strict=True):
        edges_s, shares = _binned_shares(result.records.steps, shown)
        axes.stackplot(
            np.repeat(edges_s, 2)[1:-1],  # each bin as a step
            100 * np.repeat(shares, 2, axis=1),
            labels=[name.replace("_", "-") for name in shown],
            colors=[_CLASS_COLOURS[name] for name in shown],
        )
        axes.set_title(result.job.system, loc="left", fontsize="medium")
        axes.set_ylabel("% of KV slots")
        axes.set_ylim(0, 100)
        axes.margins(x=0)
        axes.set_xlim(left=0)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[-1].set_xlabel(f"simulated time (s); means over 1/{_NUM_BINS} of the time shown")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], frameon=False, loc="outside right center")
    figure.suptitle(
        f"KV memory over time, {_first_seed(results[0])}", x=0.01, ha="left", fontsize="large"
    )
    return figure


def _is_ever_used(results: list[Result], ledger_class: str) -> bool:
    return any(result.records.steps[ledger_class].any() for result in results)


def _binned_shares(
    steps: pd.DataFrame, ledger_classes: list[str]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Time-weighted mean shares of the pool in equal bins: edges [bins + 1], [classes, bins]."""
    duration_s = steps["duration_ns"].to_numpy() / 1e9
    edges_s = np.concatenate(([0.0], np.cumsum(duration_s)))
    bins_s = np.linspace(0, edges_s[-1], min(_NUM_BINS, len(steps)) + 1)
    num_slots = steps[list(KVUsage._fields)].iloc[0].sum()
    shares = []
    for name in ledger_classes:
        integral = np.concatenate(([0.0], np.cumsum(steps[name].to_numpy() * duration_s)))
        shares.append(np.diff(np.interp(bins_s, edges_s, integral)) / np.diff(bins_s) / num_slots)
    return bins_s, np.array(shares)


def _first_seed(result: Result) -> str:
    labels = [f"{_words(key)} {value}" for key, value in result.job.labels.items()]
    return ", ".join([*labels, f"seed {result.job.scenario.seed}"])


def _legend(figure: Figure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside upper center", ncols=3)


def _words(key: str) -> str:
    return key.rpartition(".")[2].replace("_", " ")


def _label_seconds(axis: Axis) -> None:
    """Ticks with their unit on a logarithmic axis, two or three to a power of ten."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1, 3)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(SECONDS)


def _note_runs(figure: Figure, summary: pd.DataFrame) -> None:
    num_seeds = summary["seed"].nunique()
    text = (
        f"mean of {num_seeds} runs, bars: 95 % confidence interval"
        if num_seeds > 1
        else "one run a point, so no interval"
    )
    figure.supxlabel(text, x=0.99, ha="right", **_SMALL)


def _tidy(axes: Axes) -> None:
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
