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

_ASYNC_SINCE = (0, 14)  # versions of vLLM that schedule asynchronously unless told not to
_COLUMNS = ("prompt_tokens", "output_tokens", "first_token_s", "last_token_s")
_OPTIONAL = ("arrival_s", "queued_s", "shared_prefix_tokens")
# Settings that are read -> the type that they must have, where they are not null.
_SETTINGS: dict[str, type] = {
    "engine_version": str,
    "vllm": str,
    "model": str,
    "dtype": str,
    "kv_cache_dtype": str,
    "tensor_parallel_size": int,
    "data_parallel_size": int,
    "block_size": int,
    "num_gpu_blocks": int,
    "num_blocks": int,
    "max_num_seqs": int,
    "max_num_batched_tokens": int,
    "max_model_len": int,
    "gpu_memory_utilization": float,
    "prefix_caching": bool,
    "enable_prefix_caching": bool,
    "chunked_prefill": bool,
    "async_scheduling": bool,
    "scheduler": dict,
}
_IN_WORDS = {
    str: "text",
    int: "a whole number from 1",
    float: "a number",
    bool: "true or false",
    dict: "an object",
}
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


def _scenario(
    folder: Path, settings: dict[str, Any], requests: pd.DataFrame
) -> tuple[Scenario, list[str]]:
    """The settings of the run, and what they do not say."""
    assumptions = []
    version = str(settings.get("engine_version") or settings.get("vllm", "0.32")).split()[0]
    is_async = _is_async(settings)
    if is_async is None:
        is_async = _rules(version, folder) >= _ASYNC_SINCE
        assumptions.append(f"async_scheduling {str(is_async).lower()}, as vLLM {version} has it")
    longest = int((requests["prompt_tokens"] + requests["output_tokens"]).max())
    engine = {
        "block_size": settings.get("block_size", 16),
        "max_num_seqs": settings.get("max_num_seqs", 256),
        "max_num_batched_tokens": settings.get("max_num_batched_tokens", 2048),
        "max_model_len": settings.get("max_model_len") or longest + 1,
        "enable_prefix_caching": settings.get(
            "prefix_caching", settings.get("enable_prefix_caching", True)
        ),
        "async_scheduling": is_async,
        "policy": settings.get("scheduler", {}).get("policy", "fcfs"),
        "vllm_version": version,
    }
    if settings.get("num_gpu_blocks"):
        engine["num_blocks"] = settings["num_gpu_blocks"] - 1  # one is vLLM's null block
    elif settings.get("num_blocks"):
        engine["num_blocks"] = settings["num_blocks"]
    else:
        engine["num_blocks"] = "auto"
        assumptions.append("number of KV blocks as vLLM would find it")
    named = _named(folder, settings)
    data = {
        "name": "validation",
        "hardware": named.hardware,
        "model": named.model,
        "deployment": {
            "tensor_parallel_size": settings.get("tensor_parallel_size", 1),
            "dtype": settings.get("dtype", "auto"),
            "quantization": named.quantization,
            "kv_cache_dtype": settings.get("kv_cache_dtype", "auto"),
            "gpu_memory_utilization": settings.get("gpu_memory_utilization", 0.9),
        },
        "engine": engine,
        "workload": {"trace": str(folder / "requests.csv")},
    }
    return validated(data, str(folder / "engine.json")), assumptions


def _is_on_cpu(settings: dict[str, Any]) -> bool:
    return "CPU" in str(settings.get("vllm", ""))


def _is_async(settings: dict[str, Any]) -> bool | None:
    """Whether the engine schedules asynchronously; None where it is not recorded."""
    scheduler = settings.get("scheduler", {})
    is_async: bool | None = settings.get("async_scheduling", scheduler.get("async_scheduling"))
    return is_async


def _rules(version: str, folder: Path) -> tuple[int, int]:
    try:
        return EngineConfig(vllm_version=version).rules
    except ConfigError as error:
        raise UserError(f"{folder / 'engine.json'}: {error}") from None


def _named(folder: Path, settings: dict[str, Any]) -> Named:
    """GPU and model; of no matter where step times are fitted, as on a CPU."""
    if _is_on_cpu(settings):
        return Named("a100-80gb", "toy", "auto")
    named = parse_folder_name(folder.name)
    if "model" not in settings:
        return named
    model = catalogue.find_model(settings["model"])
    if named.model not in (None, model):
        raise UserError(
            f"{folder / 'engine.json'}: model: got {settings['model']}, "
            f"but the folder's name says {named.model}"
        )
    return named._replace(model=model)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or f"not JSON: {error}"
        raise UserError(f"{path}: {reason.lower()}") from None
    if not isinstance(settings, dict):
        raise UserError(f"{path}: expected an object of settings")
    for name, kind in _SETTINGS.items():
        value = settings.get(name)
        is_right = type(value) is kind and (type(value) is not int or value >= 1)
        if value is not None and not is_right:
            raise UserError(f"{path}: {name}: got {value!r}, expected {_IN_WORDS[kind]}")
    return {name: value for name, value in settings.items() if value is not None}


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
