"""A synthetic workload that resembles a trace."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sim.errors import UserError
from sim.trace.describe import Description, Lengths, describe
from workloads import Empirical, Trace, Windows, synthetic
from workloads.workload import Int64Column

_MOST_WINDOWS = 60
_LEAST_IN_A_WINDOW = 30  # requests, on average
_MOST_LENGTHS = 2000  # of a distribution
_SEED = 1


@dataclass(frozen=True)
class Fit:
    """A workload by windows of arrivals and by lengths, each drawn on its own.

    prompts, outputs: equally likely lengths. requests: as many as the trace has.
    """

    requests: int
    arrivals: Windows
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]


def fit(trace: Trace) -> Fit:
    """Rates by window, and quantiles of the lengths.

    Raises UserError for a trace without times, or all at once.
    """
    if trace.arrival_ns is None or trace.arrival_ns[-1] == 0:
        what = "no times" if trace.arrival_ns is None else "all requests at one time"
        raise UserError(f"--fit: the trace ({trace.format}) has {what}, expected some")
    num_windows = min(max(len(trace) // _LEAST_IN_A_WINDOW, 1), _MOST_WINDOWS)
    span_s = float(trace.arrival_ns[-1]) / 1e9
    counts, _ = np.histogram(trace.arrival_ns / 1e9, bins=num_windows, range=(0, span_s))
    window_s = span_s / num_windows
    rates = tuple(float(f"{count / window_s:.6g}") for count in counts)
    return Fit(
        requests=len(trace),
        arrivals=Windows(float(f"{window_s:.9g}"), rates),
        prompts=_quantiles(trace.prompt_tokens),
        outputs=_quantiles(trace.output_tokens),
    )


def _quantiles(tokens: Int64Column) -> tuple[int, ...]:
    """Lengths that are as likely each: all of them, or those in the middle of equal parts."""
    ranked = np.sort(tokens)
    if len(ranked) > _MOST_LENGTHS:
        middles = (np.arange(_MOST_LENGTHS) + 0.5) / _MOST_LENGTHS
        ranked = ranked[(middles * len(ranked)).astype(np.int64)]
    return tuple(ranked.tolist())


def drawn(fitted: Fit) -> Description:
    """What is in the workload when it is drawn once."""
    workload = synthetic(
        num_requests=fitted.requests,
        seed=_SEED,
        arrivals=fitted.arrivals,
        unique=Empirical(fitted.prompts),
        outputs=Empirical(fitted.outputs),
        max_model_len=10**9,
    )
    assert workload.arrival_ns is not None
    return describe(
        Trace(
            arrival_ns=workload.arrival_ns - workload.arrival_ns[0],
            prompt_tokens=workload.prompt_tokens,
            output_tokens=workload.output_tokens,
            num_rows=fitted.requests,
            format="kvsim",
        ),
        None,
    )


def _lengths_beside(out: Path) -> dict[str, Path]:
    """The files of lengths, by what they are of."""
    return {name: out.with_name(f"{out.stem}-{name}.txt") for name in ("prompts", "outputs")}


def check_place(out: Path) -> None:
    """Raise UserError for a name that is none of a scenario, and a file that is there."""
    if out.suffix not in (".yaml", ".yml"):
        raise UserError(f"{out}: got {out.suffix or 'no ending'}, expected .yaml")
    for path in (out, *_lengths_beside(out).values()):
        if path.exists():
            raise UserError(f"{path}: is there, expected a new file")


def write(fitted: Fit, out: Path) -> None:
    """A scenario, and two files of lengths beside it; see `check_place`.

    Raises UserError for a place that cannot be written to.
    """
    lengths = _lengths_beside(out)
    workload: dict[str, Any] = {
        "requests": fitted.requests,
        "arrivals": {
            "windows": {
                "window_s": fitted.arrivals.window_s,
                "rates": list(fitted.arrivals.rates_per_s),
            }
        },
        "prompts": {"unique": {"empirical": {"file": lengths["prompts"].name}}},
        "outputs": {"empirical": {"file": lengths["outputs"].name}},
    }
    name = re.sub("[^A-Za-z0-9]+", "-", out.stem).strip("-") or "fitted"
    longest = max(fitted.prompts) + max(fitted.outputs)
    with _all_or_none([*lengths.values(), out]):
        for part, path in lengths.items():
            values: tuple[int, ...] = getattr(fitted, part)
            path.write_text("".join(f"{value}\n" for value in values), "utf-8")
        text = yaml.safe_dump(
            {"name": name[:40], "engine": {"max_model_len": longest}, "workload": workload},
            sort_keys=False,
        )
        out.write_text(text, "utf-8")


@contextmanager
def _all_or_none(paths: list[Path]) -> Iterator[None]:
    """Files that are all there at the end, or none."""
    is_whole = False
    try:
        yield
        is_whole = True
    except OSError as error:
        raise UserError(f"{paths[-1]}: {(error.strerror or str(error)).lower()}") from None
    finally:
        if not is_whole:
            for path in paths:
                path.unlink(missing_ok=True)


def comparison(trace: Description, ours: Description) -> Iterator[tuple[str, str, str]]:
    """(what, of the trace, of what was drawn) in words."""
    if trace.arrivals and ours.arrivals:
        yield ("requests/s", *_pair(trace.arrivals.rate_per_s, ours.arrivals.rate_per_s))
        yield ("CV of gaps", *_pair(trace.arrivals.cv, ours.arrivals.cv))
    for name, before, after in (
        ("prompt tokens", trace.prompt_tokens, ours.prompt_tokens),
        ("output tokens", trace.output_tokens, ours.output_tokens),
    ):
        for part, (theirs, mine) in _numbers(before, after).items():
            yield (f"{name}, {part}", f"{theirs:,.0f}", f"{mine:,.0f}")


def _numbers(before: Lengths, after: Lengths) -> dict[str, tuple[float, float]]:
    parts: dict[str, tuple[float, float]] = {"mean": (before.mean, after.mean)}
    for p in before.percentiles:
        parts[f"p{p}"] = (before.percentiles[p], after.percentiles[p])
    return parts


def _pair(theirs: float | None, mine: float | None) -> tuple[str, str]:
    return ("-" if theirs is None else f"{theirs:.3g}", "-" if mine is None else f"{mine:.3g}")
