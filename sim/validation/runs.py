"""Recorded runs of an engine: every request with its times, and the engine's settings."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from sim.errors import UserError
from sim.measured_table import read_table
from sim.metrics import distribution
from sim.validation.case import Case, MeasuredBy, Point
from sim.validation.engine_json import Settings
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
    settings = Settings(folder)
    counts = ("prompt_tokens", "output_tokens")
    requests = read_table(
        folder / "requests.csv", _COLUMNS, optional=_OPTIONAL, positive=counts, whole=counts
    )
    workload = _workload(folder, requests, settings.block_size)
    measured = _measured(folder, requests, workload)
    longest = int((requests["prompt_tokens"] + requests["output_tokens"]).max())
    scenario, assumptions = settings.scenario(longest)
    span_s = float(requests["last_token_s"].max())
    tokens_per_s = float(requests["output_tokens"].sum()) / span_s
    point = Point(
        labels={},
        scenario=scenario,
        workload=workload,
        measured={**_distributions(measured), "output_tokens_per_s": tokens_per_s},
        requests=measured,
    )
    return Case(
        name=folder.name,
        kind="recorded run",
        measured_by=MeasuredBy.ASYNC_ENGINE if settings.is_async else MeasuredBy.ENGINE,
        points=[point],
        assumptions=assumptions,
        is_gpu_known=not settings.is_on_cpu,
        peers=_peers(folder, measured, span_s),
    )


def _distributions(seconds: pd.DataFrame) -> dict[str, float]:
    """Means and percentiles of the columns ttft_s, tpot_s and e2e_s, by the names of metrics."""
    return {
        metric: value
        for name in ("ttft", "tpot", "e2e")
        for metric, value in distribution(
            name, seconds[f"{name}_s"].dropna().to_numpy() * 1e9
        ).items()
        if value is not None
    }


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
        is_measured = measured.notna().to_numpy()  # no TPOT of a single token
        ours = pd.DataFrame(
            {f"{name}_s": predicted[f"{name}_ms"] / 1e3 for name in ("ttft", "tpot", "e2e")}
        ).where(is_measured)
        peers[path.stem.removeprefix("peer_")] = {
            "output_tokens_per_s": span_s / predicted["end_s"].max() - 1,
            **relative_errors(_distributions(ours), _distributions(measured)),
            **{
                f"{str(name).removesuffix('_s')}_mape": float(error)
                for name, error in (ours / measured - 1).abs().mean().items()
            },
        }
    return peers
