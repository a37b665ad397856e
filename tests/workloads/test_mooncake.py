"""The Mooncake reader, oddity by oddity, and on the published file."""

import json
from pathlib import Path
from typing import Any

import pytest

from workloads import Source, Trace, WorkloadError, read_source, read_trace, workload_from_trace

GOOD = {"timestamp": 0, "input_length": 600, "output_length": 40, "hash_ids": [0, 1]}


def row(**changed: Any) -> str:
    return json.dumps({**GOOD, **changed})


def read(*lines: str) -> Trace:
    return read_trace(Source("trace.jsonl", "\n".join(lines)))


def error_of(*lines: str) -> str:
    with pytest.raises(WorkloadError) as error:
        read_trace(Source("trace.jsonl", "\n".join(lines)), "mooncake")
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("trace.jsonl: ")
    return message.removeprefix("trace.jsonl: ")


def segments_of(trace: Trace, i: int) -> list[tuple[int, int]]:
    assert trace.segments is not None
    first, stop = trace.segments.offsets[i : i + 2]
    ids, tokens = trace.segments.ids[first:stop], trace.segments.tokens[first:stop]
    return list(zip(ids.tolist(), tokens.tolist(), strict=True))


def test_blocks_are_segments_of_512_tokens_and_the_rest() -> None:
    trace = read(
        row(input_length=1100, hash_ids=[0, 2, 3]), row(), row(input_length=512, hash_ids=[7])
    )
    assert trace.format == "mooncake"
    assert segments_of(trace, 0) == [(0, 512), (2, 512), (3, 76)]
    assert segments_of(trace, 1) == [(0, 512), (1, 88)]
    assert segments_of(trace, 2) == [(7, 512)]
    assert trace.segments is not None
    assert trace.segments.block_tokens == 512


def test_times_are_milliseconds_from_the_first_request_exactly() -> None:
    times = [1_930_000_000_137, 1_930_000_000_138.1, 1_930_000_007_137]
    trace = read(*(row(timestamp=time) for time in times))
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 1_100_000, 7_000_000_000]


def test_rows_out_of_order_are_sorted_and_noted() -> None:
    trace = read(row(timestamp=3), "", row(timestamp=1, output_length=2))
    assert trace.output_tokens.tolist() == [2, 40]
    assert trace.notes == ("sorted by time: 1 backward step, the first at line 3",)


def test_requests_without_output_are_skipped_and_counted() -> None:
    trace = read(row(output_length=0), row(timestamp=5), row(output_length=0))
    assert (len(trace), trace.num_rows) == (1, 3)
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0]
    assert trace.notes == ("skipped 2 requests: output_length 0",)


def test_one_skipped_request_is_a_request() -> None:
    assert read(row(output_length=0), row()).notes == ("skipped 1 request: output_length 0",)


def test_nothing_but_requests_without_output() -> None:
    assert error_of(row(output_length=0)) == (
        "no request with output_length above 0, expected some"
    )


@pytest.mark.parametrize(
    ("length", "ids", "num_blocks"), [(600, [0], 2), (512, [0, 1], 1), (513, [], 2)]
)
def test_as_many_ids_as_blocks(length: int, ids: list[int], num_blocks: int) -> None:
    assert error_of(row(), row(input_length=length, hash_ids=ids)) == (
        f"line 2, field hash_ids: got {len(ids)} of them, expected {num_blocks}, one for each "
        f"512 tokens of input_length {length}"
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("timestamp", -1, "a number from 0 to 9e+12"),
        ("timestamp", 1e13, "a number from 0 to 9e+12"),
        ("timestamp", "0", "a number from 0 to 9e+12"),
        ("timestamp", True, "a number from 0 to 9e+12"),
        ("input_length", 0, "an integer from 1 to 1000000000"),
        ("input_length", 600.5, "an integer from 1 to 1000000000"),
        ("output_length", -1, "an integer from 0 to 1000000000"),
        ("output_length", None, "an integer from 0 to 1000000000"),
        ("hash_ids", [0, -1], "a list of integers from 0"),
        ("hash_ids", 5, "a list of integers from 0"),
    ],
)
def test_fields_of_another_kind(name: str, value: Any, expected: str) -> None:
    assert error_of(row(**{name: value})) == (
        f"line 1, field {name}: got {value!r}, expected {expected}"
    )


def test_a_field_that_is_missing() -> None:
    assert error_of('{"timestamp": 1, "input_length": 5, "hash_ids": [1]}') == (
        "line 1: no field output_length, got timestamp, input_length, hash_ids"
    )


def test_nan_is_refused_by_line_and_column() -> None:
    bad = '{"NaN": "NaN \\" NaN", "timestamp": NaN}'
    assert error_of(row(), bad) == ("line 2: not JSON: got NaN, expected a number, at column 36")


def test_lines_that_are_no_objects() -> None:
    assert error_of(row(), "[1]", "x") == (
        "line 2: got [1], expected an object; line 3: not JSON: Expecting value at column 1"
    )


def test_epoch_milliseconds(data_dir: Path) -> None:
    """8 requests over 7.000 s, as the README of the quirks says."""
    trace = read_trace(read_source(data_dir / "quirks/epoch_ms_unlabelled.jsonl"))
    assert trace.arrival_ns is not None
    milliseconds = [0, 1000, 1002, 3000, 3863, 5363, 6862, 7000]
    assert trace.arrival_ns.tolist() == [time * 10**6 for time in milliseconds]
    assert trace.notes == ()


def test_truncated_tail(data_dir: Path) -> None:
    path = data_dir / "quirks/truncated_tail.jsonl"
    with pytest.raises(WorkloadError) as error:
        read_trace(read_source(path))
    assert str(error.value) == f"{path}: line 5: not JSON: ends early: Expecting value at column 59"


def test_published_file(data_dir: Path) -> None:
    """Against the figures of its README, and blocks found among those of earlier requests."""
    path = data_dir / "traces/mooncake_fast25/conversation_trace.jsonl.gz"
    trace = read_trace(read_source(path))
    assert (trace.format, len(trace), trace.num_rows, trace.notes) == (
        "mooncake",
        12_031,
        12_031,
        (),
    )
    assert trace.arrival_ns is not None
    assert trace.arrival_ns[-1] == 3_536_999_000_000
    assert trace.prompt_tokens.mean() == pytest.approx(12_035.1, abs=0.05)
    assert trace.output_tokens.mean() == pytest.approx(342.6, abs=0.05)
    assert (trace.prompt_tokens % 512 == 0).sum() == 22

    assert trace.segments is not None
    seen: set[int] = set()
    num_hits = 0
    for i in range(len(trace)):
        ids = [block for block, _ in segments_of(trace, i)]
        num_hits += sum(block in seen for block in ids)
        seen.update(ids)
    assert (num_hits, len(trace.segments.ids)) == (105_710, 288_500)


def test_published_file_replays(data_dir: Path) -> None:
    path = data_dir / "traces/mooncake_fast25/conversation_trace.jsonl.gz"
    workload = workload_from_trace(read_trace(read_source(path)), max_model_len=131_072)
    assert workload.prompt_tokens.sum() == workload.segment_tokens.sum()
