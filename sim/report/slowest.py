"""The slowest requests, with what their time was."""

import pandas as pd

from sim.attribution import TTFT_PARTS
from sim.explain.words import WORDS
from sim.one_run import OneRun
from sim.plots.colours import HATCHED_PART, PART_COLOURS
from sim.report.page import Bar, Cell, Table

_MOST_OF_EACH, _LEAST_OF_EACH, _MOST_ROWS = 10, 3, 60  # of systems and of the table
HEADINGS = (
    "system",
    "request",
    "arrival\ns",
    "prompt\ntokens",
    "cached\ntokens",
    "output\ntokens",
    "TTFT\ns",
    "E2E\ns",
    "what TTFT was",
    "most of it",
)


def slowest(runs: list[OneRun]) -> Table:
    """Those of each run with the longest times to first token."""
    num_shown = min(_MOST_OF_EACH, max(_LEAST_OF_EACH, _MOST_ROWS // len(runs)))
    return Table(HEADINGS, [row for run in runs for row in _rows(run, num_shown)])


def _rows(run: OneRun, num_shown: int) -> list[list[Cell | Bar]]:
    served = run.requests.dropna(subset="finished_ns")
    ttft_ns = (served["first_token_ns"] - served["arrival_ns"]).astype("int64")
    places = ttft_ns.sort_values(ascending=False, kind="stable").index[:num_shown]
    return [_row(run.system, served.loc[place]) for place in places]


def _row(system: str, request: pd.Series) -> list[Cell | Bar]:
    arrival_ns = int(request["arrival_ns"])
    ttft_s = (int(request["first_token_ns"]) - arrival_ns) / 1e9
    e2e_s = (int(request["finished_ns"]) - arrival_ns) / 1e9
    parts_s = {name: int(request[name]) / 1e9 for name in TTFT_PARTS}
    most = max(parts_s, key=parts_s.__getitem__)
    bar = tuple(
        (WORDS[name].label, _background(name), seconds / ttft_s)
        for name, seconds in parts_s.items()
        if seconds
    )
    counts = [int(request[f"{name}_tokens"]) for name in ("prompt", "cached", "output")]
    return [
        Cell(system),
        Cell(str(request["request"]), float(request["request"])),
        Cell(f"{arrival_ns / 1e9:.3f}", arrival_ns / 1e9),
        *(Cell(f"{count:,}", count) for count in counts),
        Cell(f"{ttft_s:.3f}", ttft_s),
        Cell(f"{e2e_s:.3f}", e2e_s),
        Bar(bar),
        Cell(f"{WORDS[most].label}, {parts_s[most] / ttft_s:.0%}"),
    ]


def _background(part: str) -> str:
    """As in CSS."""
    colour = PART_COLOURS[part]
    if part != HATCHED_PART:
        return colour
    return f"repeating-linear-gradient(45deg, {colour} 0 3px, white 3px 5px)"
