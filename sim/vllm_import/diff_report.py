"""How a comparison with a scrape is printed."""

import json
import math
from collections.abc import Iterator

from rich.table import Table

from sim.terminal import print_prose, print_table
from sim.vllm_import.diff import Comparison, Row, Shares
from sim.vllm_import.scrape import Scrape
from sim.vllm_import.simulated import SimulatedRun


def print_comparison(found: Comparison, run: SimulatedRun, scrape: Scrape) -> None:
    """A table of a few lines a metric, and what could not be compared."""
    seeds = f", {run.num_seeds} seeds" if run.num_seeds > 1 else ""
    print(f"{run.name}, system {run.system}: {len(run.requests):,} requests{seeds}")
    print(f"{scrape.name}: {scrape.num_requests:,.0f} requests\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("metric", "", "vLLM", "in bucket", "kvsim", "difference"):
        table.add_column(heading, justify="left" if heading in ("metric", "") else "right")
    shares = {each.metric: each for each in found.shares}
    for metric in dict.fromkeys(row.metric for row in found.rows):
        for place, cells in enumerate(_lines(metric, found.rows, shares.get(metric))):
            table.add_row("" if place else metric, *cells)
    print_table(table, num_names=2)
    print_prose(
        "percentiles of vLLM are taken to lie evenly in their bucket; `=`: kvsim's is in it too"
    )
    if found.missing:
        print_prose(f"not in both: {', '.join(found.missing)}")


def _lines(metric: str, rows: list[Row], shares: Shares | None) -> Iterator[tuple[str, ...]]:
    for row in rows:
        if row.metric == metric:
            bucket = "" if row.bucket is None else f"{row.bucket[0]:g} to {_bound(row.bucket[1])}"
            yield row.what, _number(row.real), bucket, _number(row.simulated), _difference(row)
    if shares is not None:
        at = shares.largest
        real, ours = shares.real[at], shares.simulated[at]
        bound = f"share up to {shares.bounds[at]:g}"
        yield bound, f"{real:.1%}", "", f"{ours:.1%}", f"{(ours - real) * 100:+.1f} points"


def _bound(bound: float) -> str:
    return "∞" if math.isinf(bound) else f"{bound:g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _difference(row: Row) -> str:
    difference = row.difference
    text = "-" if difference is None else f"{difference:+.1%}"
    return f"{text} =" if row.is_in_bucket else text


def print_json(found: Comparison, run: SimulatedRun, scrape: Scrape) -> None:
    """The same as one JSON object; an infinite bound is null, as is what cannot be said."""
    about = {
        "run": run.name,
        "system": run.system,
        "requests": len(run.requests),
        "seeds": run.num_seeds,
        "scrape": scrape.name,
        "scrape_requests": scrape.num_requests,
        "metrics": [_as_data(row) for row in found.rows],
        "shares": [
            {"metric": s.metric, "le": s.bounds, "vllm": s.real, "kvsim": s.simulated}
            for s in found.shares
        ],
        "missing": found.missing,
    }
    print(json.dumps(about, indent=1, allow_nan=False))


def _as_data(row: Row) -> dict[str, object]:
    bucket = row.bucket and [None if math.isinf(bound) else bound for bound in row.bucket]
    return {
        "metric": row.metric,
        "what": row.what,
        "vllm": row.real,
        "bucket": bucket,
        "kvsim": row.simulated,
        "difference": row.difference,
        "in_bucket": row.is_in_bucket,
    }
