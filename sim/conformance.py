"""Replays recordings of vLLM's scheduler and compares every decision with the engine's own.

A case is a folder of config.json, workload.jsonl and steps.jsonl, each plain or gzipped; the format
is described in docs/conformance.md.
"""

import gzip
import sys
import zlib
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from engine import (
    Engine,
    EngineConfig,
    ReplayRunner,
    Request,
    RequestError,
    RequestId,
    Sequence,
    Step,
    TokenOutput,
    TokenPrompt,
)
from sim.errors import UserError
from sim.scenario import engine_config
from sim.scenario_file import explain

_NO_STOP_TOKEN = -1  # the recorded ids may be any number from 0

T = TypeVar("T")


@dataclass(frozen=True)
class WorkloadRow:
    """A line of workload.jsonl."""

    id: RequestId
    arrive_step: int
    prompt: list[int]
    output: list[int]
    priority: int = 0


_WORKLOAD_ROW = TypeAdapter(WorkloadRow)
_OBJECT = TypeAdapter(dict[str, Any])

# Fields of a recorded step, in the order in which they are decided.
_COMPARED = (
    "step",
    "preempted",
    "scheduled",
    "admitted_cached_tokens",
    "running",
    "num_waiting",
    "free_blocks",
    "block_tables",
    "finished",
    "free_blocks_after",
)


@dataclass(frozen=True)
class Difference:
    """The first decision that is not the recorded one."""

    step: int
    field: str
    expected: Any
    got: Any


@dataclass(frozen=True)
class Verdict:
    """How many steps of a case are equal, and what ended them, if anything did."""

    num_equal: int
    difference: Difference | None

    def __str__(self) -> str:
        d = self.difference
        if d is None:
            return "equal"
        return f"then step {d.step}, {d.field}: expected {d.expected}, got {d.got}"


@dataclass(frozen=True)
class Case:
    """A recording. arrivals: step -> the requests added just before it is scheduled.

    ignored: keys of config.json that the engine has no setting for.
    """

    folder: Path
    config: EngineConfig
    ignored: list[str]
    arrivals: dict[int, list[Request]]
    outputs: dict[RequestId, list[int]]

    @property
    def steps(self) -> Iterator[dict[str, Any]]:
        """The recorded steps, read as they are asked for."""
        for where, line in _lines(self.folder, "steps.jsonl"):
            row = _parse(_OBJECT, line, where)
            missing = [name for name in _COMPARED if name not in row and name != "block_tables"]
            if missing:
                raise UserError(f"{where}: missing: {', '.join(missing)}")
            if not isinstance(row["step"], int):
                raise UserError(f"{where}: step: got {row['step']!r}, expected a number")
            yield row


def compare_all(paths: list[Path]) -> bool:
    """Print the verdict on each case, a line each; whether all are equal."""
    folders = [folder for path in paths for folder in find_cases(path)]
    width = max(len(folder.absolute().name) for folder in folders)
    all_equal = True
    for folder in folders:
        case = read_case(folder)
        if case.ignored:
            print(f"{folder.name}: ignored settings: {', '.join(case.ignored)}", file=sys.stderr)
        verdict = compare(case)
        print(
            f"{folder.absolute().name:{width}}  {verdict.num_equal:6} steps  {verdict}", flush=True
        )
        all_equal = all_equal and verdict.difference is None
    return all_equal


def find_cases(path: Path) -> list[Path]:
    """The case folders that a path means: itself, or those in it, in order of name.

    Raises UserError when there is none.
    """
    if _is_case(path):
        return [path]
    cases = sorted(filter(_is_case, path.iterdir())) if path.is_dir() else []
    if not cases:
        raise UserError(
            f"{path}: expected a case (config.json, workload.jsonl, steps.jsonl) or a "
            "folder of cases"
        )
    return cases


