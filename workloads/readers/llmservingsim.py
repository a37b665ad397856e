"""Workloads of LLMServingSim (github.com/casys-kaist/LLMServingSim, `workloads`).

JSONL. A line is a request: `input_toks` (prompt) and `output_toks` in tokens, `arrival_time_ns`,
and maybe `input_tok_ids`, the tokens themselves. Or it is a session: `session_id`,
`arrival_time_ns` of its first request, and `sub_requests`, a list of requests without a time, each
with `tool_duration_ns`: how long after its answer the next is sent (0 where it is not given). Both
may stand in one file.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from workloads.checks import problem
from workloads.content import Segment
from workloads.files import bad_file
from workloads.readers.jsonl_table import Field, Row, check_object, column, read_jsonl
from workloads.readers.times import times_ns
from workloads.readers.token_ids import shared_beginnings
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

_LINE = {
    "arrival_time_ns": Field("number"),
    "sub_requests": Field("list", is_optional=True),
}
_REQUEST = {
    "input_toks": Field("count"),
    "output_toks": Field("count"),
    "input_tok_ids": Field("ids", is_optional=True),
    "tool_duration_ns": Field("number", is_optional=True),
}


def recognises(source: Source) -> bool:
    """Whether the keys are those of a request or a session."""
    return "arrival_time_ns" in source.keys and bool({"input_toks", "sub_requests"} & source.keys)


def read(source: Source) -> Trace:
    """Read the workload; prompts share the tokens with which they begin alike.

    A prompt without input_tok_ids shares nothing. output_tok_ids are passed over: what a prompt
    quotes of an earlier answer is known only where another prompt quotes it too.

    Raises WorkloadError as `read_jsonl` does, for a session without requests, and for a number of
    input_tok_ids that is not input_toks.
    """
    lines = read_jsonl(source, _LINE)
    problems = [bad for line, row in lines for bad in _problems(f"{source.counted} {line}", row)]
    if problems:
        raise bad_file(source.name, problems)
    flat = _Flat()
    for line, row in lines:
        flat.add(line, row["arrival_time_ns"], row.get("sub_requests", [row]))
    has_sessions = any("sub_requests" in row for _, row in lines)
    return trace_from_rows(
        Rows(
            time_ns=times_ns(flat.times, 1),
            prompt_tokens=column(flat.requests, "input_toks"),
            output_tokens=column(flat.requests, "output_toks"),
            lines=[line for line, _ in flat.requests],
            contents=_contents(flat.requests),
            counted=source.counted,
            previous=np.array(flat.previous, dtype=np.int64) if has_sessions else None,
            think_time_ns=times_ns(flat.think_times, 1) if has_sessions else None,
        ),
        format="llmservingsim",
    )


def _problems(where: str, row: dict[str, Any]) -> list[str]:
    if "sub_requests" not in row:
        return _problems_of_request(row, where)
    if not row["sub_requests"]:
        return [problem(f"{where}, field sub_requests", [], "at least one")]
    return [
        bad
        for i, request in enumerate(row["sub_requests"])
        for bad in _problems_of_request(request, f"{where}, sub_requests.{i}")
    ]


def _problems_of_request(request: Any, where: str) -> list[str]:
    if not isinstance(request, dict):
        return [problem(where, request, "an object")]
    problems = check_object(request, _REQUEST, where)
    token_ids = request.get("input_tok_ids")
    if not problems and token_ids is not None and len(token_ids) != request["input_toks"]:
        expected = f"{request['input_toks']}, as input_toks says"
        problems = [
            f"{where}, field input_tok_ids: got {len(token_ids)} of them, expected {expected}"
        ]
    return problems


@dataclass
class _Flat:
    """Requests one after the other, with the line, and of each what `Rows` needs."""

    requests: list[Row] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    previous: list[int] = field(default_factory=list)
    think_times: list[float] = field(default_factory=list)

    def add(self, line: int, time: float, session: list[dict[str, Any]]) -> None:
        first = len(self.requests)
        self.requests += ((line, request) for request in session)
        self.times += [time] * len(session)
        self.previous += [-1, *range(first, len(self.requests) - 1)]
        self.think_times += [0, *(request.get("tool_duration_ns", 0) for request in session[:-1])]


def _contents(requests: list[Row]) -> list[list[Segment]] | None:
    """Segments of each prompt; None where no tokens are given."""
    known = [i for i, (_, request) in enumerate(requests) if "input_tok_ids" in request]
    if not known:
        return None
    shared = shared_beginnings([requests[i][1]["input_tok_ids"] for i in known])
    of_known = dict(zip(known, shared, strict=True))
    own = count(1 + max(content_id for content in shared for content_id, _ in content))
    return [
        of_known[i] if i in of_known else [(next(own), int(request["input_toks"]))]
        for i, (_, request) in enumerate(requests)
    ]
