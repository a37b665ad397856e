"""Errors of predictions, relative to what was measured: +0.1 is 10 % too high."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.metrics import summarise
from sim.records import Records
from sim.validation.case import Point


@dataclass(frozen=True)
class Scored:
    """A point, its prediction, and the errors.

    is_kv_limited: whether TTFT would be much shorter with endless memory.
    mape: mean absolute error over requests, by metric, where each of them was measured.
    times: ttft_s, tpot_s and e2e_s of every request, where each of them was measured.
    refusal: how many requests the engine refused, and why; None for none.
    num_steps, mean_running: steps of the simulation, and sequences in one of them.
    """

    point: Point
    predicted: dict[str, float]
    errors: dict[str, float]
    mape: dict[str, float]
    times: pd.DataFrame | None
    is_kv_limited: bool
    refusal: str | None
    num_steps: int
    mean_running: float


def score(point: Point, records: Records, *, is_kv_limited: bool) -> Scored:
    """Set a simulated run against the measured one."""
    summary = summarise(records)
    predicted = {
        name: float(value)
        for name, value in summary.items()
        if name in point.measured and value is not None
    }
    errors = relative_errors(predicted, point.measured)
    times, mape = None, {}
    if point.requests is not None:
        times = _request_times(records)
        apart = (times / point.requests - 1).abs().mean()
        mape = {str(name).removesuffix("_s"): float(value) for name, value in apart.items()}
    steps = records.steps
    return Scored(
        point,
        predicted,
        errors,
        mape,
        times,
        is_kv_limited,
        _refusal(records),
        int(steps["steps"].sum()),
        float((steps["running"] * steps["steps"]).sum() / steps["steps"].sum()),
    )


def _refusal(records: Records) -> str | None:
    num_refused = int((records.requests["finish_reason"] == "refused").sum())
    if not num_refused:
        return None
    return f"{num_refused} requests are refused, the first: {records.first_refusal}"


def relative_errors(predicted: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    """Of all that was both predicted and measured."""
    return {
        name: value / measured[name] - 1 for name, value in predicted.items() if measured.get(name)
    }


def _request_times(records: Records) -> pd.DataFrame:
    requests = records.requests
    arrival, first, last = (
        requests[name].to_numpy(dtype=float, na_value=np.nan)
        for name in ("arrival_ns", "first_token_ns", "finished_ns")
    )
    num_gaps = requests["output_tokens"].to_numpy(float) - 1
    num_gaps[num_gaps <= 0] = np.nan
    times = {
        "ttft_s": first - arrival,
        "tpot_s": (last - first) / num_gaps,
        "e2e_s": last - arrival,
    }
    return pd.DataFrame(times) / 1e9


def over_rows(scored: list[Scored]) -> pd.DataFrame:
    """By metric: rows, median absolute, median signed and 90th percentile of the absolute error."""
    errors = pd.DataFrame([one.errors for one in scored])
    return pd.DataFrame(
        {
            "rows": errors.notna().sum(),
            "median_absolute": errors.abs().median(),
            "median_signed": errors.median(),
            "p90_absolute": errors.abs().quantile(0.9),
        }
    )
