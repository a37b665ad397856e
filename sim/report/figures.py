"""The interactive figures of a report, from the same tables as those of sim/plots."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from sim.attribution import TTFT_PARTS
from sim.binned import binned, pool_shares
from sim.explain.bands import BANDS, band
from sim.explain.words import WORDS
from sim.one_run import OneRun, words
from sim.over_seeds import over_seeds
from sim.plots.colours import (
    HATCHED_PART,
    LEDGER_COLOURS,
    PART_COLOURS,
    PREFIX_COLOURS,
    QUEUE_COLOURS,
    SYSTEM_COLOURS,
)
from sim.plots.scales import LEAST_LABELLED_PERCENT, WIDE
from sim.prefix_shares import LABELS, prefix_shares
from sim.report.panels import Trace, panels, rounded
from sim.tables import seconds_in_words

Figure = dict[str, Any]
FloatArray = npt.NDArray[np.float64]

_DASHES = {50: "solid", 90: "dash", 99: "dot"}
_SYSTEM_DASHES = ("solid", "dash", "dot", "dashdot")
# One more than colours: 42 systems before a pair repeats.
_SYMBOLS = ("circle", "square", "diamond", "triangle-down", "triangle-up", "pentagon", "x")
_MOST_POINTS = 400  # of a distribution
_TIME = {"title": {"text": "simulated time (s)"}, "hoverformat": ".4g"}
_FAINT = "rgba(128,128,128,0.18)"  # on light ground and dark
_BAR_PX = 42
_PERCENTS = [0, 20, 40, 60, 80, 100]
_HATCH = {"shape": "/", "fgcolor": "white", "bgcolor": PART_COLOURS[HATCHED_PART]}
_HATCHED = {"color": PART_COLOURS[HATCHED_PART], "pattern": _HATCH}


def colour(number: int) -> str:
    """Of the system with a number, as in all figures."""
    return SYSTEM_COLOURS[number % len(SYSTEM_COLOURS)]


def marker(number: int) -> dict[str, Any]:
    """Of the system with a number, or of whatever else has a line of its own."""
    return {"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 7}


def _dash(number: int) -> str:
    """Of a line without markers, by turns through the colours."""
    return _SYSTEM_DASHES[number // len(SYSTEM_COLOURS) % len(_SYSTEM_DASHES)]


class _Line(NamedTuple):
    """A metric of the summary as a line. scale: of its values, to the unit."""

    metric: str
    what: str = ""
    unit: str = ""
    scale: float = 1
    dash: str = "solid"


def throughput(summary: pd.DataFrame, key: str) -> Figure:
    """Output tokens per second against what was swept, with intervals."""
    traces = _lines(summary, key, _Line("output_tokens_per_s"))
    y_axis = {"title": {"text": "output tokens per second"}, "rangemode": "tozero"}
    return panels(["Throughput"], [traces], _swept_axis(summary, key), [y_axis], row_px=340)


def latency(summary: pd.DataFrame, key: str) -> Figure:
    """TTFT and TPOT against what was swept: three percentiles."""
    of_panels = [
        [_Line(f"ttft_p{p}_s", f" p{p}", " s", 1, dash) for p, dash in _DASHES.items()],
        [_Line(f"tpot_p{p}_s", f" p{p}", " ms", 1000, dash) for p, dash in _DASHES.items()],
    ]
    traces = [
        [trace for line in lines for trace in _lines(summary, key, line)] for lines in of_panels
    ]
    titles = ["Time to first token", "Time per output token"]
    y_axes = [log_seconds(traces[0]), MILLISECONDS]
    return panels(titles, traces, _swept_axis(summary, key), y_axes, row_px=270)


def _lines(summary: pd.DataFrame, key: str, line: _Line) -> list[Trace]:
    """Means over the seeds with intervals, a line for each system."""
    traces = []
    for number, (system, rows) in enumerate(summary.groupby("system", sort=False)):
        found = line.scale * over_seeds(rows, key, line.metric)
        trace: Trace = {
            "type": "scatter",
            "mode": "lines+markers",
            "name": str(system),
            "x": rounded(found.index),
            "y": rounded(found["mean"]),
            "line": {"color": colour(number), "dash": line.dash},
            "marker": marker(number),
            "hovertemplate": f"{system}{line.what} %{{y:.4g}}{line.unit}<extra></extra>",
        }
        add_intervals(trace, found["half_width"])
        traces.append(trace)
    return traces


def add_intervals(trace: Trace, half_widths: pd.Series) -> None:
    """Bars, where there are any."""
    if half_widths.notna().any():
        trace["error_y"] = {"type": "data", "array": rounded(half_widths), "thickness": 1.2}


def _swept_axis(summary: pd.DataFrame, key: str) -> dict[str, Any]:
    values = sorted(summary[key].unique())
    axis: dict[str, Any] = {"title": {"text": words(key)}, "tickvals": rounded(values)}
    if values[0] > 0 and values[-1] / values[0] >= WIDE:
        axis["type"] = "log"
    return axis


def seconds_ticks(low_s: float, high_s: float) -> dict[str, Any]:
    """Every one with its unit; more to a power of ten where there are few of these."""
    bases = (1, 3) if high_s > 10 * low_s else (1, 1.5, 2, 3, 4, 5, 7)
    values = [base * 10.0**power for power in range(-5, 6) for base in bases]
    words = [f"{s:.3g} s" if s >= 1 else f"{s * 1000:.3g} ms" for s in values]
    return {"tickvals": values, "ticktext": words}


def log_seconds(traces: list[Trace]) -> dict[str, Any]:
    """A logarithmic axis for times."""
    values = [value for trace in traces for value in trace["y"] if value]
    return {"type": "log", **seconds_ticks(min(values, default=1), max(values, default=1))}


MILLISECONDS: dict[str, Any] = {"rangemode": "tozero", "ticksuffix": " ms"}


def distributions(runs: list[OneRun]) -> Figure:
    """TTFT and end-to-end latency by the share of requests that take no longer."""
    ends = {"first_token_ns": "Time to first token", "finished_ns": "End-to-end latency"}
    percents = np.linspace(0, 100, _MOST_POINTS + 1)
    traces = []
    for stamp in ends:
        of_panel = []
        for number, run in enumerate(runs):
            served = run.requests.dropna(subset="finished_ns")
            times_s = (served[stamp] - served["arrival_ns"]).to_numpy(np.float64) / 1e9
            of_panel.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": run.system,
                    "x": rounded(percents),
                    "y": rounded(np.percentile(times_s, percents, method="inverted_cdf")),
                    "line": {"color": colour(number), "dash": _dash(number), "shape": "hv"},
                    "hovertemplate": f"{run.system} %{{y:.3g}} s<extra></extra>",
                }
            )
        traces.append(of_panel)
    title = {"text": "% of requests that take no longer"}
    x_axis = {"title": title, "range": [0, 100], "tickvals": _PERCENTS}
    y_axes = [log_seconds(of_panel) for of_panel in traces]
    return panels(list(ends.values()), traces, x_axis, y_axes, row_px=250)


def ledger(runs: list[OneRun]) -> Figure:
    """The shares of the pool over time, stacked, a panel for each run."""
    traces = []
    filled = LEDGER_COLOURS | {"free": _FAINT}
    for run in runs:
        used = [name for name in LEDGER_COLOURS if run.steps[name].any()]
        edges_s, shares = pool_shares(run.steps, used)
        traces.append(
            [
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name.replace("_", "-"),
                    "legendrank": [*LEDGER_COLOURS].index(name),
                    "stackgroup": "pool",
                    **_steps(edges_s, 100 * values),
                    "line": {"width": 0, "shape": "hv", "color": filled[name]},
                    "fillcolor": filled[name],
                    "hovertemplate": f"{name.replace('_', '-')} %{{y:.1f}} %<extra></extra>",
                }
                for name, values in zip(used, shares, strict=True)
            ]
        )
    y_axis = {"title": {"text": "% of KV slots"}, "range": [0, 100]}
    return panels([run.system for run in runs], traces, _TIME, [y_axis] * len(runs))


def queues(runs: list[OneRun]) -> Figure:
    """Sequences that run and that wait over time, a panel for each run."""
    traces = []
    for run in runs:
        edges_s, means = binned(run.steps, list(QUEUE_COLOURS))
        traces.append(
            [
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    **_steps(edges_s, values),
                    "line": {"shape": "hv", "color": colour, "width": 1.5},
                    "hovertemplate": f"%{{y:.3g}} {name}<extra></extra>",
                }
                for (name, colour), values in zip(QUEUE_COLOURS.items(), means, strict=True)
            ]
        )
    y_axis = {"title": {"text": "sequences"}, "rangemode": "tozero"}
    return panels([run.system for run in runs], traces, _TIME, [y_axis] * len(runs), row_px=160)


def _steps(edges_s: FloatArray, values: FloatArray) -> Trace:
    """Means between edges, for a line of the shape `hv`: the last holds up to the last edge."""
    return {"x": rounded(edges_s), "y": rounded(np.append(values, values[-1]))}


def prefix_cache(runs: list[OneRun]) -> Figure:
    """What was found of prompts, and why not more, a bar for each run that has looked."""
    shares = prefix_shares(runs)
    names = list(shares.index)
    bars = [
        _bar(LABELS[name], colour, 100 * shares[name].to_numpy(), names)
        for name, colour in PREFIX_COLOURS.items()
        if shares[name].any()
    ]
    return _bars(["Prompt tokens looked for"], [bars], "% of prompt tokens", [names])


def attribution(runs: list[OneRun]) -> Figure:
    """What TTFT is made of, of all and of the slow requests, a panel for each run."""
    traces, names = [], []
    for run in runs:
        bands = [band(run.requests, "ttft", percent) for percent in BANDS]
        of_run = [
            f"{what}: {seconds_in_words(b.mean_s)}"
            for what, b in zip(BANDS.values(), bands, strict=True)
        ]
        names.append(of_run)
        traces.append(
            [
                _bar(
                    WORDS[part].label,
                    PART_COLOURS[part],
                    np.array([100 * b.share(part) for b in bands]),
                    of_run,
                )
                | {"legendrank": TTFT_PARTS.index(part)}
                | ({"marker": _HATCHED} if part == HATCHED_PART else {})
                for part in TTFT_PARTS
                if any(b.parts_s[part] for b in bands)
            ]
        )
    return _bars([run.system for run in runs], traces, "% of TTFT", names)


def _bar(label: str, colour: str, percents: Any, names: list[str]) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "name": label,
        "x": rounded(percents),
        "y": names,
        "marker": {"color": colour},
        "text": [f"{p:.0f}" if p >= LEAST_LABELLED_PERCENT else "" for p in percents],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "constraintext": "both",
        "hovertemplate": f"{label} %{{x:.1f}} %<extra></extra>",
    }


def _bars(
    titles: list[str], traces: list[list[Trace]], x_title: str, names: list[list[str]]
) -> Figure:
    x_axis = {"title": {"text": x_title}, "range": [0, 100], "tickvals": _PERCENTS}
    y_axes = [{"autorange": "reversed", "automargin": True, "type": "category"}] * len(titles)
    figure = panels(titles, traces, x_axis, y_axes, row_px=40 + _BAR_PX * max(map(len, names)))
    figure["layout"] |= {"barmode": "stack", "hovermode": "closest", "bargap": 0.25}
    return figure
