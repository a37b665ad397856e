"""Results of vLLM's serving benchmark."""

import json
from typing import Any

import pytest

from workloads import Poisson, Source, Trace, WorkloadError, read_trace, workload_from_trace


def read(**lists: Any) -> Trace:
    """A result as vLLM saves it, on one line, with some of its other keys."""
    result = {
        "date": "20250601-101112",
        "request_rate": "inf",
        "duration": 3.25,
        "input_lens": [100, 200, 300],
        "output_lens": [10, 20, 30],
        "ttfts": [0.1, 0.2, 0.3],
        "itls": [[0.01], [0.02], [0.03]],
        "errors": ["", "", ""],
        **lists,
    }
    return read_trace(Source("result.json", json.dumps(result)))


def test_start_times_are_arrivals() -> None:
    """Seconds of a clock that started at some other time, to the nanosecond."""
    trace = read(start_times=[52_000.25, 52_001.000000001, 52_003.5])
    assert trace.format == "benchmark-serving"
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 750_000_001, 3_250_000_000]
    assert trace.prompt_tokens.tolist() == [100, 200, 300]
    assert trace.output_tokens.tolist() == [10, 20, 30]
    assert trace.notes == ()


def test_older_results_have_no_times() -> None:
    trace = read()
    assert trace.arrival_ns is None
    expected = (
        r"no start_times among date, duration, errors, input_lens, itls, .*`workload.arrivals`"
    )
    with pytest.raises(WorkloadError, match=expected):
        workload_from_trace(trace, max_model_len=1000)
    assert len(workload_from_trace(trace, max_model_len=1000, arrivals=Poisson(1.0))) == 3


def test_requests_that_failed_are_left_out_and_counted() -> None:
    """A failed one may have a start time of 0, from which nothing counts."""
    trace = read(output_lens=[10, 0, 30], start_times=[5.0, 0.0, 6.0])
    assert trace.prompt_tokens.tolist() == [100, 300]
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 10**9]
    assert trace.num_rows == 3
    assert trace.notes == ("1 request without output tokens left out, the first at request 2",)


def test_starts_out_of_order_are_sorted_and_noted() -> None:
    trace = read(start_times=[5.0, 4.0, 6.0])
    assert trace.prompt_tokens.tolist() == [200, 100, 300]
    assert trace.notes == ("sorted by time: 1 backward step, the first at request 2",)


def test_wrong_values_are_in_one_report() -> None:
    with pytest.raises(WorkloadError) as error:
        read(input_lens=[100, -2, 0.5], output_lens=[None, 20, 30], start_times=[1, 2, "3"])
    count = "expected an integer from 1 to 1000000000"
    assert str(error.value) == (
        f"result.json: request 1, field output_lens: got None, {count}; "
        f"request 2, field input_lens: got -2, {count}; "
        f"request 3, field input_lens: got 0.5, {count}; "
        "request 3, field start_times: got '3', expected a number from 0 to 9e+09"
    )


def test_lists_of_different_lengths() -> None:
    with pytest.raises(WorkloadError, match=r"lists: got .*'output_lens': 2.* all of one length"):
        read(output_lens=[1, 2])


def test_what_is_no_list() -> None:
    with pytest.raises(WorkloadError, match=r"result, field output_lens: got 7, expected a list"):
        read(output_lens=7)


def test_all_failed() -> None:
    with pytest.raises(WorkloadError, match=r"^result.json: no output tokens in 3 requests$"):
        read(output_lens=[0, 0, 0])


def test_two_results_in_one_file() -> None:
    text = json.dumps({"input_lens": [1], "output_lens": [1]})
    with pytest.raises(WorkloadError, match=r"^result.json: not one JSON object: Extra data"):
        read_trace(Source("result.json", f"{text}\n{text}"))
