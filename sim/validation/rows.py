"""Tables of measured runs, a row each: closed loops, bursts and static batches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sim import catalogue
from sim.errors import UserError
from sim.measured_table import read_table
from sim.scenario import Scenario
from sim.scenario.mistakes import validated
from sim.validation.case import Case, MeasuredBy, Point, count_reasons
from sim.validation.folder_name import Named, parse_folder_name, quantization_in


class Kind(NamedTuple):
    """A kind of table.

    columns, optional: those it must and may have.
    measured_by: see Case.
    point: the point of a row, for a scenario with the row's model and GPUs.
    assumptions: what such tables do not say.
    """

    name: str
    columns: tuple[str, ...]
    optional: tuple[str, ...]
    measured_by: MeasuredBy
    point: Callable[[Any, dict[str, Any]], Point]
    assumptions: tuple[str, ...]


_TEXT = ("model", "measured", "backend_version")
_MOST = 1_000_000  # of any count: more than any server has of sequences, tokens or GPUs


def is_table(folder: Path) -> bool:
    """Whether a folder holds a table of measured runs."""
    return (folder / "points.csv").is_file()


def read_rows(folder: Path) -> Case:
    """A folder with points.csv. Raises UserError for one that is of no known kind."""
    path = folder / "points.csv"
    kind = _kind_of(path)
    named = parse_folder_name(folder.name)
    points: list[Point] = []
    failed: list[str] = []
    table = read_table(path, kind.columns, optional=kind.optional, text=_TEXT)
    for cells in table.to_dict("records"):
        row = {str(name): value for name, value in cells.items()}
        try:
            points.append(_measured(kind.point(row, _common(row, named))))
        except UserError as error:
            failed.append(str(error))
    reasons = count_reasons(failed)
    if not points:
        raise UserError(f"{path}: no row can be simulated; {'; '.join(reasons) or 'it has none'}")
    return Case(
        name=folder.name,
        kind=kind.name,
        measured_by=kind.measured_by,
        points=points,
        assumptions=list(kind.assumptions),
        skipped=reasons,
    )


def _measured(point: Point) -> Point:
    """The point, unless nothing was measured. Raises UserError then."""
    if not any(value > 0 for value in point.measured.values()):
        raise UserError("nothing was measured: all values are 0")
    return point


def _kind_of(path: Path) -> Kind:
    try:
        columns = pd.read_csv(path, nrows=0).columns
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {' '.join(str(error).split()).lower()}") from None
    for kind in KINDS:
        if set(kind.columns) <= set(columns):
            return kind
    expected = "; ".join(f"{kind.name}: {', '.join(kind.columns)}" for kind in KINDS)
    raise UserError(f"{path}: of no known kind; expected the columns of one of {expected}")


def _common(row: dict[str, Any], named: Named) -> dict[str, Any]:
    """What a scenario needs whatever its kind. Raises UserError for an unknown model."""
    model, quantization = named.model, named.quantization
    if "model" in row:
        model = catalogue.find_model(row["model"])
        quantization = quantization_in(row["model"])
    if model is None:
        raise UserError("neither the folder's name nor a column names a model")
    return {
        "name": "validation",
        "model": model,
        "hardware": named.hardware,
        "deployment": {
            "tensor_parallel_size": _count(row, "tp", 1),
            "quantization": quantization,
        },
    }


def _count(row: dict[str, Any], name: str, default: int | None = None) -> int:
    """A whole number of a row. Raises UserError for another."""
    value: float | None = row.get(name)
    if (value is None or pd.isna(value)) and default is not None:
        return default
    if value is None or not float(value).is_integer() or not 1 <= value <= _MOST:
        got = "nothing" if value is None or pd.isna(value) else f"{value:g}"
        raise UserError(f"{name}: got {got}, expected a whole number from 1 to {_MOST:,}")
    return int(value)


def _closed_loop(row: dict[str, Any], common: dict[str, Any]) -> Point:
    concurrency, isl, osl = (_count(row, name) for name in ("concurrency", "isl", "osl"))
    if "measured" in row:  # a date: InferenceMAX's public scripts
        engine = {
            "max_num_seqs": concurrency,
            "max_num_batched_tokens": 8192,
            "max_model_len": max(10240, isl + osl),
            "async_scheduling": True,
            "vllm_version": "0.11",
        }
        lengths: list[dict[str, Any]] = [
            {"uniform": {"low": max(int(0.8 * n), 1), "high": n}} for n in (isl, osl)
        ]
    else:  # a version: AIConfigurator's own runs
        engine = {
            "max_num_seqs": 1024,
            "max_num_batched_tokens": 2048,
            "max_model_len": 32768,
            "async_scheduling": True,
            "vllm_version": str(row.get("backend_version", "0.12.0")),
        }
        lengths = [{"fixed": isl}, {"fixed": osl}]
    workload = {
        "requests": 10 * concurrency,
        "arrivals": {"closed_loop": {"concurrency": concurrency}},
        "prompts": {"unique": lengths[0]},
        "outputs": lengths[1],
    }
    return Point(
        labels={name: _count(row, name) for name in ("tp", "isl", "osl", "concurrency")},
        scenario=_scenario(common, {"num_blocks": "auto", **engine}, workload),
        measured={"ttft_mean_s": row["ttft_ms"] / 1e3, "tpot_mean_s": row["tpot_ms"] / 1e3},
    )


def _burst(row: dict[str, Any], common: dict[str, Any]) -> Point:
    prompt_tokens, output_tokens = round(row["prompt_tokens"]), round(row["output_tokens"])
    num_kv_tokens = row.get("num_kv_tokens")
    engine = {
        "num_blocks": "auto" if pd.isna(num_kv_tokens) else int(num_kv_tokens) // 16 - 1,
        "max_num_seqs": _count(row, "max_num_seqs"),
        "max_num_batched_tokens": 2048,
        "max_model_len": max(4096, prompt_tokens + output_tokens),
        "vllm_version": "0.8.5",
    }
    milliseconds = {
        f"{name}_{part}_s": row[f"{name}_{part}_ms"] / 1e3
        for name in ("ttft", "tpot", "itl")
        for part in ("mean", "p50", "p99")
        if row[f"{name}_{part}_ms"] > 0  # 0 is absent: one token has no gap after it
    }
    names = ("num_requests", "max_num_seqs", "prompt_tokens", "output_tokens")
    return Point(
        labels={name: round(row[name]) for name in names},
        scenario=_scenario(
            common, engine, _at_once(_count(row, "num_requests"), prompt_tokens, output_tokens)
        ),
        measured={**milliseconds, "output_tokens_per_s": row["output_tokens_per_s"]},
    )


def _static_batch(row: dict[str, Any], common: dict[str, Any]) -> Point:
    names = ("batch_size", "input_len", "output_len")
    batch_size, input_len, output_len = (_count(row, name) for name in names)
    engine = {
        "num_blocks": "auto",
        "max_num_seqs": 256,
        "max_num_batched_tokens": max(4096, input_len + output_len),
        "max_model_len": max(4096, input_len + output_len),
        "vllm_version": "0.5.3",
    }
    return Point(
        labels={"model": common["model"], **{name: _count(row, name) for name in ("tp", *names)}},
        scenario=_scenario(common, engine, _at_once(batch_size, input_len, output_len)),
        measured={"span_s": row["latency_s"]},
    )


def _at_once(requests: int, prompt_tokens: int, output_tokens: int) -> dict[str, Any]:
    """All requests at the start: as many clients as requests, so that each sends one."""
    return {
        "requests": requests,
        "arrivals": {"closed_loop": {"concurrency": requests}},
        "prompts": {"unique": prompt_tokens},
        "outputs": output_tokens,
    }


def _scenario(common: dict[str, Any], engine: dict[str, Any], workload: dict[str, Any]) -> Scenario:
    try:
        return validated({**common, "engine": engine, "workload": workload}, "the scenario of it")
    except UserError as error:
        raise UserError("; ".join(str(error).splitlines())) from None


KINDS = (
    Kind(
        "closed loop",
        ("tp", "isl", "osl", "concurrency", "ttft_ms", "tpot_ms"),
        ("measured", "backend_version"),
        MeasuredBy.CLIENT_OF_ASYNC_SERVER,
        _closed_loop,
        (
            "all clients start at once, 10 requests for each; TTFT and TPOT are means",
            "rows with a date (InferenceMAX): lengths uniform from 0.8 to 1.0 of isl and osl, 8192 "
            "tokens a step, max_num_seqs = concurrency; rows with a version: isl and osl exactly, "
            "2048 tokens a step (not recorded: chosen by the rows of h100-qwen3-32b-closedloop)",
            "asynchronous scheduling; number of KV blocks as vLLM would find it",
        ),
    ),
    Kind(
        "burst",
        (
            *("num_requests", "max_num_seqs", "prompt_tokens", "output_tokens"),
            "output_tokens_per_s",
            *(f"{n}_{part}_ms" for n in ("ttft", "tpot", "itl") for part in ("mean", "p50", "p99")),
        ),
        ("num_kv_tokens", "tp"),
        MeasuredBy.CLIENT_OF_SYNC_SERVER,
        _burst,
        ("vLLM 0.8.5: 2048 tokens a step, synchronous scheduling, no prefix caching",),
    ),
    Kind(
        "static batch",
        ("model", "tp", "input_len", "output_len", "batch_size", "latency_s"),
        (),
        MeasuredBy.OFFLINE,
        _static_batch,
        (
            "vLLM 0.5.3 is simulated by the V1 scheduler, a step with 4096 tokens or one sequence; "
            "number of KV blocks as vLLM would find it",
        ),
    ),
)
