"""The reader of coding agents' sessions, oddity by oddity, and on the published files."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from workloads import Source, Trace, WorkloadError, read_source, read_trace, workload_from_trace

COUNT = "expected an integer from 1 to 1000000000"
SECONDS = "expected a number from 0 to 9e+07"
UNKNOWN = (
    "think time of {} of {} requests unknown: taken as all of the time since the request before"
)


def request(t: float, tokens: int = 64, output: int = 5, **more: Any) -> dict[str, Any]:
    ids = list(range(1, tokens // 64 + 1))
    return {"t": t, "type": "n", "in": tokens, "out": output, "hash_ids": ids, **more}


def subagent(t: float, *requests: Any) -> dict[str, Any]:
    return {"t": t, "type": "subagent", "requests": list(requests)}


def source(*requests: Any, **more: Any) -> Source:
    session = {"id": "x", "block_size": 64, "hash_id_scope": "local", "requests": requests, **more}
    return Source("session.json", json.dumps(session))


def read(*requests: Any) -> Trace:
    return read_trace(source(*requests))


def error_of(source: Source) -> str:
    with pytest.raises(WorkloadError) as error:
        read_trace(source, "agentic")
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix("session.json: ")


def chains_of(trace: Trace) -> list[tuple[int, ...]]:
    """(arrival, previous, think time, prompt) of each request."""
    assert trace.arrival_ns is not None
    assert trace.previous is not None
    assert trace.think_time_ns is not None
    columns = (trace.arrival_ns, trace.previous, trace.think_time_ns, trace.prompt_tokens)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def segments_of(trace: Trace) -> list[list[tuple[int, int]]]:
    assert trace.segments is not None
    pairs = list(zip(trace.segments.ids.tolist(), trace.segments.tokens.tolist(), strict=True))
    offsets = trace.segments.offsets.tolist()
    return [pairs[a:b] for a, b in pairwise(offsets)]


def test_think_times_as_they_are_given() -> None:
    trace = read(request(5, think_time=0.0, api_time=1), request(19, 130, think_time=11.25))
    assert trace.format == "agentic"
    assert chains_of(trace) == [(0, -1, 0, 64), (0, 0, 11_250_000_000, 130)]
    assert trace.notes == ()


def test_without_think_time_what_the_answer_before_leaves() -> None:
    """19.1 - (0.3 + 7.88) = 10.92 s, in whole nanoseconds."""
    trace = read(request(0.3, api_time=7.88), request(19.1))
    assert chains_of(trace)[1] == (0, 0, 10_920_000_000, 64)
    assert trace.notes == ()


def test_an_answer_that_ended_after_the_next_request_is_noted() -> None:
    trace = read(request(0, api_time=7.88), request(5))
    assert chains_of(trace)[1] == (0, 0, 0, 64)
    assert trace.notes == ("think time of 1 of 2 requests below 0: taken as 0",)


def test_without_both_the_difference_of_times_is_noted() -> None:
    trace = read(request(0), request(8.5), request(13, think_time=2))
    assert [think for _, _, think, _ in chains_of(trace)] == [0, 8_500_000_000, 2_000_000_000]
    assert trace.notes == (UNKNOWN.format(1, 3),)


def test_subagents_are_sessions_that_begin_at_their_entry() -> None:
    """The main agent at 0; one at 10 + 0, in that one another at 10 + 3 + 1; one at 2 + 9."""
    trace = read(
        request(0),
        subagent(10, request(0, 65), subagent(3, request(1, 66)), request(6, 67, think_time=4)),
        subagent(2, request(9, 68)),
        request(20, 69, think_time=1),
    )
    assert chains_of(trace) == [
        (0, -1, 0, 64),
        (0, 0, 10**9, 69),
        (10 * 10**9, -1, 0, 65),
        (10 * 10**9, 2, 4 * 10**9, 67),
        (11 * 10**9, -1, 0, 68),
        (14 * 10**9, -1, 0, 66),
    ]
    assert trace.notes == ()
    assert workload_from_trace(trace, max_model_len=100).following == {
        0: (1, 10**9),
        2: (3, 4 * 10**9),
    }


def test_a_session_of_subagents_alone_counts_from_the_first() -> None:
    trace = read(subagent(10, request(1)), subagent(4, request(2.5, 70)), subagent(0))
    assert chains_of(trace) == [(0, -1, 0, 70), (4_500_000_000, -1, 0, 64)]


def test_deeply_nested_subagents() -> None:
    inner = subagent(1, request(1))
    for _ in range(80):
        inner = subagent(1, inner)
    trace = read(request(0, 65), inner)
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 82 * 10**9]


def test_full_blocks_are_shared_and_the_rest_of_a_prompt_is_its_own() -> None:
    trace = read(request(0, 150), request(1, 150), request(2, 128), request(3, 10))
    assert segments_of(trace) == [
        [(1, 64), (2, 64), (3, 22)],
        [(1, 64), (2, 64), (4, 22)],
        [(1, 64), (2, 64)],
        [(5, 10)],
    ]
    assert trace.segments is not None
    assert trace.segments.block_tokens == 64


def test_block_size_is_that_of_the_file() -> None:
    trace = read_trace(source({"t": 0, "in": 50, "out": 1, "hash_ids": [8, 9]}, block_size=20))
    assert segments_of(trace) == [[(8, 20), (9, 20), (10, 10)]]


def test_what_followed_a_request_without_output_follows_the_one_before() -> None:
    """Its time counts from that one too: 9 - (0 + 2) = 7 s."""
    trace = read(
        request(0, 64, api_time=2),
        request(4, 65, output=0, api_time=1),
        request(9, 66),
        subagent(3, request(0, 67, output=0), request(2, 68)),
        subagent(3, request(0, 69, output=0)),
    )
    assert chains_of(trace) == [(0, -1, 0, 64), (0, 0, 7 * 10**9, 66), (5 * 10**9, -1, 0, 68)]
    assert (len(trace), trace.num_rows) == (3, 6)
    assert trace.notes == ("skipped 3 requests: out 0",)


@pytest.mark.parametrize("requests", [[], [request(0, output=0)], [subagent(0)]])
def test_no_request_is_left(requests: list[Any]) -> None:
    assert error_of(source(*requests)) == "no request with out above 0, expected some"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("t", -1, SECONDS),
        ("t", 1e8, SECONDS),
        ("t", None, SECONDS),
        ("in", 0, COUNT),
        ("out", 1.5, "expected an integer from 0 to 1000000000"),
        ("hash_ids", [1.5], "expected a list of integers from 0"),
        ("api_time", "x", SECONDS),
        ("think_time", -2, SECONDS),
    ],
)
def test_values_are_named_by_their_path(name: str, value: Any, expected: str) -> None:
    bad = {**request(0), name: value}
    assert error_of(source(request(0), bad)) == f"requests.1.{name}: got {value!r}, {expected}"
    assert error_of(source(request(0), subagent(0, bad))) == (
        f"requests.1.requests.0.{name}: got {value!r}, {expected}"
    )


def test_all_that_is_wrong_is_in_one_message() -> None:
    assert error_of(source(7, {"t": 0}, {"type": "subagent", "t": 0, "requests": 3})) == "; ".join(
        [
            "requests.0: got 7, expected an object",
            "requests.1: no field in, got t",
            "requests.1: no field out, got t",
            "requests.1: no field hash_ids, got t",
            "requests.2.requests: got 3, expected a list",
        ]
    )


@pytest.mark.parametrize(("tokens", "ids", "num_blocks"), [(127, [1, 2], 1), (128, [1], 2)])
def test_as_many_ids_as_full_blocks(tokens: int, ids: list[int], num_blocks: int) -> None:
    bad = {**request(0, tokens), "hash_ids": ids}
    assert error_of(source(bad)) == (
        f"requests.0.hash_ids: got {len(ids)} of them, expected {num_blocks}, one for each full "
        f"block of 64 of {tokens} tokens"
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"block_size": 0}, f"top level, field block_size: got 0, {COUNT}"),
        ({"requests": {}}, "top level, field requests: got {}, expected a list"),
    ],
)
def test_top_level(changed: dict[str, Any], message: str) -> None:
    assert error_of(source(**changed)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "top level: got [1], expected an object"),
        (
            '{"id": "x"}',
            "top level: no field block_size, got id; top level: no field requests, got id",
        ),
        ('{"requests": [', "not JSON: ends early: Expecting value at column 15"),
        (
            '{\n"requests":\n [{"t": NaN}]}',
            "not JSON: got NaN, expected a number, at line 3, column 9",
        ),
        ("[" * 100_000, "not JSON: nested too deeply"),
    ],
)
def test_text_that_is_no_session(text: str, message: str) -> None:
    assert error_of(Source("session.json", text)) == message


@pytest.mark.parametrize(
    ("number", "num_requests"),
    [("0021", 14), ("0022", 7), ("0026", 3), ("0040", 6), ("0058", 4), ("0277", 53)],
)
def test_published_files(data_dir: Path, number: str, num_requests: int) -> None:
    """Counts of the README, and the sums of tokens that each file states for itself."""
    path = data_dir / f"traces/agentic/trace_{number}.json"
    trace = read_trace(read_source(path))
    assert (trace.format, len(trace)) == ("agentic", num_requests)
    totals = json.loads(path.read_text())["totals"]["combined_tokens"]
    assert trace.prompt_tokens.sum() == totals["input"]
    assert trace.output_tokens.sum() == totals["output"]
    assert trace.notes == ((UNKNOWN.format(3, 4),) if number == "0058" else ())
    workload_from_trace(trace, max_model_len=300_000)


def test_published_file_with_subagents(data_dir: Path) -> None:
    """Four subagents, at the times of their entries; their prompts begin alike, as no main does."""
    trace = read_trace(read_source(data_dir / "traces/agentic/trace_0277.json"))
    firsts = [row for row in chains_of(trace) if row[1] < 0]
    milliseconds = [0, 79_224, 183_906, 211_347, 723_533]
    assert [arrival for arrival, *_ in firsts] == [time * 10**6 for time in milliseconds]
    assert trace.prompt_tokens.max() == 92_614
    assert {content[0][0] for content in segments_of(trace)} == {1, 1448}
