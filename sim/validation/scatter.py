"""Predicted against measured, as a figure."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from sim.plots.colours import SYSTEM_COLOURS
from sim.plots.style import SECONDS, SYSTEM_MARKERS, save
from sim.validation.score import Scored

_PANELS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "span": "batch latency"}
_BAND = 0.1  # drawn around equality


def draw_scatter(folder: Path, cases: dict[str, list[Scored]]) -> None:
    """scatter.png and scatter.svg: a panel for each metric, a point for each row or request."""
    values = {metric: _values(metric, cases) for metric in _PANELS}
    panels = {metric: found for metric, found in values.items() if found}
    num_legend_rows = (len(cases) + 2) // 2
    size = (0.6 + 3.6 * len(panels), 3.9 + 0.22 * num_legend_rows)
    figure = Figure(figsize=size, layout="compressed")
    for place, (metric, by_case) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), place)
        _draw_panel(axes, _PANELS[metric], by_case, list(cases))
    figure.legend(
        handles=_legend_handles(list(cases)), loc="outside lower center", ncols=2, frameon=False
    )
    for suffix in ("png", "svg"):
        save(figure, folder / f"scatter.{suffix}")


def _values(
    metric: str, cases: dict[str, list[Scored]]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Case -> measured and predicted seconds: of requests where they are known, else of rows."""
    found = {}
    for name, scored in cases.items():
        real, ours = [], []
        for one in scored:
            key = "span_s" if metric == "span" else f"{metric}_mean_s"
            if one.times is not None and one.point.requests is not None and metric != "span":
                is_there = one.point.requests[f"{metric}_s"].notna()  # no TPOT of one token
                real += one.point.requests.loc[is_there, f"{metric}_s"].tolist()
                ours += one.times.loc[is_there, f"{metric}_s"].tolist()
            elif key in one.errors:
                real.append(one.point.measured[key])
                ours.append(one.predicted[key])
        if real:
            found[name] = np.array(real), np.array(ours)
    return found


def _draw_panel(
    axes: Axes, title: str, by_case: dict[str, tuple[np.ndarray, np.ndarray]], names: list[str]
) -> None:
    everything = np.concatenate([np.concatenate(pair) for pair in by_case.values()])
    everything = everything[np.isfinite(everything) & (everything > 0)]
    ends = np.array([everything.min() / 1.3, everything.max() * 1.3])
    axes.fill_between(ends, ends * (1 - _BAND), ends * (1 + _BAND), color="#EEEEEE", lw=0)
    axes.plot(ends, ends, color="#555555", lw=0.8)
    for name, (real, ours) in by_case.items():
        place = names.index(name)
        size = 26 if len(real) < 100 else 10
        axes.scatter(real, ours, s=size, **_style(place), alpha=0.7, lw=0)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, box_aspect=1)
    for axis in (axes.xaxis, axes.yaxis):
        steps = (1,) if ends[1] > 100 * ends[0] else (1, 2, 5)
        axis.set_major_locator(LogLocator(subs=steps, numticks=8))
        axis.set_major_formatter(SECONDS)
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(title, loc="left")
    axes.set_xlabel("measured")
    axes.set_ylabel("predicted")


def _style(place: int) -> dict[str, Any]:
    return {
        "color": SYSTEM_COLOURS[place % len(SYSTEM_COLOURS)],
        "marker": SYSTEM_MARKERS[place % len(SYSTEM_MARKERS)],
    }


def _legend_handles(names: list[str]) -> list[Line2D]:
    handles: list[Line2D] = [
        Line2D([], [], ls="", label=name, **_style(place)) for place, name in enumerate(names)
    ]
    return [*handles, Line2D([], [], color="#555555", lw=0.8, label="equal; grey within 10 %")]
