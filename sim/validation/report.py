"""What a validation found, as tables, as JSON and as rows."""

from typing import Any

import pandas as pd
from rich.table import Table

from sim.metrics import PERCENTILES
from sim.validation.case import Case
from sim.validation.score import Scored, over_rows

_METRICS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "E2E"}
_PARTS = ("mean", *(f"p{percent}" for percent in PERCENTILES))


def run_table(case: Case, scored: Scored) -> Table:
    """Of a single recorded run: means, and errors of mean and percentiles; the peers' below."""
    table = _table("", "real mean", "predicted", *(f"{part} error" for part in _PARTS), "MAPE")
    for metric, title in _METRICS.items():
        key = f"{metric}_mean_s"
        if key in scored.errors:
            real_s, ours_s = scored.point.measured[key], scored.predicted[key]
            cells = _error_cells(metric, scored.errors, scored.mape.get(metric))
            table.add_row(title, _seconds(real_s), _seconds(ours_s), *cells)
    key = "output_tokens_per_s"
    if key in scored.errors:
        real, ours = scored.point.measured[key], scored.predicted[key]
        table.add_row("output tokens/s", f"{real:.4g}", f"{ours:.4g}", _percent(scored.errors[key]))
    for peer, errors in case.peers.items():
        table.add_section()
        for metric, title in _METRICS.items():
            if f"{metric}_mean_s" in errors:
                cells = _error_cells(metric, errors, errors.get(f"{metric}_mape"))
                table.add_row(f"{title}, {peer}", "", "", *cells)
        table.add_row(f"output tokens/s, {peer}", "", "", _percent(errors[key]))
    return table


def _error_cells(metric: str, errors: dict[str, float], mape: float | None) -> list[str]:
    cells = [_percent(errors.get(f"{metric}_{part}_s")) for part in _PARTS]
    return [*cells, f"{mape:.1%}" if mape is not None else "-"]


def rows_table(scored: list[Scored]) -> Table:
    """Of many runs: errors over the rows, those that the KV cache limits apart."""
    table = _table("", "rows", "median |error|", "median error", "90 % of |errors| below")
    for is_limited, title in ((False, ""), (True, ", KV-limited")):
        part = [one for one in scored if one.is_kv_limited is is_limited]
        if part:
            for name, row in over_rows(part).iterrows():
                table.add_row(
                    _title(str(name)) + title,
                    f"{row['rows']:.0f}",
                    f"{row['median_absolute']:.1%}",
                    _percent(row["median_signed"]),
                    f"{row['p90_absolute']:.1%}",
                )
    return table


def rows_frame(name: str, scored: list[Scored]) -> pd.DataFrame:
    """A row for each run and metric: labels, real, predicted, error."""
    rows = pd.DataFrame(
        [
            {
                "case": name,
                **one.point.labels,
                "kv_limited": one.is_kv_limited,
                "metric": metric,
                "real": one.point.measured[metric],
                "predicted": one.predicted[metric],
                "error": error,
            }
            for one in scored
            for metric, error in one.errors.items()
        ]
    )
    # Counts stay so beside cases that have none of the kind.
    counts = [key for key, value in scored[0].point.labels.items() if isinstance(value, int)]
    return rows.astype(dict.fromkeys(counts, "Int64"))


def as_json(case: Case, scored: list[Scored], step_times: str) -> dict[str, Any]:
    """Everything that is printed, and every row."""
    return {
        "case": case.name,
        "kind": case.kind,
        "step_times": step_times,
        "assumptions": case.assumptions,
        "skipped": case.skipped,
        "summary": _summary([one for one in scored if not one.is_kv_limited]),
        "summary_kv_limited": _summary([one for one in scored if one.is_kv_limited]),
        "rows": [
            {
                **one.point.labels,
                "kv_limited": one.is_kv_limited,
                "real": one.point.measured,
                "predicted": one.predicted,
                "error": one.errors,
                "mape": one.mape,
            }
            for one in scored
        ],
        "peers": case.peers,
    }


def _summary(scored: list[Scored]) -> dict[str, dict[str, float | None]]:
    """Metric -> errors over rows; empty without rows."""
    return {
        str(metric): {str(key): _or_none(value) for key, value in row.items()}
        for metric, row in (over_rows(scored).iterrows() if scored else ())
    }


def _or_none(value: float) -> float | None:
    return None if pd.isna(value) else float(value)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for column in columns:
        table.add_column(column, justify="left" if not column else "right")
    return table


def _title(name: str) -> str:
    metric, _, rest = name.partition("_")
    if metric in _METRICS:
        return f"{_METRICS[metric]} {rest.removesuffix('_s')}"
    return {"span_s": "batch latency", "output_tokens_per_s": "output tokens/s"}[name]


def _seconds(value: float) -> str:
    return f"{value:.4g} s" if value >= 1 else f"{value * 1000:.4g} ms"


def _percent(value: float | None) -> str:
    if value is None:
        return "-"
    text = f"{value:+.1%}"
    return "0.0%" if text in ("+0.0%", "-0.0%") else text
