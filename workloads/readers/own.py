"""kvsim's own format, CSV or JSON lines, read and written: docs/traces.md has its columns.

arrival_s, prompt_tokens, output_tokens; optional session, turn, think_time_s and priority; in JSON
lines also segments, block_tokens and answer_id, which CSV has no room for.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workloads.checks import COUNT_EXPECTED, LARGEST_COUNT, problem
from workloads.content import Segment
from workloads.errors import WorkloadError
from workloads.files import bad_file, parse_count
from workloads.readers.counts import note_rows
from workloads.readers.csv_table import Column, read_csv_table
from workloads.readers.jsonl_table import Field, check_object, read_jsonl
from workloads.readers.times import SECONDS_EXPECTED, in_ns, seconds_ns
from workloads.readers.turns import first_of_session, in_turn
from workloads.source import Source
from workloads.trace import Rows, Trace, session_numbers, trace_from_rows
from workloads.workload import Int64Column

_LENGTHS = {"prompt_tokens", "output_tokens"}
_INTEGER = re.compile(r"-?[0-9]{1,9}")
_OPTIONAL = ("answer_id", "arrival_s")  # of all requests or of none


@dataclass(frozen=True, eq=False, kw_only=True)
class _Table:
    """Columns by name as they stand in the file; what only JSON lines have is in `contents`."""

    values: dict[str, Int64Column]
    lines: list[int]
    contents: list[tuple[Segment, ...]] | None = None
    block_tokens: int = 1


def recognises(source: Source) -> bool:
    """Whether the keys or columns are those, times or sessions among them if it is CSV."""
    columns = set(source.columns)
    is_csv = columns >= _LENGTHS and columns & {"arrival_s", "session"}
    return source.keys >= _LENGTHS or bool(is_csv)


def read(source: Source) -> Trace:
    """Read the trace. Rows out of time order are sorted and noted (see `trace_from_rows`).

    Rows of one `session` are sent one after the other, in order of `turn` (without that column, of
    the file), each think_time_s after the answer before it; times of later turns are not used, and
    a note counts those that are not the first turn's. Priorities are checked and not used.

    Raises WorkloadError for turns of a session that are not 1, 2, ..., for segments that do not sum
    to prompt_tokens, and as `read_csv_table` and `read_jsonl` do.
    """
    table = _read_jsonl(source) if source.keys else _read_csv(source)
    num_rows = len(table.lines)
    notes: tuple[str, ...] = ()
    values, lines, contents = table.values, table.lines, table.contents
    previous = think_time_ns = None
    if "session" in values:
        turn = values["turn"].tolist() if "turn" in values else None
        order, previous = in_turn(source, lines, values["session"].tolist(), turn)
        values = {name: column[order] for name, column in values.items()}
        lines = [lines[row] for row in order.tolist()]
        contents = None if contents is None else [contents[row] for row in order.tolist()]
        think_time_ns = values.get("think_time_s", np.zeros(num_rows, dtype=np.int64))
    time_ns = values.get("arrival_s")
    if time_ns is not None and previous is not None:
        of_first = time_ns[first_of_session(previous)]
        what = "of later turns came at times of their own (not used)"
        notes = note_rows(time_ns != of_first, lines, what)
        time_ns = of_first
    if time_ns is None:
        notes = (*notes, f"no arrival_s among {', '.join(source.keys or source.columns)}")
    if "priority" in values:
        notes = (*notes, "priorities are not used")
    rows = Rows(
        time_ns=time_ns,
        prompt_tokens=values["prompt_tokens"],
        output_tokens=values["output_tokens"],
        lines=lines,
        contents=contents,
        block_tokens=table.block_tokens,
        previous=previous,
        think_time_ns=think_time_ns,
        answer_ids=values.get("answer_id"),
    )
    return trace_from_rows(rows, format="kvsim", num_rows=num_rows, notes=notes)


def _read_csv(source: Source) -> _Table:
    count = Column(parse_count, COUNT_EXPECTED)
    names: dict[str, int] = {}
    optional = {
        "arrival_s": Column(seconds_ns, SECONDS_EXPECTED),
        "session": Column(lambda text: _session(text, names), "a name"),
        "turn": Column(_or_empty(parse_count, 1), COUNT_EXPECTED),
        "think_time_s": Column(_or_empty(seconds_ns, 0), SECONDS_EXPECTED),
        "priority": Column(_or_empty(_integer, 0), "an integer"),
    }
    table = read_csv_table(source, {"prompt_tokens": count, "output_tokens": count}, optional)
    return _Table(values=table.values, lines=table.lines)


def _session(text: str, names: dict[str, int]) -> int:
    """The number of a session in order of appearance; -1 for a request that is of none."""
    return names.setdefault(text, len(names)) if text else -1


def _or_empty(parse: Callable[[str], int | None], value: int) -> Callable[[str], int | None]:
    return lambda text: parse(text) if text else value


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


_FIELDS = {
    "arrival_s": Field("seconds", is_optional=True),
    "prompt_tokens": Field("count"),
    "output_tokens": Field("count"),
    "turn": Field("count", is_optional=True),
    "think_time_s": Field("seconds", is_optional=True),
    "priority": Field("count", lowest=-LARGEST_COUNT, is_optional=True),
    "segments": Field("list", is_optional=True),
    "block_tokens": Field("count", is_optional=True),
}
_DEFAULTS = {"turn": 1, "think_time_s": 0, "priority": 0}


def _read_jsonl(source: Source) -> _Table:
    rows = read_jsonl(source, _FIELDS)
    fields = {
        name: Field("any") for name in _OPTIONAL if any(name in request for _, request in rows)
    }
    problems = []
    for line, request in rows:
        where = f"line {line}"
        problems += check_object(request, fields, where)
        problems += _wrong_content(request, where)
    block_tokens = {request.get("block_tokens", 1) for _, request in rows}
    if len(block_tokens) > 1:
        problems.append(problem("block_tokens", sorted(block_tokens), "the same on every line"))
    if problems:
        raise bad_file(source.name, problems)
    requests = [request for _, request in rows]
    columns = {
        name: _column(name, requests)
        for name in (*_LENGTHS, *_OPTIONAL, *_DEFAULTS)
        if any(name in request for request in requests)
    }
    names: dict[str, int] = {}
    if any("session" in request for request in requests):
        sessions = [_session(_text(request.get("session")), names) for request in requests]
        columns["session"] = np.array(sessions, dtype=np.int64)
    return _Table(
        values=columns,
        lines=[line for line, _ in rows],
        contents=_contents(requests),
        block_tokens=int(block_tokens.pop()),
    )


def _text(session: Any) -> str:
    return "" if session is None else str(session)


def _column(name: str, requests: list[dict[str, Any]]) -> Int64Column:
    values = [request.get(name, _DEFAULTS.get(name)) for request in requests]
    if name.endswith("_s"):
        values = [in_ns(value, 10**9) for value in values]
    return np.array(values, dtype=np.int64)


def _wrong_content(request: dict[str, Any], where: str) -> list[str]:
    problems = []
    if not _is_id(request.get("answer_id", 0)):
        expected = "an integer from 0"
        problems.append(problem(f"{where}, field answer_id", request["answer_id"], expected))
    segments = request.get("segments")
    if isinstance(segments, list):
        expected = f"lists [content id, tokens] that sum to {request.get('prompt_tokens')} tokens"
        if not (all(_is_segment(s) for s in segments) and _sums(segments, request)):
            problems.append(problem(f"{where}, field segments", segments, expected))
    return problems


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _is_segment(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(_is_id(item) for item in value)
        and 1 <= value[1] <= LARGEST_COUNT
    )


def _sums(segments: list[list[int]], request: dict[str, Any]) -> bool:
    return sum(tokens for _, tokens in segments) == request.get("prompt_tokens")


def _contents(requests: list[dict[str, Any]]) -> list[tuple[Segment, ...]] | None:
    """Segments of each prompt; one of its own where a line has none, and None where all have."""
    if not any("segments" in request for request in requests):
        return None
    known = [[(s[0], s[1]) for s in request.get("segments", [])] for request in requests]
    ids = {content_id for segments in known for content_id, _ in segments}
    fresh = max(ids | {request.get("answer_id", 0) for request in requests}) + 1
    return [
        tuple(segments) or ((fresh + row, int(requests[row]["prompt_tokens"])),)
        for row, segments in enumerate(known)
    ]


def write_csv(trace: Trace, path: str | Path) -> None:
    """Write a trace so that reading it gives the same; times to the nanosecond.

    Raises WorkloadError for one whose prompts say what they share, and as `_write` does.
    """
    if trace.segments is not None or trace.answer_ids is not None:
        raise WorkloadError(f"{path}: CSV has no room for what prompts share, expected JSON lines")
    rows = _rows(trace)
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    _write(path, lines)


def write_jsonl(trace: Trace, path: str | Path) -> None:
    """Write a trace so that reading it gives the same; times are exact up to 97 days.

    Raises WorkloadError as `_write` does.
    """
    rows = _rows(trace)
    for name in ("arrival_s", "think_time_s"):
        for row in rows:
            if name in row:
                row[name] = float(row[name])
    if trace.answer_ids is not None:
        for row, answer_id in zip(rows, trace.answer_ids.tolist(), strict=True):
            row["answer_id"] = answer_id
    if trace.segments is not None:
        for number, row in enumerate(rows):
            row["segments"] = trace.segments.of(number)
            row["block_tokens"] = trace.segments.block_tokens
    _write(path, [json.dumps(row) for row in rows])


def _rows(trace: Trace) -> list[dict[str, Any]]:
    """Values by column of each request, times as texts."""
    columns: dict[str, list[Any]] = {}
    if trace.arrival_ns is not None:
        columns["arrival_s"] = [_seconds(time) for time in trace.arrival_ns.tolist()]
    columns["prompt_tokens"] = trace.prompt_tokens.tolist()
    columns["output_tokens"] = trace.output_tokens.tolist()
    if trace.previous is not None and trace.think_time_ns is not None:
        columns["session"] = (session_numbers(trace) + 1).tolist()
        columns["turn"] = _turns(trace.previous.tolist())
        columns["think_time_s"] = [_seconds(time) for time in trace.think_time_ns.tolist()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _turns(previous: list[int]) -> list[int]:
    turns: list[int] = []
    for before in previous:
        turns.append(1 if before < 0 else turns[before] + 1)
    return turns


def _seconds(time_ns: int) -> str:
    return f"{time_ns // 10**9}.{time_ns % 10**9:09d}"


def _write(path: str | Path, lines: list[str]) -> None:
    """Raises WorkloadError for a path that cannot be written."""
    try:
        Path(path).write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be written: {error.strerror}") from error
