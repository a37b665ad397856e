"""What `kvsim explain` does: print where the time of requests went, or the life of one."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table

from sim.errors import UserError
from sim.explain.bands import LATENCIES, SLOW, Band, band, largest_parts, verdict
from sim.explain.selection import as_numbers, read_steps, select
from sim.explain.timeline import timeline
from sim.explain.words import WORDS
from sim.progress import busy
from sim.terminal import print_prose, print_table

_TITLES = {"ttft": "time to first token", "e2e": "end-to-end latency"}


def explain(
    folder: Path,
    request: int | None,
    system: str | None,
    seed: int | None,
    at: list[str],
    *,
    as_json: bool,
) -> None:
    """Print where the time of the requests of a run went or, with a number, of one of them.

    Raises UserError where not exactly one run, or no request of it, is meant.
    """
    with busy(f"reading {folder}"):
        run, requests = select(folder, system, seed, at)
    if request is not None:
        _explain_request(folder, run, requests, request, as_json=as_json)
        return
    if not requests["finished_ns"].notna().any():
        raise UserError(f"{folder}: has no request that was served in {_name(run)}")
    bands = {
        latency: {"all": band(requests, latency, 0), "slowest": band(requests, latency, SLOW)}
        for latency in LATENCIES
    }
    if as_json:
        print(
            json.dumps(
                {"run": as_numbers(run), **{name: _as_json(name, b) for name, b in bands.items()}}
            )
        )
        return
    print(f"{_name(run)}\n")
    for latency, of_latency in bands.items():
        print_table(_table(latency, **of_latency))
        slow = of_latency["slowest"]
        print_prose(verdict(slow, latency))
        for part in largest_parts(slow):
            print_prose(f"  {WORDS[part].label}: look at {WORDS[part].settings}")
        print()


def _name(run: dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in run.items())


def _table(latency: str, all: Band, slowest: Band) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"\n{_TITLES[latency]}")
    for heading, what in (
        ("all", all),
        ("slowest", slowest),
    ):
        unit = "requests" if what.requests != 1 else "request"
        table.add_column(f"{heading}\n{what.requests:,} {unit}, s", justify="right")
        table.add_column(f"{heading}\n%", justify="right")
    for name in all.parts_s:
        if all.parts_s[name] or slowest.parts_s[name]:
            cells = [
                cell
                for what in (all, slowest)
                for cell in (f"{what.parts_s[name]:.3f}", f"{100 * what.share(name):.0f}")
            ]
            table.add_row(WORDS[name].label, *cells)
    table.add_row("altogether", f"{all.mean_s:.3f}", "", f"{slowest.mean_s:.3f}", "")
    return table


def _as_json(latency: str, bands: dict[str, Band]) -> dict[str, Any]:
    slow = bands["slowest"]
    return {
        **{
            name: {
                "requests": what.requests,
                "least_s": what.least_s,
                "mean_s": what.mean_s,
                "parts_s": {
                    part.removesuffix("_ns"): mean_s for part, mean_s in what.parts_s.items()
                },
            }
            for name, what in bands.items()
        },
        "verdict": verdict(slow, latency),
        "settings": [WORDS[part].settings for part in largest_parts(slow)],
    }


def _explain_request(
    folder: Path, run: dict[str, str], requests: pd.DataFrame, number: int, *, as_json: bool
) -> None:
    rows = requests[requests["request"] == number]
    if rows.empty:
        last = int(requests["request"].max())
        raise UserError(f"{folder}: got request {number}, expected one of 0 to {last}")
    with busy(f"reading {folder}"):
        events = timeline(rows.iloc[0], read_steps(folder, run))
    if as_json:
        listed = [{"time_ns": time_ns, "event": words} for time_ns, words in events]
        print(json.dumps({"run": as_numbers(run), "request": number, "events": listed}))
        return
    print(f"request {number} of {_name(run)}\n")
    for time_ns, words in events:
        at = "" if time_ns is None else f"{time_ns / 1e9:.6f} s"
        print_prose(f"{at:>16}  {words}")
