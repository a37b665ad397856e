"""The columns of kvsim's own format as they stand in a file, CSV or JSON lines."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workloads.checks import COUNT_EXPECTED, LARGEST_COUNT, problem
from workloads.content import MOST_CONTENT_IDS, Segment
from workloads.files import bad_file, parse_count
from workloads.readers.csv_table import Column, read_csv_table
from workloads.readers.headers import misspelt
from workloads.readers.jsonl_table import Field, check_object, read_jsonl
from workloads.readers.times import SECONDS_EXPECTED, in_ns, seconds_ns
from workloads.source import Source
from workloads.workload import Int64Column, int64_column

LENGTHS = ("prompt_tokens", "output_tokens")
COLUMNS = (*LENGTHS, "arrival_s", "session")  # by which it is known
_MORE = ("turn", "think_time_s", "priority", "segments", "answer_id", "block_tokens")
_INTEGER = re.compile(r"-?[0-9]{1,9}")
_OPTIONAL = ("answer_id", "arrival_s")  # of all requests or of none


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Columns by name as they stand in the file; what only JSON lines have is in `contents`."""

    values: dict[str, Int64Column]
    lines: list[int]
    contents: list[tuple[Segment, ...]] | None = None
    block_tokens: int = 1


def read_table(source: Source) -> Table:
    """The columns that there are; session is a number in order of appearance, -1 for none.

    Raises WorkloadError as `read_csv_table` and `read_jsonl` do, for columns that are spelt nearly
    as one of these, and for segments that do not sum to prompt_tokens.
    """
    cells, kind = (sorted(source.keys), "key") if source.is_json else (source.columns, "column")
    if problems := misspelt(cells, (*COLUMNS, *_MORE), kind):
        raise bad_file(source.name, problems)
    return _read_jsonl(source) if source.is_json else _read_csv(source)


def _read_csv(source: Source) -> Table:
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
    return Table(values=table.values, lines=table.lines)


def _session(text: str, names: dict[str, int]) -> int:
    """The number of a session in order of appearance; -1 for a request that is of none."""
    return names.setdefault(text, len(names)) if text else -1


def _or_empty(parse: Callable[[str], int | None], value: int) -> Callable[[str], int | None]:
    return lambda text: parse(text) if text else value


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


_FIELDS = {
    "arrival_s": Field("number", unit_ns=10**9, is_optional=True),
    "prompt_tokens": Field("count"),
    "output_tokens": Field("count"),
    "turn": Field("count", is_optional=True),
    "think_time_s": Field("number", unit_ns=10**9, is_optional=True),
    "priority": Field("count", lowest=-LARGEST_COUNT, is_optional=True),
    "segments": Field("list", is_optional=True),
    "block_tokens": Field("count", is_optional=True),
}
_DEFAULTS = {"turn": 1, "think_time_s": 0, "priority": 0}


def _read_jsonl(source: Source) -> Table:
    rows = read_jsonl(source, _FIELDS)
    fields = {
        name: Field("any") for name in _OPTIONAL if any(name in request for _, request in rows)
    }
    problems = []
    for line, request in rows:
        where = f"{source.counted} {line}"
        problems += check_object(request, fields, where)
        problems += _wrong_content(request, where)
    block_tokens = {request.get("block_tokens", 1) for _, request in rows}
    if len(block_tokens) > 1:
        problems.append(problem("block_tokens", sorted(block_tokens), "the same in all rows"))
    if problems:
        raise bad_file(source.name, problems)
    requests = [request for _, request in rows]
    columns = {
        name: _column(name, requests)
        for name in (*LENGTHS, *_OPTIONAL, *_DEFAULTS)
        if any(name in request for request in requests)
    }
    names: dict[str, int] = {}
    if any("session" in request for request in requests):
        sessions = [_session(_text(request.get("session")), names) for request in requests]
        columns["session"] = int64_column(sessions)
    return Table(
        values=columns,
        lines=[line for line, _ in rows],
        contents=_contents(requests),
        block_tokens=int(block_tokens.pop()),
    )


def _text(session: Any) -> str:
    return "" if session is None else str(session)


def _column(name: str, requests: list[dict[str, Any]]) -> Int64Column:
    unit_ns = 10**9 if name.endswith("_s") else 1
    values: list[Any] = [request.get(name, _DEFAULTS.get(name)) for request in requests]
    return int64_column(in_ns(value, unit_ns) for value in values)


def _wrong_content(request: dict[str, Any], where: str) -> list[str]:
    problems = []
    session = request.get("session")
    if isinstance(session, bool | list | dict):
        problems.append(problem(f"{where}, field session", session, "a text or a number"))
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
    return type(value) is int and 0 <= value < MOST_CONTENT_IDS


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
    """Segments of each prompt, one of its own where a line has none.

    None where content has no ids at all.
    """
    if not any("segments" in request or "answer_id" in request for request in requests):
        return None
    known = [[(s[0], s[1]) for s in request.get("segments", [])] for request in requests]
    ids = {content_id for segments in known for content_id, _ in segments}
    fresh = max(ids | {request.get("answer_id", 0) for request in requests}) + 1
    return [
        tuple(segments) or ((fresh + row, int(requests[row]["prompt_tokens"])),)
        for row, segments in enumerate(known)
    ]
