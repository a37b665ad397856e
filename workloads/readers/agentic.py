"""Sessions of coding agents (github.com/callanjfox/kv-cache-tester, `traces`).

One JSON object: `block_size` in tokens and `requests`, each with `t` (seconds), `in` (prompt) and
`out` in tokens, `hash_ids`, one for each full block of the prompt, and maybe `api_time` (seconds
that the answer took) and `think_time` (seconds from the answer before to this request). An entry of
`type` "subagent" has `requests` of its own, whose `t` counts from the entry's.
"""

from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

from workloads.checks import problem
from workloads.content import Segment
from workloads.files import bad_file
from workloads.readers.jsonl_table import Field, check_object, read_object, skipped_note
from workloads.readers.times import in_ns
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows
from workloads.workload import Int64Column, int64_column

_SECOND = 10**9
_SECONDS = Field("number", unit_ns=100 * _SECOND)  # 2.8 years, so that sums stay in int64
_SOME_SECONDS = Field("number", unit_ns=100 * _SECOND, is_optional=True)
_FILE = {"block_size": Field("count"), "requests": Field("list")}
_SUBAGENT = {"t": _SECONDS, "requests": Field("list")}
_REQUEST = {
    "t": _SECONDS,
    "in": Field("count"),
    "out": Field("count", lowest=0),
    "hash_ids": Field("ids"),
    "api_time": _SOME_SECONDS,
    "think_time": _SOME_SECONDS,
}


def recognises(source: Source) -> bool:
    """Whether the keys are those of a session."""
    return {"block_size", "requests"} <= source.keys and not source.is_list


def read(source: Source) -> Trace:
    """Read the sessions of one file; prompts share the blocks whose ids are equal.

    The main agent and each subagent is a session of its own. Its first request comes when `t` says,
    each other `think_time` after the answer to the one before. Where that is missing it is what
    `t` and the `api_time` of the one before leave, and where this is missing too, the whole
    difference of `t`, which is noted, as are times below 0 that are taken as 0. Nobody waits for an
    agent that it started. The rest of a prompt after its last full block is shared with none.

    Requests with an `out` of 0 are skipped and noted; what followed them follows the one before.

    Raises WorkloadError for text that is not JSON, for values that are not as they must be, by
    their path, for a number of hash_ids that is not the number of full blocks, and where no request
    is left.
    """
    session = read_object(source, _FILE)
    block_tokens, problems = int(session["block_size"]), list[str]()
    everything = _chains(session["requests"], block_tokens, problems)
    if problems:
        raise bad_file(source.name, problems)
    num_rows = sum(len(chain.requests) for chain in everything)
    chains = [answered for chain in everything if (answered := _answered(chain)).requests]
    if not chains:
        raise bad_file(source.name, ["no request with out above 0, expected some"])
    chains.sort(key=lambda chain: chain.first_ns)
    requests = [request for chain in chains for request in chain.requests]
    think_time_ns, notes = _think_times(chains)
    rows = Rows(
        time_ns=int64_column([chain.first_ns for chain in chains for _ in chain.requests]),
        prompt_tokens=int64_column([int(request["in"]) for request in requests]),
        output_tokens=int64_column([int(request["out"]) for request in requests]),
        lines=(),  # nothing is out of time order
        contents=_contents(requests, block_tokens),
        block_tokens=block_tokens,
        previous=_previous(chains),
        think_time_ns=think_time_ns,
    )
    skipped = skipped_note(num_rows - len(requests), "out")
    return trace_from_rows(rows, format="agentic", num_rows=num_rows, notes=(*skipped, *notes))


@dataclass(frozen=True)
class _Chain:
    """Requests of one agent, each sent after the answer to the one before; `t` is from start_ns."""

    start_ns: int
    requests: list[dict[str, Any]]

    @property
    def first_ns(self) -> int:
        """When the first of them comes."""
        return self.start_ns + in_ns(self.requests[0]["t"], _SECOND)


def _chains(entries: list[Any], block_tokens: int, problems: list[str]) -> list[_Chain]:
    """The chain of the main agent and those of all subagents; what is wrong goes to `problems`."""
    chains = []
    agents = [("requests", entries, 0)]
    for path, agent_entries, start_ns in agents:  # grows as subagents are found
        requests = []
        for i, entry in enumerate(agent_entries):
            where = f"{path}.{i}"
            wrong = _wrong(entry, where, block_tokens)
            problems += wrong
            if wrong:
                continue
            if _is_subagent(entry):
                began_ns = start_ns + in_ns(entry["t"], _SECOND)
                agents.append((f"{where}.requests", entry["requests"], began_ns))
            else:
                requests.append(entry)
        chains.append(_Chain(start_ns, requests))
    return chains


def _is_subagent(entry: dict[str, Any]) -> bool:
    return entry.get("type") == "subagent"


def _wrong(entry: Any, where: str, block_tokens: int) -> list[str]:
    if not isinstance(entry, dict):
        return [problem(where, entry, "an object")]
    fields = _SUBAGENT if _is_subagent(entry) else _REQUEST
    problems = check_object(entry, fields, where, joint=".")
    if problems or _is_subagent(entry):
        return problems
    num_ids, num_blocks = len(entry["hash_ids"]), int(entry["in"]) // block_tokens
    if num_ids == num_blocks:
        return []
    return [
        f"{where}.hash_ids: got {num_ids} of them, expected {num_blocks}, one for each full block "
        f"of {block_tokens} of {int(entry['in'])} tokens"
    ]


def _answered(chain: _Chain) -> _Chain:
    return _Chain(chain.start_ns, [request for request in chain.requests if request["out"] > 0])


def _previous(chains: list[_Chain]) -> Int64Column:
    previous: list[int] = []
    for chain in chains:
        first = len(previous)
        previous += [-1, *range(first, first + len(chain.requests) - 1)]
    return int64_column(previous)


def _think_times(chains: list[_Chain]) -> tuple[Int64Column, tuple[str, ...]]:
    """How long after the answer before each request is sent, 0 for the first of a chain; notes."""
    times: list[int] = []
    num_guessed = 0
    for chain in chains:
        times.append(0)
        for before, request in pairwise(chain.requests):
            since_ns = in_ns(request["t"], _SECOND) - in_ns(before["t"], _SECOND)
            if "think_time" in request:
                times.append(in_ns(request["think_time"], _SECOND))
            elif "api_time" in before:
                times.append(since_ns - in_ns(before["api_time"], _SECOND))
            else:
                times.append(since_ns)
                num_guessed += 1
    num_negative = sum(time < 0 for time in times)
    notes = []
    if num_guessed:
        notes.append(
            f"think time of {num_guessed} of {len(times)} requests unknown: taken as all of the "
            "time since the request before"
        )
    if num_negative:
        notes.append(f"think time of {num_negative} of {len(times)} requests below 0: taken as 0")
    return int64_column([max(0, time) for time in times]), tuple(notes)


def _contents(requests: list[dict[str, Any]], block_tokens: int) -> list[list[Segment]]:
    """Full blocks by their ids, and the rest of each prompt by an id of its own."""
    highest = max((block for request in requests for block in request["hash_ids"]), default=0)
    rest_ids = count(highest + 1)
    contents = []
    for request in requests:
        content = [(block, block_tokens) for block in request["hash_ids"]]
        rest = int(request["in"]) % block_tokens
        contents.append([*content, (next(rest_ids), rest)] if rest else content)
    return contents
