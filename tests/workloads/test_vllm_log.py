"""The reader of vLLM request logs, oddity by oddity, and on the published file."""

import json
from pathlib import Path
from typing import Any

import pytest

from workloads import Source, Trace, WorkloadError, read_source, read_trace

GOOD = {
    "request_id": "bench-0",
    "input_toks": 20,
    "output_toks": 5,
    "arrival_time": 1787267980.0827403,
    "queued_ts": 27536.660701067,
}


def row(**changed: Any) -> str:
    return json.dumps({**GOOD, **changed})


def read(*lines: str) -> Trace:
    return read_trace(Source("log.jsonl", "\n".join(lines)))


def error_of(*lines: str) -> str:
    with pytest.raises(WorkloadError) as error:
        read_trace(Source("log.jsonl", "\n".join(lines)), "vllm-log")
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix("log.jsonl: ")


def test_arrivals_are_seconds_as_written_to_the_last_digit() -> None:
    trace = read(row(), row(arrival_time=1787267980.3478317), row(arrival_time=1787267981))
    assert trace.format == "vllm-log"
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 265_091_400, 917_259_700]
    assert trace.segments is None
    assert trace.notes == ("2 of 3 requests with a request_id that came before",)


def test_ids_that_differ_or_are_missing_need_no_note() -> None:
    lines = [row(), row(request_id="bench-1")]
    lines += ['{"input_toks": 1, "output_toks": 2, "arrival_time": 1787267982}'] * 2
    assert read(*lines).notes == ()


def test_requests_without_output_are_skipped_and_counted() -> None:
    trace = read(row(), row(output_toks=0))
    assert (len(trace), trace.num_rows) == (1, 2)
    assert trace.notes == ("skipped 1 request: output_toks 0",)


def test_nothing_but_requests_without_output() -> None:
    assert error_of(row(output_toks=0)) == "no request with output_toks above 0, expected some"


def test_log_out_of_order_is_sorted_and_noted() -> None:
    trace = read(row(), row(arrival_time=1787267979, input_toks=3, request_id="b"))
    assert trace.prompt_tokens.tolist() == [3, 20]
    assert trace.notes == ("sorted by time: 1 backward step, the first at line 2",)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("arrival_time", -0.5, "a number from 0 to 9e+09"),
        ("arrival_time", 9.1e9, "a number from 0 to 9e+09"),
        ("input_toks", 0, "an integer from 1 to 1000000000"),
        ("output_toks", 1.5, "an integer from 0 to 1000000000"),
        ("request_id", 7, "a text"),
    ],
)
def test_fields_of_another_kind(name: str, value: Any, expected: str) -> None:
    assert error_of(row(), row(**{name: value})) == (
        f"line 2, field {name}: got {value!r}, expected {expected}"
    )


def test_missing_field_and_broken_line() -> None:
    assert error_of('{"input_toks": 1, "arrival_time": 2}', row()[:-1]) == (
        "line 1: no field output_toks, got input_toks, arrival_time; "
        f"line 2: not JSON: ends early: Expecting ',' delimiter at column {len(row())}"
    )


def test_published_file(data_dir: Path) -> None:
    """Against the figures of its README."""
    path = data_dir / "traces/llmservingsim/vllm_requests_RTX4090_Llama-3.1-8B.jsonl"
    trace = read_trace(read_source(path))
    assert (trace.format, len(trace), trace.notes) == ("vllm-log", 300, ())
    assert trace.arrival_ns is not None
    assert trace.arrival_ns[:2].tolist() == [0, 265_091_400]
    assert trace.arrival_ns[-1] / 1e9 == pytest.approx(29.101, abs=0.0005)
    assert trace.prompt_tokens.mean() == pytest.approx(857.5, abs=0.05)
    assert trace.output_tokens.mean() == pytest.approx(652.5, abs=0.05)
