"""Replays recordings of vLLM's scheduler and compares every decision with the engine's own.

A case is a folder of config.json, workload.jsonl and steps.jsonl (see `recording`).
"""

import json
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from engine import (
    Engine,
    EngineConfig,
    ReplayRunner,
    Request,
    RequestId,
    Sequence,
    Step,
    TokenOutput,
    TokenPrompt,
)
from sim.conformance.recording import file_in, read_objects, read_settings, read_workload, to_config
from sim.errors import UserError

_NO_STOP_TOKEN = -1  # the recorded ids may be any number from 0

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
        for where, row in read_objects(file_in(self.folder, "steps.jsonl")):
            missing = [name for name in _COMPARED if name not in row and name != "block_tables"]
            if missing:
                raise UserError(f"{where}: missing: {', '.join(missing)}")
            if not isinstance(row["step"], int):
                raise UserError(f"{where}: step: got {row['step']!r}, expected a number")
            yield row


def compare_all(paths: list[Path], *, as_json: bool = False) -> bool:
    """Print the verdict on each case, a line each, or all as JSON; whether all are equal."""
    folders = [folder for path in paths for folder in find_cases(path)]
    width = max(len(folder.absolute().name) for folder in folders)
    verdicts: list[tuple[str, Verdict]] = []
    for folder in folders:
        case, name = read_case(folder), folder.absolute().name
        if case.ignored:
            print(f"{folder.name}: ignored settings: {', '.join(case.ignored)}", file=sys.stderr)
        verdict = compare(case)
        verdicts.append((name, verdict))
        if not as_json:
            print(f"{name:{width}}  {verdict.num_equal:6} steps  {verdict}", flush=True)
    if as_json:
        rows = [{"case": name, **asdict(verdict)} for name, verdict in verdicts]
        print(json.dumps(rows, indent=1))
    return all(verdict.difference is None for _, verdict in verdicts)


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
    for _, row in read_workload(file_in(folder, "workload.jsonl")):
        request = Request(
            row.id,
            TokenPrompt(row.prompt),
            max_new_tokens=len(row.output),
            priority=row.priority,
            stop_token_id=_NO_STOP_TOKEN,
        )
        arrivals[row.arrive_step].append(request)
        outputs[row.id] = row.output
    return Case(folder, config, ignored, arrivals, outputs)


def _read_config(folder: Path) -> tuple[EngineConfig, list[str]]:
    path = file_in(folder, "config.json")
    settings = read_settings(path)
    known = {field.name for field in fields(EngineConfig)} & set(settings)
    config = to_config({name: settings[name] for name in sorted(known)}, str(path))
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
    return file_in(path, "config.json").is_file()
