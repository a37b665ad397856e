"""The curve of a plan, for the page."""

from typing import Any

import numpy as np
import pandas as pd

from sim.metrics import half_width
from sim.plots.scales import MOST_OF_LIMIT, WIDE, log_ticks
from sim.report.figures import Figure, colour, marker
from sim.report.panels import Trace, panels, rounded

_FAINT = {"color": "#888888", "width": 1}


def curve(runs: pd.DataFrame, plan: dict[str, Any]) -> Figure:
    """The share of each limit that is used, against what was sought.

    runs: rows of curve.csv, of one alternative. plan: what plan.json says of it.
    """
    goal, answer, confidence = plan["find"], plan["answer"], plan["confidence"]
    traces = [
        _line(runs, goal, name, place, confidence) for place, name in enumerate(plan["promises"])
    ]
    x_axis: dict[str, object] = {"title": {"text": plan["heading"]}}
    if runs[goal].max() >= WIDE * runs[goal].min() > 0:
        x_axis |= {"type": "log", "tickvals": log_ticks(runs[goal].min(), runs[goal].max())}
    y_axis = {"title": {"text": "share of the limit"}, "range": [0, MOST_OF_LIMIT * 1.02]}
    figure = panels([""], [traces], x_axis, [y_axis], row_px=340)
    limit = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1}
    lines = [
        {**limit, "line": {**_FAINT, "dash": "dash"}, "label": _label("limit", yanchor="bottom")}
    ]
    if answer is not None:
        at_answer = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": answer, "x1": answer}
        lines.append(
            {
                **at_answer,
                "line": {**_FAINT, "dash": "dot"},
                "label": _label("answer", textangle=0, xanchor="left"),
            }
        )
    figure["layout"]["shapes"] = lines
    return figure


def _label(text: str, **place: object) -> dict[str, object]:
    return {"text": text, "textposition": "end", "font": {"color": "#888888"}, **place}


def _line(runs: pd.DataFrame, goal: str, promise: str, place: int, confidence: float) -> Trace:
    groups = runs.groupby(goal)[f"ratio {promise}"]
    means = groups.mean().replace(np.inf, np.nan).fillna(MOST_OF_LIMIT).clip(upper=MOST_OF_LIMIT)
    half_widths = groups.apply(_half_width, confidence)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": promise,
        "x": rounded(means.index),
        "y": rounded(means),
        "error_y": {"type": "data", "array": rounded(half_widths), "thickness": 1.2},
        "line": {"color": colour(place + 1)},
        "marker": marker(place),
        "hovertemplate": f"{promise}: %{{y:.0%}} of its limit<extra></extra>",
    }


def _half_width(ratios: pd.Series, confidence: float) -> float:
    values = ratios.to_numpy(float)
    width = half_width(values, confidence) if np.isfinite(values).all() else None
    return 0.0 if width is None else width
