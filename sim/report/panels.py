"""Figures for Plotly: panels below one another, one legend for all of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Trace = dict[str, Any]
Axis = dict[str, Any]

_ROW_PX, _MARGIN_PX = 190, 130
_DIGITS = 4  # of numbers that are drawn


def rounded(values: npt.ArrayLike) -> list[float | None]:
    """Numbers for a figure, with as many digits as can be seen; null where there is none."""
    return [
        float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None
        for value in np.asarray(values, dtype=np.float64)
    ]


def panels(
    titles: Sequence[str],
    traces: Sequence[Sequence[Trace]],
    x_axis: Axis,
    y_axes: Sequence[Axis],
    *,
    row_px: int = _ROW_PX,
) -> dict[str, Any]:
    """Data and layout of a figure with a panel for each title, all over the same x axis.

    traces, y_axes: of each panel. A label that several traces have is once in the legend, and a
    click there is on all of them.
    """
    data: list[Trace] = []
    layout: dict[str, Any] = {
        "height": _MARGIN_PX + row_px * len(titles),
        "margin": {"l": 70, "r": 24, "t": 60, "b": 50},
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "top", "yref": "container"},
        "showlegend": True,
        "hovermode": "x unified",
        "grid": {"rows": len(titles), "columns": 1, "pattern": "independent", "ygap": 0.3},
        "annotations": [],
    }
    known: set[str] = set()
    for place, (title, of_panel) in enumerate(zip(titles, traces, strict=True)):
        suffix = str(place + 1) if place else ""
        for trace in of_panel:
            label = trace["name"]
            shown = {"legendgroup": label, "showlegend": label not in known}
            known.add(label)
            data.append({"xaxis": f"x{suffix}", "yaxis": f"y{suffix}", **shown, **trace})
        is_last = place == len(titles) - 1
        layout[f"xaxis{suffix}"] = {
            **x_axis,
            "title": x_axis["title"] if is_last else {"text": ""},
            **({"matches": "x"} if place else {}),
        }
        layout[f"yaxis{suffix}"] = dict(y_axes[place])
        layout["annotations"].append(_title(title, suffix))
    return {"data": data, "layout": layout}


def _title(text: str, suffix: str) -> dict[str, Any]:
    """At the top left of a panel."""
    where = {"xref": f"x{suffix} domain", "yref": f"y{suffix} domain", "x": 0, "y": 1}
    return {"text": f"<b>{text}</b>", **where, "yanchor": "bottom", "showarrow": False}
