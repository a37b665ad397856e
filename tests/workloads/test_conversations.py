"""Conversations with text as sessions."""

import json
from typing import Any

import pytest

from workloads import (
    ClosedLoop,
    ConstantRate,
    Source,
    Trace,
    WorkloadError,
    read_trace,
    workload_from_trace,
)

TWO_TURNS = [("human", "hello"), ("gpt", "hi"), ("human", "why?"), ("gpt", "so.")]

NOTES = ("text counted in bytes, a token each", "conversations have no arrival times")


def sharegpt(*messages: tuple[str, str]) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": who, "value": text} for who, text in messages]}


def read(*items: Any) -> Trace:
    return read_trace(Source("chats.json", json.dumps(items)))


def contents(trace: Trace) -> list[list[tuple[int, int]]]:
    assert trace.segments is not None
    return [trace.segments.of(request) for request in range(len(trace))]


def test_turns_are_sent_after_answers_and_share_what_was_said() -> None:
    trace = read(sharegpt(*TWO_TURNS), sharegpt(("human", "é"), ("gpt", "ok")))
    assert trace.format == "conversations"
    assert trace.prompt_tokens.tolist() == [5, 5 + 2 + 4, 2]
    assert trace.output_tokens.tolist() == [2, 3, 2]
    assert contents(trace) == [[(0, 5)], [(0, 5), (1, 2), (2, 4)], [(4, 2)]]
    assert trace.answer_ids is not None
    assert trace.answer_ids.tolist() == [1, 3, 5]
    assert trace.previous is not None
    assert trace.previous.tolist() == [-1, 0, -1]
    assert trace.notes == NOTES


def test_a_tokenizer_counts_each_message() -> None:
    """Words here; the message of none is empty, though it has bytes."""
    chat = sharegpt(("human", "how are you"), ("gpt", " "), ("gpt", "fine thanks"))
    text = json.dumps([chat])
    trace = read_trace(Source("chats.json", text), count_tokens=lambda text: len(text.split()))
    assert trace.prompt_tokens.tolist() == [3]
    assert trace.output_tokens.tolist() == [2]
    assert trace.notes == ("conversations have no arrival times", "1 empty message left out")


def test_a_tokenizer_for_a_trace_without_text_is_an_error() -> None:
    with pytest.raises(WorkloadError) as error:
        read_trace(Source("t.csv", "input_length,output_length\n1,2\n"), count_tokens=len)
    assert str(error.value) == (
        "t.csv: got a tokenizer with the format lengths, which has no text to count; "
        "expected conversations"
    )


def test_a_replay_quotes_its_answers() -> None:
    """Segment 2 of the second prompt is the first answer, so its K/V can be hit."""
    trace = read(sharegpt(*TWO_TURNS))
    workload = workload_from_trace(trace, max_model_len=100, arrivals=ConstantRate(1.0))
    assert workload.segment_ids.tolist() == [0, 0, 1, 2]
    assert workload.answer_ids[0] == 1
    assert workload.following == {0: (1, 0)}


def test_arrivals_say_when_sessions_start() -> None:
    trace = read(sharegpt(*TWO_TURNS), sharegpt(*TWO_TURNS))
    workload = workload_from_trace(trace, max_model_len=100, arrivals=ConstantRate(1.0))
    assert workload.arrival_ns is not None
    assert workload.arrival_ns.tolist() == [10**9, 10**9, 2 * 10**9, 2 * 10**9]
    closed = workload_from_trace(trace, max_model_len=100, arrivals=ClosedLoop(1, 0.0))
    assert (closed.arrival_ns, closed.first_of_sessions.tolist()) == (None, [0, 2])


def test_limit_cuts_what_is_said_later() -> None:
    trace = read(sharegpt(*TWO_TURNS), sharegpt(*TWO_TURNS))
    workload = workload_from_trace(trace, max_model_len=100, arrivals=ConstantRate(1.0), limit=3)
    assert workload.answer_ids.tolist() == [1, 3, 5]
    assert workload.following == {0: (1, 0)}


def test_without_arrivals_is_an_error() -> None:
    with pytest.raises(WorkloadError, match=r"no arrival times\) .* `workload.arrivals`"):
        workload_from_trace(read(sharegpt(*TWO_TURNS)), max_model_len=100)


def test_messages_of_openai_with_a_system_prompt() -> None:
    roles = ("system", "user", "assistant")
    messages = [{"role": role, "content": "x" * i} for i, role in enumerate(roles, start=1)]
    trace = read({"messages": messages})
    assert contents(trace) == [[(0, 1), (1, 2)]]
    assert trace.output_tokens.tolist() == [3]


def test_lines_of_json_are_the_same() -> None:
    text = "\n".join(json.dumps(sharegpt(*TWO_TURNS)) for _ in range(2))
    assert read_trace(Source("chats.jsonl", text)).prompt_tokens.tolist() == [5, 11, 5, 11]


def test_what_answers_no_human_is_only_said() -> None:
    trace = read(
        sharegpt(("gpt", "a"), ("human", "bb"), ("gpt", "ccc"), ("gpt", "dddd"), *TWO_TURNS)
    )
    assert trace.prompt_tokens.tolist() == [3, 15, 21]
    assert trace.output_tokens.tolist() == [3, 2, 3]


def test_what_is_left_out_is_counted() -> None:
    trace = read(
        sharegpt(("gpt", "a")),
        sharegpt(*TWO_TURNS, ("human", "more"), ("gpt", "")),
        sharegpt(),
    )
    assert len(trace) == 2
    assert trace.notes == (
        *NOTES,
        "1 empty message left out",
        "2 conversations without an answer to a human or a tool left out, "
        "the first at conversation 1",
    )


def test_wrong_items_are_in_one_report() -> None:
    with pytest.raises(WorkloadError) as error:
        read(sharegpt(*TWO_TURNS), {"messages": [{"role": "user", "content": [1]}]}, 7)
    assert str(error.value) == (
        "chats.json: conversation 2, message 1: got {'content': [1], 'role': 'user'}, expected an "
        "object with texts `role` and `content`; "
        "conversation 3: got 7, expected an object with a list `conversations`"
    )


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(WorkloadError, match="no answer to a human or a tool in 1 conversations"):
        read(sharegpt(("human", "a")))


def test_a_list_that_is_cut() -> None:
    text = json.dumps([sharegpt(*TWO_TURNS), sharegpt(*TWO_TURNS)])[:-9]
    with pytest.raises(WorkloadError, match=r"^chats.json: not a JSON list: "):
        read_trace(Source("chats.json", text), "conversations")


def test_answers_to_tools_are_turns_and_texts_of_parts_count() -> None:
    """A question of 2 bytes, a call without text, a result of 3 in two parts, an answer of 4."""
    parts = [{"type": "text", "text": "ab"}, {"type": "image_url"}, {"type": "text", "text": "c"}]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": parts},
        {"role": "assistant", "content": "done"},
    ]
    trace = read_trace(Source("c.json", json.dumps([{"messages": messages}])))
    assert trace.prompt_tokens.tolist() == [5]
    assert trace.output_tokens.tolist() == [4]
