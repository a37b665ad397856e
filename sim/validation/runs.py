"""Recorded runs of an engine: every request with its times, and the engine's settings."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.config import ConfigError, EngineConfig
from sim import catalogue
from sim.errors import UserError
from sim.measured_table import read_table
from sim.metrics import distribution
from sim.scenario import Scenario
from sim.scenario.file import validated
from sim.validation.case import Case, Point
from sim.validation.folder_name import Named, parse_folder_name
from sim.validation.score import relative_errors
from workloads import Workload

_COLUMNS = ("prompt_tokens", "output_tokens", "first_token_s", "last_token_s")
_OPTIONAL = ("arrival_s", "queued_s", "shared_prefix_tokens")
_UNIQUE = 1 << 40  # content ids from here on are of one request only


def is_run(folder: Path) -> bool:
    """Whether a folder holds a recorded run."""
    return (folder / "requests.csv").is_file() and (folder / "engine.json").is_file()


def read_run(folder: Path) -> Case:
    """A folder with requests.csv and engine.json.

    Raises UserError for files that are missing or damaged, and for what is not modelled.
    """
    settings = _read_json(folder / "engine.json")
    replicas = settings.get("data_parallel_size", 1)
    if replicas != 1:
        raise UserError(f"{folder}: data_parallel_size is {replicas}; one replica is modelled")
    if not settings.get("chunked_prefill", True):
        raise UserError(f"{folder}: chunked_prefill is false; prefills in chunks are modelled")
    requests = read_table(folder / "requests.csv", _COLUMNS, optional=_OPTIONAL)
    workload = _workload(folder, requests, settings.get("block_size", 16))
    measured = _measured(folder, requests, workload)
    scenario, assumptions = _scenario(folder, settings, requests)
    num_output_tokens, span_s = requests["output_tokens"].sum(), requests["last_token_s"].max()
    point = Point(
        labels={},
        scenario=scenario,
        workload=workload,
        measured={
            **{
                key: value
                for name in ("ttft_s", "tpot_s", "e2e_s")
                for key, value in distribution(
                    name.removesuffix("_s"), measured[name].dropna().to_numpy() * 1e9
                ).items()
                if value is not None
            },
            "output_tokens_per_s": float(num_output_tokens / span_s),
        },
        requests=measured,
    )
    return Case(
        name=folder.name,
        kind="recorded run",
        measured_by="asynchronous engine" if _is_async(settings) else "engine",
        points=[point],
        assumptions=assumptions,
        is_gpu_known=not _is_on_cpu(settings),
        peers=_peers(folder, measured, span_s),
    )


def _measured(folder: Path, requests: pd.DataFrame, workload: Workload) -> pd.DataFrame:
    assert workload.arrival_ns is not None
    arrival_s = workload.arrival_ns / 1e9
    num_gaps = requests["output_tokens"] - 1
    decoding_s = requests["last_token_s"] - requests["first_token_s"]
    wrong = (requests["first_token_s"] <= arrival_s) | (decoding_s < 0)
    if wrong.any():
        raise UserError(
            f"{folder / 'requests.csv'}, line {int(wrong.argmax()) + 2}: expected that a request "
            "comes before its first token, and that before its last"
        )
    return pd.DataFrame(
        {
            "ttft_s": requests["first_token_s"] - arrival_s,
            "tpot_s": (decoding_s / num_gaps).where(num_gaps > 0),
            "e2e_s": requests["last_token_s"] - arrival_s,
        }
    )


def _workload(folder: Path, requests: pd.DataFrame, block_size: int) -> Workload:
    """The requests as they were, their outputs as long as they were.

    They come when the engine core took them (`queued_s`), where that is known. Prompts begin with
    what the folder says is shared: chained blocks of prefix_blocks.jsonl, or so many tokens of one
    text.
    """
    came = next((name for name in ("queued_s", "arrival_s") if name in requests), None)
    if came is None:
        raise UserError(f"{folder / 'requests.csv'}: no column queued_s or arrival_s")
    arrival_ns = np.rint(requests[came].to_numpy() * 1e9).astype(np.int64)
    if (np.diff(arrival_ns) < 0).any():
        raise UserError(f"{folder / 'requests.csv'}, column {came!r}: times fall")
    prompts = requests["prompt_tokens"].to_numpy(np.int64)
    shared = _shared(folder, requests, block_size)
    ids: list[int] = []
    tokens: list[int] = []
    offsets = [0]
    for number, (num_tokens, segments) in enumerate(zip(prompts.tolist(), shared, strict=True)):
        own = num_tokens - sum(length for _, length in segments)
        if own < 0:
            raise UserError(f"{folder}: request {number} shares more than its {num_tokens} tokens")
        parts = [*segments, (_UNIQUE + number, own)] if own else segments
        ids += [content for content, _ in parts]
        tokens += [length for _, length in parts]
        offsets.append(len(ids))
    outputs = requests["output_tokens"].to_numpy(np.int64)
    return Workload(
        arrival_ns=arrival_ns,
        closed_loop=None,
        prompt_tokens=prompts,
        output_tokens=outputs,
        max_new_tokens=outputs,
        segment_offsets=np.array(offsets),
        segment_ids=np.array(ids),
        segment_tokens=np.array(tokens),
        answer_ids=2 * _UNIQUE + np.arange(len(prompts)),
    )


def _shared(folder: Path, requests: pd.DataFrame, block_size: int) -> list[list[tuple[int, int]]]:
    """Segments (content id, tokens) with which each prompt begins."""
    path = folder / "prefix_blocks.jsonl"
    if path.is_file():
        blocks = [_block_ids(line, path) for line in path.read_text("utf-8").splitlines()]
        if len(blocks) != len(requests):
            raise UserError(f"{path}: {len(blocks)} lines, expected {len(requests)}, one a request")
        return [[(block, block_size) for block in chain] for chain in blocks]
    if "shared_prefix_tokens" in requests:
        shared = requests["shared_prefix_tokens"].astype(int)
        return [[(0, num_tokens)] if num_tokens else [] for num_tokens in shared]
    return [[] for _ in range(len(requests))]


def _block_ids(line: str, path: Path) -> list[int]:
    try:
        ids: list[int] = json.loads(line)["block_ids"]
        if all(type(block) is int and 0 <= block < _UNIQUE for block in ids):
            return ids
    except (ValueError, TypeError, KeyError):
        pass
    raise UserError(f"{path}: got {line[:60]!r}, expected block_ids, a list of whole numbers")


def _peers(folder: Path, measured: pd.DataFrame, span_s: float) -> dict[str, dict[str, float]]:
    """Relative errors of simulators whose predictions lie in files peer_NAME.csv."""
    peers = {}
    for path in sorted(folder.glob("peer_*.csv")):
        names = ("ttft_ms", "tpot_ms", "e2e_ms", "end_s")
        predicted = read_table(path, names)
        if len(predicted) != len(measured):
            raise UserError(
                f"{path}: {len(predicted)} rows, expected {len(measured)}, one a request"
            )
        errors: dict[str, float] = {"output_tokens_per_s": span_s / predicted["end_s"].max() - 1}
        for metric in ("ttft", "tpot", "e2e"):
            is_measured = measured[f"{metric}_s"].notna().to_numpy()  # no TPOT of a single token
            ours = predicted[f"{metric}_ms"].to_numpy()[is_measured] / 1e3
            theirs = measured[f"{metric}_s"].to_numpy()[is_measured]
            errors |= relative_errors(
                {k: v for k, v in distribution(metric, ours * 1e9).items() if v is not None},
                {k: v for k, v in distribution(metric, theirs * 1e9).items() if v is not None},
            )
            errors[f"{metric}_mape"] = float(np.abs(ours / theirs - 1).mean())
        peers[path.stem.removeprefix("peer_")] = errors
    return peers
