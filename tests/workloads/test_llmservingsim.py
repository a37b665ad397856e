"""The LLMServingSim reader, oddity by oddity, and on the published file."""

import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads import Source, Trace, WorkloadError, read_source, read_trace, workload_from_trace
from workloads.readers.token_ids import shared_beginnings

COUNT = "expected an integer from 1 to 1000000000"


def request(prompt: int | list[int], output: int = 5, **more: Any) -> dict[str, Any]:
    if isinstance(prompt, int):
        return {"input_toks": prompt, "output_toks": output, **more}
    return {"input_toks": len(prompt), "output_toks": output, "input_tok_ids": prompt, **more}


def session(time_ns: int, *requests: Any) -> dict[str, Any]:
    return {"session_id": "s", "arrival_time_ns": time_ns, "sub_requests": list(requests)}


def source(*lines: Any) -> Source:
    return Source("work.jsonl", "\n".join(json.dumps(line) for line in lines))


def read(*lines: Any) -> Trace:
    return read_trace(source(*lines))


def error_of(*lines: Any) -> str:
    with pytest.raises(WorkloadError) as error:
        read_trace(source(*lines), "llmservingsim")
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix("work.jsonl: ")


def segments_of(trace: Trace) -> list[list[tuple[int, int]]]:
    assert trace.segments is not None
    pairs = list(zip(trace.segments.ids.tolist(), trace.segments.tokens.tolist(), strict=True))
    offsets = trace.segments.offsets.tolist()
    return [pairs[a:b] for a, b in pairwise(offsets)]


def test_requests_with_lengths_alone_share_nothing() -> None:
    trace = read(request(30, 7, arrival_time_ns=46926808), request(4, 2, arrival_time_ns=46926809))
    assert trace.format == "llmservingsim"
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 1]
    assert trace.prompt_tokens.tolist() == [30, 4]
    assert trace.output_tokens.tolist() == [7, 2]
    assert (trace.segments, trace.previous, trace.think_time_ns) == (None, None, None)


def test_prompts_share_the_tokens_with_which_they_begin_alike() -> None:
    """The first three begin with 1 2; the last begins as nobody, one has no tokens."""
    prompts: list[int | list[int]] = [[1, 2, 3], 9, [1, 2, 4, 5], [1, 2], [6, 1, 2]]
    trace = read(*(request(prompt, arrival_time_ns=i) for i, prompt in enumerate(prompts)))
    one, own, other, short, last = segments_of(trace)
    [shared] = short
    assert [tokens for _, tokens in (shared, *own, *last)] == [2, 9, 3]
    assert one[0] == other[0] == shared
    assert [tokens for _, tokens in (one[1], other[1])] == [1, 2]
    assert len({shared[0], one[1][0], other[1][0], own[0][0], last[0][0]}) == 5


def test_worked_example_of_shared_beginnings() -> None:
    assert shared_beginnings([[1, 2, 3], [1, 2, 4, 5], [1, 2]]) == [
        [(0, 2), (1, 1)],
        [(0, 2), (2, 2)],
        [(0, 2)],
    ]


def test_no_prompts_and_equal_prompts() -> None:
    assert shared_beginnings([]) == []
    assert shared_beginnings([[5, 5], [5, 5]]) == [[(0, 2)], [(0, 2)]]


def test_segments_are_shared_exactly_as_far_as_tokens_are(rng: np.random.Generator) -> None:
    """Against a comparison token by token, for random prompts of two tokens."""
    prompts = [rng.integers(2, size=rng.integers(1, 9)).tolist() for _ in range(40)]
    contents = [
        [(content, k) for content, length in segments for k in range(length)]
        for segments in shared_beginnings(prompts)
    ]
    assert [len(content) for content in contents] == [len(prompt) for prompt in prompts]

    def num_common(a: list[Any], b: list[Any]) -> int:
        return next(
            (k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
        )

    for i, j in product(range(40), repeat=2):
        assert num_common(contents[i], contents[j]) == num_common(prompts[i], prompts[j])


def test_long_prompts_have_few_segments() -> None:
    """Two branches of one beginning of 50,000 tokens, and no recursion."""
    begin = [7] * 50_000
    contents = shared_beginnings([[*begin, 1], [*begin, 2]])
    assert contents == [[(0, 50_000), (1, 1)], [(0, 50_000), (2, 1)]]


def test_prompts_that_grow_have_one_segment_a_turn() -> None:
    prompts = [list(range(length)) for length in (10, 30, 60)]
    assert shared_beginnings(prompts) == [
        [(0, 10)],
        [(0, 10), (1, 20)],
        [(0, 10), (1, 20), (2, 30)],
    ]


def test_sessions_send_after_the_answer_and_the_tool_of_the_one_before() -> None:
    """The last tool follows no request that waits for it."""
    trace = read(
        request(1, arrival_time_ns=50),
        session(
            20,
            request(10, tool_duration_ns=127348767),
            request(12),
            request(14, tool_duration_ns=9),
        ),
        session(50, request(2, tool_duration_ns=3)),
    )
    assert trace.prompt_tokens.tolist() == [10, 12, 14, 1, 2]
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 0, 0, 30, 30]
    assert trace.previous is not None
    assert trace.previous.tolist() == [-1, 0, 1, -1, -1]
    assert trace.think_time_ns is not None
    assert trace.think_time_ns.tolist() == [0, 127348767, 0, 0, 0]
    assert trace.notes == ("sorted by time: 1 backward step, the first at line 2",)
    assert workload_from_trace(trace, max_model_len=100).following == {0: (1, 127348767), 1: (2, 0)}


