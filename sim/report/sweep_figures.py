"""The interactive figures of a sweep over anything but one number."""

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd

from sim.one_run import words
from sim.over_seeds import is_number, over_seeds
from sim.plots.scales import MOST_CELLS, is_time
from sim.report.figures import Figure, add_intervals, colour, log_seconds, marker, seconds_ticks
from sim.report.page import Plot
from sim.report.panels import Axis, Trace, panels, rounded
from sim.sweep.table import (
    OF_SAMPLE,
    SHOWN,
    Swept,
    is_grid,
    point_means,
    swept_keys,
    values_in_order,
)
from sim.tables import number, seconds_in_words

_MOST_LETTERS = 24  # in a line of a tick


def over_each(frame: pd.DataFrame, keys: list[str], swept: Swept) -> Iterator[Plot]:
    """A figure for each key."""
    means = "means over all other keys, with 95 % intervals over the seeds"
    for place, key in enumerate(keys):
        about = f"Over {words(key)}: {means if is_grid(frame) else OF_SAMPLE}."
        yield Plot(f"key-{place}", by_key(frame, key, swept), about)


def by_key(frame: pd.DataFrame, key: str, swept: Swept) -> Figure:
    """Both metrics over the values of a key: a line a system, the mean over all other keys.

    Of a sample, the points themselves: at each value the others are other ones.
    """
    draw = _lines if is_grid(frame) else _points
    traces = [draw(frame, key, metric) for metric in SHOWN]
    titles = [title.capitalize() for title in SHOWN.values()]
    x_axis = {"title": {"text": words(key)}, "automargin": True, **_categories(frame, key, swept)}
    y_axes = [
        log_seconds(of_metric) if is_time(metric) else {"rangemode": "tozero"}
        for metric, of_metric in zip(SHOWN, traces, strict=True)
    ]
    figure = panels(titles, traces, x_axis, y_axes, row_px=220)
    if not is_number(frame[key]) or not is_grid(frame):  # dots without lines stand side by side
        figure["layout"] |= {"scattermode": "group", "scattergap": 0.6}
    if not is_grid(frame):
        figure["layout"]["hovermode"] = "closest"
    return figure


def _categories(frame: pd.DataFrame, key: str, swept: Swept) -> Axis:
    """Of an axis: the values of a key, evenly spaced."""
    values = _labels(values_in_order(frame, key, swept))
    return {"type": "category", "categoryorder": "array", "categoryarray": values}


def _points(frame: pd.DataFrame, key: str, metric: str) -> list[Trace]:
    """The mean over the seeds of each point; the pointer on it says which it is."""
    unit = " s" if is_time(metric) else ""
    traces = []
    for place, (system, rows) in enumerate(frame.groupby("system", sort=False)):
        means = point_means(rows, metric)
        trace: Trace = {
            "type": "scatter",
            "mode": "markers",
            "name": str(system),
            "x": _labels(means[key]),
            "y": rounded(means[metric]),
            "text": _points_in_words(means[swept_keys(frame)]),
            "marker": {**marker(place), "color": colour(place)},
            "hovertemplate": f"{system} %{{y:.4g}}{unit}<br>%{{text}}<extra></extra>",
        }
        traces.append(trace)
    return traces


def _lines(frame: pd.DataFrame, key: str, metric: str) -> list[Trace]:
    unit = " s" if is_time(metric) else ""
    traces = []
    for place, (system, rows) in enumerate(frame.groupby("system", sort=False)):
        found = over_seeds(rows, key, metric)
        trace: Trace = {
            "type": "scatter",
            "mode": "lines+markers" if is_number(frame[key]) else "markers",
            "name": str(system),
            "x": _labels(found.index),
            "y": rounded(found["mean"]),
            "line": {"color": colour(place)},
            "marker": marker(place),
            "hovertemplate": f"{system} %{{y:.4g}}{unit}<extra></extra>",
        }
        add_intervals(trace, found["half_width"])
        traces.append(trace)
    return traces


def _points_in_words(points: pd.DataFrame) -> list[str]:
    """points: a column of each key."""
    return [
        "<br>".join(f"{words(str(key))} {value}" for key, value in point.items())
        for point in points.to_dict("records")
    ]


def heat_maps(frame: pd.DataFrame, metric: str, swept: Swept) -> Figure:
    """Means over the seeds at every pair of values of two keys, a panel for each system."""
    first, second = swept_keys(frame)
    means = frame.groupby(["system", second, first], sort=False)[metric].mean()
    systems = list(frame["system"].unique())
    traces = [[_heat_map(str(system), means, first, metric)] for system in systems]
    traces[0][0]["showscale"] = True
    x_axis: Axis = {"title": {"text": words(first)}, **_categories(frame, first, swept)}
    y_axis: Axis = {"title": {"text": words(second)}, **_categories(frame, second, swept)}
    y_axis["automargin"] = True
    figure = panels(list(map(str, systems)), traces, x_axis, [y_axis] * len(systems))
    figure["layout"] |= {"showlegend": False, "hovermode": "closest"}
    return figure


def _heat_map(system: str, means: pd.Series, first: str, metric: str) -> Trace:
    """means: by system, second key, first key; its colours are the same for all systems."""
    cells = means[system].unstack(first)
    values = cells.to_numpy(float)
    shade = np.log10 if is_time(metric) else np.asarray
    trace: Trace = {
        "type": "heatmap",
        "name": system,
        "x": _labels(cells.columns),
        "y": _labels(cells.index),
        "z": [rounded(shade(row)) for row in values],
        "zmin": rounded([shade(means.min())])[0],
        "zmax": rounded([shade(means.max())])[0],
        "text": [[_shown(value, metric) for value in row] for row in values],
        "colorscale": "Cividis",
        "showscale": False,
        "colorbar": {"thickness": 12, **(_log_ticks(means) if is_time(metric) else {})},
        "hovertemplate": f"%{{x}}, %{{y}}: %{{text}}<extra>{system}</extra>",
    }
    if max(cells.shape) <= MOST_CELLS:
        trace["texttemplate"] = "%{text}"
    return trace


def _log_ticks(means: pd.Series) -> dict[str, Any]:
    """Of a colour bar, which goes by the logarithm."""
    ticks = seconds_ticks(means.min(), means.max())
    return {**ticks, "tickvals": rounded(np.log10(ticks["tickvals"]))}


def _labels(values: Iterable[object]) -> list[str]:
    """Of ticks; long ones in several lines."""
    return ["<br>".join(wrap(str(value), _MOST_LETTERS)) for value in values]


def _shown(value: float, metric: str) -> str:
    if np.isnan(value):
        return ""
    return seconds_in_words(value) if is_time(metric) else number(value)
