"""Figures of a sweep, chosen by what was swept."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.one_run import words
from sim.over_seeds import is_number, over_seeds
from sim.plots.colours import SYSTEM_COLOURS
from sim.plots.lines import latency, throughput
from sim.plots.scales import is_time
from sim.plots.style import (
    SECONDS,
    SYSTEM_MARKERS,
    dash,
    label_seconds,
    label_values,
    legend,
    note_runs,
    save,
    tidy,
)
from sim.sweep.heat_maps import heat_maps
from sim.sweep.table import (
    OF_SAMPLE,
    SHOWN,
    Swept,
    is_grid,
    point_means,
    swept_keys,
    values_in_order,
)
from sim.whole_file import whole_file

_MOST_LINES = 8
_BESIDE = 0.12  # points of the next system or value, of the distance between categories


def draw(folder: Path, frame: pd.DataFrame, swept: Swept) -> list[Path]:
    """PNG files into a folder: lines over one key; heat maps and grouped lines over two; over more,
    or of a sample, each key by itself, all others as they come.
    """
    written = []
    for name, figure in _figures(frame, swept):
        with whole_file(folder / f"{name}.png") as path:
            save(figure, path)
        written.append(folder / f"{name}.png")
    return written


def _figures(frame: pd.DataFrame, swept: Swept) -> Iterator[tuple[str, Figure]]:
    keys = swept_keys(frame)
    numbers = [key for key in keys if is_number(frame[key])]
    if len(keys) == 1 and numbers:
        yield "throughput", throughput(frame, keys[0])
        yield "latency", latency(frame, keys[0])
        return
    for metric in SHOWN:
        if not frame[metric].notna().any():
            continue
        if len(numbers) == len(keys) == 2:
            yield f"{_short(metric)}_map", heat_maps(frame, metric)
        if len(keys) == 2 and is_grid(frame):
            yield f"{_short(metric)}_lines", grouped_lines(frame, metric)
        elif keys:
            yield f"{_short(metric)}_by_key", by_key(frame, metric, swept)


def _short(metric: str) -> str:
    return metric.partition("_p")[0] if metric.startswith("ttft") else "throughput"


def grouped_lines(frame: pd.DataFrame, metric: str) -> Figure:
    """A panel for each system: over the key of most values, a line for each value of the other."""
    keys = sorted(swept_keys(frame), key=lambda key: _rank(frame, key))
    over, group = keys[-1], keys[0]
    systems = list(frame["system"].unique())
    figure = Figure(figsize=(1.5 + 4.2 * len(systems), 4.4), layout="constrained")
    panels = figure.subplots(1, len(systems), squeeze=False, sharey=True)[0]
    for axes, system in zip(panels, systems, strict=True):
        of_system = frame[frame["system"] == system]
        by_value = of_system.groupby(group, dropna=False, sort=is_number(frame[group]))
        for place, (value, rows) in enumerate(by_value):
            if place == _MOST_LINES:
                break
            _line(axes, rows, over, metric, place, _value(value))
        axes.set_title(str(system), loc="left")
        axes.set_xlabel(words(over))
    for axes in panels:  # once all are drawn, for they share their range
        _scale(axes, frame, metric)
    panels[0].set_ylabel(SHOWN[metric])
    legend(figure, words(group), _MOST_LINES)
    note_runs(figure, frame)
    return figure


def _rank(frame: pd.DataFrame, key: str) -> tuple[bool, int]:
    return is_number(frame[key]), frame[key].nunique()


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def by_key(frame: pd.DataFrame, metric: str, swept: Swept) -> Figure:
    """A panel for each key: a line a system, the mean over all points with a value of the key.

    Of a sample, the points themselves: at each value the others are other ones.
    """
    keys, has_lines = swept_keys(frame), is_grid(frame)
    num_columns = min(len(keys), 3)
    num_rows = -(-len(keys) // num_columns)
    figure = Figure(figsize=(4.6 * num_columns, 1 + 3.6 * num_rows), layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False, sharey=True).ravel()
    for axes, key in zip(panels, keys, strict=False):
        values = values_in_order(frame, key, swept)
        for place, (system, rows) in enumerate(frame.groupby("system", sort=False)):
            if has_lines:
                _line(axes, rows, key, metric, place, str(system))
            else:
                _points(axes, rows, key, metric, place, str(system), values)
        axes.set_xlabel(words(key))
    for axes in panels[: len(keys)]:  # once all are drawn, for they share their range
        _scale(axes, frame, metric)
    for axes in panels[len(keys) :]:
        axes.set_axis_off()
    figure.supylabel(SHOWN[metric], fontsize="medium")
    legend(figure, most_columns=4)
    note_runs(figure, frame, has_bars=has_lines, note="" if has_lines else OF_SAMPLE)
    return figure


def _points(
    axes: Axes,
    rows: pd.DataFrame,
    key: str,
    metric: str,
    place: int,
    label: str,
    values: list[Any],
) -> None:
    """The mean over the seeds of each point; systems stand side by side at values of the key."""
    means = point_means(rows, metric)
    axes.plot(
        np.array([values.index(value) for value in means[key]]) + _BESIDE * place,
        means[metric],
        label=label,
        color=SYSTEM_COLOURS[place % len(SYSTEM_COLOURS)],
        marker=SYSTEM_MARKERS[place % len(SYSTEM_MARKERS)],
        linestyle="none",
        markersize=5,
    )
    label_values(axes, [_value(value) for value in values])
    tidy(axes)


def _line(axes: Axes, rows: pd.DataFrame, key: str, metric: str, place: int, label: str) -> None:
    """Means at the values of a key, evenly spaced, with intervals over the seeds.

    Between values that are no numbers there is nothing, so no line: points, side by side.
    """
    found, is_line = over_seeds(rows, key, metric), is_number(rows[key])
    has_intervals = found["half_width"].notna().any()
    axes.errorbar(
        np.arange(len(found)) + (0 if is_line else _BESIDE * place),
        found["mean"],
        yerr=found["half_width"].to_numpy() if has_intervals else None,
        label=label,
        color=SYSTEM_COLOURS[place % len(SYSTEM_COLOURS)],
        marker=SYSTEM_MARKERS[place % len(SYSTEM_MARKERS)],
        linestyle=dash(place) if is_line else "none",
        markersize=5,
        capsize=3,
    )
    label_values(axes, [_value(value) for value in found.index])
    tidy(axes)


def _scale(axes: Axes, frame: pd.DataFrame, metric: str) -> None:
    values = frame[metric].dropna()
    if is_time(metric) and values.min() > 0 and values.max() / values.min() > 10:
        axes.set_yscale("log")
        label_seconds(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
        if is_time(metric):
            axes.yaxis.set_major_formatter(SECONDS)