def read_case(folder: Path) -> Case:
    """Read a case up to its steps.

    Raises UserError, naming file and line, for what is not in the format.
    """
    config, ignored = _read_config(folder)
    arrivals: defaultdict[int, list[Request]] = defaultdict(list)
    outputs: dict[RequestId, list[int]] = {}
    for where, line in _lines(folder, "workload.jsonl"):
        row = _parse(_WORKLOAD_ROW, line, where)
        try:
            request = Request(
                row.id,
                TokenPrompt(row.prompt),
                max_new_tokens=len(row.output),
                priority=row.priority,
                stop_token_id=_NO_STOP_TOKEN,
            )
        except RequestError as error:
            raise UserError(f"{where}: {error}") from None
        arrivals[row.arrive_step].append(request)
        outputs[row.id] = row.output
    return Case(folder, config, ignored, arrivals, outputs)


def _read_config(folder: Path) -> tuple[EngineConfig, list[str]]:
    path = _file(folder, "config.json")
    settings = _parse(_OBJECT, _read(path), str(path))
    known = {field.name for field in fields(EngineConfig)} & set(settings)
    try:
        config = engine_config({name: settings[name] for name in sorted(known)})
    except ValidationError as error:
        raise UserError(f"{path}: {'; '.join(explain(error))}") from None
    return config, sorted(set(settings) - known)


def compare(case: Case) -> Verdict:
    """Replay a case to its end or to the first difference."""
    engine = Engine(case.config, ReplayRunner(case.outputs), with_text=False)
    in_flight: deque[Step] = deque()
    num_equal = 0
    for recorded in case.steps:
        for request in case.arrivals.get(recorded["step"], ()):
            engine.add_request(request)
        decided = _advance(engine, in_flight)
        for field in _COMPARED:
            if field in recorded and recorded[field] != decided[field]:
                difference = Difference(recorded["step"], field, recorded[field], decided[field])
                return Verdict(num_equal, difference)
        num_equal += 1
    if not num_equal:
        raise UserError(f"{_file(case.folder, 'steps.jsonl')}: no steps")
    return Verdict(num_equal, None)


def _advance(engine: Engine, in_flight: deque[Step]) -> dict[str, Any]:
    """Schedule a step and take the results that are due, in the words of the recording."""
    step = engine.schedule()
    decided: dict[str, Any] = {
        "step": step.index,
        "scheduled": [[_id(chunk.seq), chunk.num_tokens] for chunk in step.chunks],
        "running": [_id(seq) for seq in engine.scheduler.running],
        "num_waiting": len(engine.scheduler.waiting),
        "preempted": sorted(_id(seq) for seq in step.preempted),
        "admitted_cached_tokens": {str(_id(seq)): num_cached for seq, num_cached in step.admitted},
        "free_blocks": engine.kv.num_free_blocks,
        "block_tables": {
            str(_id(chunk.seq)): chunk.seq.block_table.block_ids[:] for chunk in step.chunks
        },
    }
    if step.chunks:
        in_flight.append(step)
    most_in_flight = 1 if engine.config.async_scheduling else 0
    outputs: list[TokenOutput] = []
    if len(in_flight) > most_in_flight or (in_flight and not step.chunks):
        oldest = in_flight.popleft()
        outputs = engine.commit(oldest, engine.run(oldest))
    decided["finished"] = [output.request_id for output in outputs if output.finished]
    decided["free_blocks_after"] = engine.kv.num_free_blocks
    return decided


def _id(seq: Sequence) -> RequestId:
    return seq.request.request_id


def _is_case(path: Path) -> bool:
    return (path / "config.json").is_file() or (path / "config.json.gz").is_file()


def _file(folder: Path, name: str) -> Path:
    plain = folder / name
    return plain if plain.is_file() else folder / f"{name}.gz"


def _lines(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Where each line stands, for messages, and the line."""
    path = _file(folder, name)
    for number, line in enumerate(_read(path).rstrip("\n").split("\n"), start=1):
        yield f"{path}, line {number}", line


def _parse(adapter: TypeAdapter[T], text: str, where: str) -> T:
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise UserError(f"{where}: {'; '.join(explain(error))}") from None


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}") from None