def test_turns_of_a_session_share_what_their_tokens_say() -> None:
    trace = read(session(0, request([1, 2]), request([1, 2, 3])))
    first, second = segments_of(trace)
    assert second[:1] == first


def test_session_without_requests() -> None:
    assert error_of(request(1, arrival_time_ns=0), session(0)) == (
        "line 2, field sub_requests: got [], expected at least one"
    )


def test_requests_of_a_session_are_named_by_their_place() -> None:
    bad = session(0, request(1), request(0), 7, {"input_toks": 2}, request(1, tool_duration_ns=-1))
    assert error_of(bad) == "; ".join(
        [
            f"line 1, sub_requests.1, field input_toks: got 0, {COUNT}",
            "line 1, sub_requests.2: got 7, expected an object",
            "line 1, sub_requests.3: no field output_toks, got input_toks",
            "line 1, sub_requests.4, field tool_duration_ns: got -1, "
            "expected a number from 0 to 9e+18",
        ]
    )


def test_as_many_token_ids_as_tokens() -> None:
    bad = request(3, arrival_time_ns=0, input_tok_ids=[1, 2])
    assert error_of(bad, session(0, bad)) == (
        "line 1, field input_tok_ids: got 2 of them, expected 3, as input_toks says; "
        "line 2, sub_requests.0, field input_tok_ids: got 2 of them, expected 3, as input_toks says"
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("arrival_time_ns", -1, "expected a number from 0 to 9e+18"),
        ("arrival_time_ns", 10**19, "expected a number from 0 to 9e+18"),
        ("sub_requests", 5, "expected a list"),
        ("input_toks", 1.5, COUNT),
        ("output_toks", 0, COUNT),
        ("input_tok_ids", ["a"], "expected a list of integers from 0"),
    ],
)
def test_fields_of_another_kind(name: str, value: Any, expected: str) -> None:
    assert error_of(request(1, **{"arrival_time_ns": 0, name: value})) == (
        f"line 1, field {name}: got {value!r}, {expected}"
    )


def test_missing_fields() -> None:
    assert error_of({"input_toks": 1}) == "line 1: no field arrival_time_ns, got input_toks"
    assert error_of({"arrival_time_ns": 1, "input_toks": 1}) == (
        "line 1: no field output_toks, got arrival_time_ns, input_toks"
    )


def test_published_file(data_dir: Path) -> None:
    """Against the figures of its README; three pairs of prompts, as one reads them in the file."""
    trace = read_trace(read_source(data_dir / "traces/llmservingsim/example_trace.jsonl"))
    assert (trace.format, len(trace), trace.notes) == ("llmservingsim", 10, ())
    assert trace.arrival_ns is not None
    assert trace.arrival_ns[-1] == 1_026_970_077 - 46_926_808
    assert trace.prompt_tokens.mean() == 12.0
    assert trace.prompt_tokens.max() == 22
    assert trace.output_tokens.mean() == pytest.approx(59.1)

    segments = segments_of(trace)
    assert [sum(tokens for _, tokens in content) for content in segments] == (
        trace.prompt_tokens.tolist()
    )

    def num_shared(i: int, j: int) -> int:
        return sum(tokens for content, tokens in set(segments[i]) & set(segments[j]))

    assert num_shared(0, 1) == 7
    assert num_shared(5, 6) == 10
    assert num_shared(0, 9) == 0
    assert max(len(content) for content in segments) <= 6
