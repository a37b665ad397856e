"""kvsim's own format, read and written."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads import (
    ConstantRate,
    Source,
    Trace,
    WorkloadError,
    read_source,
    read_trace,
    workload_from_trace,
)
from workloads.readers.own import write_csv, write_jsonl
from workloads.trace import Segments

HEADER = "arrival_s,prompt_tokens,output_tokens"


def read(*lines: str, header: str = HEADER) -> Trace:
    return read_trace(Source("trace.csv", "\n".join((header, *lines))))


def read_json(*requests: dict[str, Any]) -> Trace:
    return read_trace(Source("trace.jsonl", "\n".join(json.dumps(r) for r in requests)))


def request(prompt: int = 5, output: int = 6, **more: Any) -> dict[str, Any]:
    return {"arrival_s": 0, "prompt_tokens": prompt, "output_tokens": output, **more}


def error_of(*lines: str, header: str = HEADER) -> str:
    with pytest.raises(WorkloadError) as error:
        read(*lines, header=header)
    return str(error.value).removeprefix("trace.csv: ")


def json_error_of(*requests: dict[str, Any]) -> str:
    with pytest.raises(WorkloadError) as error:
        read_json(*requests)
    return str(error.value).removeprefix("trace.jsonl: ")


def as_columns(trace: Trace) -> dict[str, list[int] | int | None]:
    """All that a trace says of its requests."""
    columns: dict[str, Any] = {}
    names = ("arrival_ns", "prompt_tokens", "output_tokens", "previous", "think_time_ns")
    for name in (*names, "answer_ids", "priority"):
        column = getattr(trace, name)
        columns[name] = None if column is None else column.tolist()
    if trace.segments is not None:
        columns["offsets"] = trace.segments.offsets.tolist()
        columns["ids"] = trace.segments.ids.tolist()
        columns["tokens"] = trace.segments.tokens.tolist()
        columns["block_tokens"] = trace.segments.block_tokens
    return columns


def test_csv_and_json_lines_are_the_same() -> None:
    trace = read("1.5,10,20", "2.25,30,40.0")
    assert trace.format == "kvsim"
    assert as_columns(trace) == as_columns(
        read_json(request(10, 20, arrival_s=1.5), request(30, 40, arrival_s=2.25))
    )
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 750_000_000]
    assert (trace.previous, trace.segments, trace.notes) == (None, None, ())


def test_turns_of_a_session_wait_for_each_other() -> None:
    trace = read(
        "0,10,1,a,1,",
        "1,20,2,b,1,9",
        "0,30,3,a,2,2.5",
        "3,40,4,,,",
        "0,50,5,a,3,",
        header=f"{HEADER},session,turn,think_time_s",
    )
    assert trace.prompt_tokens.tolist() == [10, 30, 50, 20, 40]
    assert trace.previous is not None
    assert trace.previous.tolist() == [-1, 0, 1, -1, -1]
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 0, 0, 10**9, 3 * 10**9]
    assert trace.notes == ()
    workload = workload_from_trace(trace, max_model_len=100)
    assert workload.following == {0: (1, 2_500_000_000), 1: (2, 0)}


def test_json_sessions_may_be_numbers_or_names() -> None:
    trace = read_json(
        request(1, session=0, turn=1),
        request(2, session="b"),
        request(3),
        request(4, session=0, turn=2),
    )
    assert trace.prompt_tokens.tolist() == [1, 2, 3, 4]
    assert trace.previous is not None
    assert trace.previous.tolist() == [-1, -1, -1, 0]


def test_without_turns_the_order_of_the_file_counts() -> None:
    trace = read("0,10,1,a", "0,20,2,a", header=f"{HEADER},session")
    assert trace.previous is not None
    assert trace.previous.tolist() == [-1, 0]


def test_turns_out_of_order_and_times_of_later_turns_are_counted() -> None:
    trace = read("7,20,2,a,2", "5,10,1,a,1", "6,30,3,b,1", header=f"{HEADER},session,turn")
    assert trace.prompt_tokens.tolist() == [10, 20, 30]
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 0, 10**9]
    assert trace.notes == (
        "2 rows not in order of turn (sorted), the first at line 2",
        "1 row of later turns came at times of their own (not used), the first at line 2",
    )


def test_a_missing_turn_is_an_error() -> None:
    message = error_of(
        "0,1,1,a,2",
        "0,1,1,b,1",
        "0,1,1,b,3",
        "0,1,1,c,1",
        "0,1,1,c,1",
        header=f"{HEADER},session,turn",
    )
    assert message == (
        "line 2, turn of its session: got 2, expected 1; "
        "line 4, turn of its session: got 3, expected 2; "
        "line 6, turn of its session: got 1, expected 2"
    )


def test_turns_without_sessions_are_an_error() -> None:
    expected = "got turns or think times, expected session beside them"
    assert error_of("0,1,1,1", header=f"{HEADER},turn") == expected


def test_priorities_are_those_of_the_rows_0_where_there_is_none() -> None:
    trace = read("0,1,1,-3", "0,1,1,", header=f"{HEADER},priority")
    assert trace.priority is not None
    assert trace.priority.tolist() == [-3, 0]
    message = error_of("0,1,1,1.5", header=f"{HEADER},priority")
    assert message == "line 2, column priority: got '1.5', expected an integer"
    assert "field priority: got 'x'" in json_error_of(request(priority="x"))


def test_segments_are_what_prompts_hold() -> None:
    """A line without any holds something that no other does."""
    trace = read_json(
        request(5, segments=[[7, 3], [2, 2]]), request(4), request(3, segments=[[7, 3]])
    )
    assert trace.segments is not None
    assert [trace.segments.of(i) for i in range(3)] == [[(7, 3), (2, 2)], [(9, 4)], [(7, 3)]]


def test_prompts_without_segments_are_no_answers() -> None:
    trace = read_json(request(5, answer_id=0), request(4, answer_id=1))
    workload = workload_from_trace(trace, max_model_len=100)
    assert workload.answer_ids.tolist() == [0, 1]
    assert workload.segment_ids.tolist() == [2, 3]


@pytest.mark.parametrize(
    "segments",
    [[[7, 4]], [], [[7, 5, 1]], [[-1, 5]], [[7, 5], [8, 0]], [["a", 5]], [7], [[7, 5.0]]],
)
def test_segments_that_are_wrong(segments: Any) -> None:
    message = json_error_of(request(), request(5, segments=segments))
    assert message.startswith("line 2, field segments: got ")
    assert message.endswith("expected lists [content id, tokens] that sum to 5 tokens")


def test_times_and_answers_are_of_all_lines_or_of_none() -> None:
    first = request(answer_id=4)
    second = {"prompt_tokens": 1, "output_tokens": 1}
    assert json_error_of(first, second) == (
        "line 2: no field answer_id, got prompt_tokens, output_tokens; "
        "line 2: no field arrival_s, got prompt_tokens, output_tokens"
    )


@pytest.mark.parametrize("time", [-1, "1", None, True, 1e10])
def test_json_times_that_are_none(time: Any) -> None:
    expected = "expected a number from 0 to 9e+09"
    assert (
        json_error_of(request(arrival_s=time))
        == f"line 1, field arrival_s: got {time!r}, {expected}"
    )


def test_json_that_is_cut_names_the_line() -> None:
    text = f"{json.dumps(request())}\n{json.dumps(request())[:-3]}"
    with pytest.raises(WorkloadError, match=r"^t: line 2: not JSON: .* at column"):
        read_trace(Source("t", text))


def test_wrong_cells_are_in_one_report() -> None:
    message = error_of('0,"1,024",1', "NaN,1,1", "0,-1,500.7", "0,,1")
    assert [part.split(",")[0] for part in message.split("; ")] == [
        f"line {line}" for line in (2, 3, 4, 4, 5)
    ]


def test_sessions_without_times_start_at_arrivals_one_after_another() -> None:
    """Interleaved in the file, they stand one after the other, so that arrivals never fall."""
    trace = read("1,1,a", "2,1,b", "3,1,a", "4,1,b", header="prompt_tokens,output_tokens,session")
    assert trace.notes == ("no arrival_s among prompt_tokens, output_tokens, session",)
    workload = workload_from_trace(trace, max_model_len=100, arrivals=ConstantRate(1.0))
    assert workload.prompt_tokens.tolist() == [1, 3, 2, 4]
    assert workload.arrival_ns is not None
    assert workload.arrival_ns.tolist() == [10**9, 10**9, 2 * 10**9, 2 * 10**9]
    assert workload.following == {0: (1, 0), 2: (3, 0)}


def random_trace(rng: np.random.Generator, *, with_content: bool) -> Trace:
    """Sessions of up to four turns that start within 90 days, at any nanosecond."""
    turns = rng.integers(1, 5, 60)
    session = np.repeat(np.arange(60), turns)
    is_first = np.diff(session, prepend=-1) > 0
    n = len(session)
    start = np.sort(rng.integers(0, 90 * 86_400 * 10**9, 60))
    counts = rng.integers(1, 4, n)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    tokens = rng.integers(1, 1000, offsets[-1])
    segments = Segments(
        offsets=offsets, ids=rng.integers(0, 2**40, len(tokens)), tokens=tokens, block_tokens=64
    )
    return Trace(
        arrival_ns=(start - start[0])[session],
        prompt_tokens=np.add.reduceat(tokens, offsets[:-1]),
        output_tokens=rng.integers(1, 1000, n),
        previous=np.where(is_first, -1, np.arange(n) - 1),
        think_time_ns=rng.integers(0, 10**11, n),
        segments=segments if with_content else None,
        answer_ids=rng.permutation(n) if with_content else None,
        num_rows=n,
        format="kvsim",
    )


def test_what_is_written_as_csv_reads_the_same(tmp_path: Path, rng: np.random.Generator) -> None:
    trace = random_trace(rng, with_content=False)
    write_csv(trace, tmp_path / "trace.csv")
    again = read_trace(read_source(tmp_path / "trace.csv"))
    assert as_columns(again) == as_columns(trace)
    assert (again.format, again.num_rows, again.notes) == ("kvsim", trace.num_rows, ())


@pytest.mark.parametrize("with_content", [False, True])
def test_what_is_written_as_json_lines_reads_the_same(
    tmp_path: Path, rng: np.random.Generator, with_content: bool
) -> None:
    trace = random_trace(rng, with_content=with_content)
    write_jsonl(trace, tmp_path / "trace.jsonl")
    again = read_trace(read_source(tmp_path / "trace.jsonl"))
    assert as_columns(again) == as_columns(trace)
    assert (again.format, again.num_rows, again.notes) == ("kvsim", trace.num_rows, ())


def test_lines_that_are_written(tmp_path: Path) -> None:
    write_csv(read("1,10,20", "1.000000001,3,4"), tmp_path / "trace.csv")
    assert (tmp_path / "trace.csv").read_bytes() == (
        b"arrival_s,prompt_tokens,output_tokens\n0.000000000,10,20\n0.000000001,3,4\n"
    )


def test_content_does_not_fit_csv(tmp_path: Path) -> None:
    trace = read_json(request(5, segments=[[7, 5]]))
    with pytest.raises(WorkloadError, match="CSV has no room for what prompts share"):
        write_csv(trace, tmp_path / "trace.csv")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be written: No such file"):
        write_csv(read("1,10,20"), tmp_path / "none" / "trace.csv")


def test_published_file_written_and_read(tmp_path: Path, data_dir: Path) -> None:
    name = "traces/azure2023/AzureLLMInferenceTrace_conv.csv.gz"
    trace = read_trace(read_source(data_dir / name))
    write_csv(trace, tmp_path / "trace.csv")
    write_jsonl(trace, tmp_path / "trace.jsonl")
    for path in sorted(tmp_path.iterdir()):
        assert as_columns(read_trace(read_source(path))) == as_columns(trace)


def test_examples_of_the_documentation_agree() -> None:
    page = Path(__file__).parents[2] / "docs/traces.md"
    csv, jsonl = re.findall(r'^```\w+ title="[^"]+"\n(.*?)^```', page.read_text(), re.M | re.S)
    trace = read_trace(Source("csv", csv))
    with_content = read_trace(Source("jsonl", jsonl))
    assert trace.notes == with_content.notes == ()
    ours, theirs = as_columns(trace), as_columns(with_content)
    assert theirs["answer_ids"] == [1, 5, 3]
    assert {name: theirs[name] for name in ours} == {**ours, "answer_ids": [1, 5, 3]}
    assert trace.prompt_tokens.tolist() == [120, 190, 300]
