"""A synthetic workload that resembles a trace."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sim.scenario.file import load_scenario
from sim.scenario.mistakes import validated
from sim.sources import build_workload
from sim.trace.beside import Beside, write_all
from sim.trace.sessions import fit_sessions
from workloads import Trace, Workload, sharing_rows

_MOST_WINDOWS = 60
_LEAST_IN_A_WINDOW = 30  # requests or sessions, on average
SHORTEST_S = 1e-6  # that times must be spread over, not to count as one
_ROOM = 2  # that drawn sessions may outgrow those of the trace
_AT_ONCE = {"constant": {"rate": 1e9}}


@dataclass(frozen=True)
class Fit:
    """A scenario, and the texts of the files beside it, by path.

    notes: what was fitted how, and what was not, a line each.
    """

    scenario: dict[str, Any]
    files: dict[Path, str]
    notes: tuple[str, ...]


def fit(trace: Trace, out: Path) -> Fit:
    """What is to be written to `out`, and beside it."""
    beside = Beside(out)
    arrivals, notes = _arrivals(trace)
    parts, more_notes = _parts(trace, beside)
    name = re.sub("[^A-Za-z0-9]+", "-", out.stem).strip("-") or "fitted"
    longest = int(trace.prompt_tokens.max() + trace.output_tokens.max())
    if trace.previous is not None:
        longest *= _ROOM
    scenario = {
        "name": name[:40],
        "engine": {"num_blocks": "auto", "max_model_len": longest},
        "workload": {"requests": len(trace), "arrivals": arrivals, **parts},
    }
    if trace.priority is not None and trace.priority.any():
        notes = (*notes, "not fitted: priorities; see `workload.classes`")
    return Fit(scenario, beside.texts, (*notes, *more_notes))


def write(fitted: Fit, out: Path) -> None:
    """The scenario and its files.

    Raises UserError for a place that cannot be written to, and a trace beyond what scenarios hold.
    """
    validated(fitted.scenario, f"{out} (not written)")
    text = yaml.safe_dump(fitted.scenario, sort_keys=False)
    write_all({**fitted.files, out: text})


def drawn(out: Path) -> Workload:
    """What is in the workload of a scenario that was written when it is drawn once."""
    return build_workload(load_scenario(out))


def _arrivals(trace: Trace) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Rates by window: of sessions, where there are any."""
    what = "requests" if trace.previous is None else "sessions"
    if trace.arrival_ns is None:
        return _AT_ONCE, (f"no times: all {what} at once, unless workload.arrivals is changed",)
    starts = slice(None) if trace.previous is None else trace.previous < 0
    times_s = trace.arrival_ns[starts] / 1e9
    span_s = float(times_s[-1] - times_s[0])
    if span_s < SHORTEST_S:
        return _AT_ONCE, (f"all {what} at once",)
    # The first opens the span: there are as many gaps as others.
    after = times_s[1:] - times_s[0]
    num_windows = min(max(len(after) // _LEAST_IN_A_WINDOW, 1), _MOST_WINDOWS)
    counts, _ = np.histogram(after, bins=num_windows, range=(0, span_s))
    window_s = span_s / num_windows
    rates = [float(f"{count / window_s:.6g}") for count in counts]
    windows = {"window_s": float(f"{window_s:.9g}"), "rates": rates}
    return {"windows": windows}, ("arrivals are Poisson within a window",)


def _parts(trace: Trace, beside: Beside) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What prompts and outputs are, as keys of `workload`."""
    if trace.previous is not None:
        return fit_sessions(trace, beside)
    if trace.segments is not None:
        rows = sharing_rows(trace)
        if rows.shared_tokens.any():
            note = "lengths, outputs and what prompts share are drawn together, request by request"
            return {"resample": beside.rows(rows)}, (note,)
    parts = {
        "prompts": {"unique": beside.lengths("prompts", trace.prompt_tokens)},
        "outputs": beside.lengths("outputs", trace.output_tokens),
    }
    return parts, ("prompts and outputs are drawn each by itself",)
