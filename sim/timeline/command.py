"""What `kvsim timeline` does: simulate a run again and write what happened as trace events."""

import sys
from bisect import bisect_right
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sim.errors import UserError
from sim.explain.selection import as_numbers
from sim.rerun import Chosen, Window, choose, watch
from sim.timeline.clip import clipped
from sim.timeline.history import History
from sim.timeline.parts import STEPS, Parts
from sim.timeline.trace_events import Event, events_of, num_events_of, write_events
from sim.whole_file import check_suffix


def write_timeline(
    folder: Path,
    system: str | None,
    seed: int | None,
    at: list[str],
    *,
    window: Window,
    most_events: int,
    out: Path,
) -> None:
    """Write the timeline of a run as JSON, gzipped if `out` ends with .gz.

    Raises UserError where not exactly one run is meant or it cannot be simulated again.
    """
    check_suffix(out, "--out", (".json", ".json.gz"))
    chosen = choose(folder, system, seed, at)
    history = History(window, most_events)
    watch(chosen, history, window)
    end_ns = history.end_ns if window.end_ns is None else min(window.end_ns, history.end_ns)
    if window.start_ns >= end_ns:
        raise UserError(
            f"--window: begins at {window.start_ns / 1e9:g} s, expected less than the "
            f"{history.end_ns / 1e9:.3f} s of the run"
        )
    cut_ns, events = _fitting(history.parts(), window.start_ns, end_ns, most_events)
    is_cut = history.is_full or cut_ns < end_ns
    about = _about(chosen, window.start_ns, cut_ns, is_cut=is_cut)
    write_events(out, events, about)
    cut = f"; it ends there since --events is {most_events:,}" if is_cut else ""
    print(
        f"{out}: {len(events):,} events, {about['from_s']:.6f} s to {about['to_s']:.6f} s of "
        f"{chosen.name}{cut}; open it at ui.perfetto.dev or chrome://tracing",
        file=sys.stderr,
    )


def _about(chosen: Chosen, start_ns: int, end_ns: int, *, is_cut: bool) -> dict[str, Any]:
    return {
        "run": chosen.folder.name,
        **as_numbers(chosen.run),
        "from_s": start_ns / 1e9,
        "to_s": end_ns / 1e9,
        "is_cut_by_events": is_cut,
        "kvsim": version("kvsim"),
        "times": "of the simulated clock, microseconds since its start; exact to the nanosecond",
    }


def _fitting(parts: Parts, start_ns: int, end_ns: int, most_events: int) -> tuple[int, list[Event]]:
    """The longest window from start_ns on, up to end_ns, whose events are not too many.

    It ends with end_ns or where a step begins. Raises UserError where no step fits.
    """
    ends_ns = sorted({p.start_ns for p in parts.slices if p.track == STEPS} | {end_ns})
    ends_ns = [time_ns for time_ns in ends_ns if start_ns < time_ns <= end_ns]

    def num_events(time_ns: int) -> int:
        return num_events_of(clipped(parts, start_ns, time_ns))

    num_fit = len(ends_ns)
    if num_events(end_ns) > most_events:
        num_fit = bisect_right(ends_ns, most_events, key=num_events)
    if not num_fit:
        least = num_events(ends_ns[0])
        raise UserError(
            f"--events: got {most_events}, expected at least {least}, of the first step alone"
        )
    cut_ns = ends_ns[num_fit - 1]
    return cut_ns, events_of(clipped(parts, start_ns, cut_ns))
