"""Plain CSV files known by the names of their columns."""

from itertools import product
from pathlib import Path

import pytest

from workloads import Source, Trace, WorkloadError, read_source, read_trace
from workloads.readers.generic_csv import ARRIVAL, OUTPUT, PROMPT

COUNT = "expected an integer from 1 to 1000000000"
OWN_FORMATS = [
    {"arrival_s", "prompt_tokens", "output_tokens"},
    {"arrived_at", "num_prefill_tokens", "num_decode_tokens"},
]


def read(*lines: str, format: str | None = None) -> Trace:
    return read_trace(Source("trace.csv", "\n".join(lines)), format)


@pytest.mark.parametrize("names", list(product(ARRIVAL, PROMPT, OUTPUT)))
def test_any_names_may_meet(names: tuple[str, ...]) -> None:
    trace = read(f"id,{','.join(names)}", "a,1.5,3,4", "b,2.25,5,6")
    assert (trace.format == "csv") == (set(names) not in OWN_FORMATS)
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 750_000_000]
    assert trace.prompt_tokens.tolist() == [3, 5]
    assert trace.output_tokens.tolist() == [4, 6]


def test_two_columns_of_one_meaning_are_both_named() -> None:
    with pytest.raises(WorkloadError) as error:
        read("time_s,timestamp,input_tokens,output_length", "1,1,1,1")
    assert str(error.value) == (
        "trace.csv: columns: got ['time_s', 'timestamp'], expected one of arrival_s, timestamp_s, "
        "arrived_at, time_s, timestamp, arrival_time, created_at, time"
    )


def test_a_meaning_without_a_column_lists_those_seen() -> None:
    expected = r"columns: got \['time_s', 'input_tokens'\], expected one of output_tokens, "
    with pytest.raises(WorkloadError, match=expected):
        read("time_s,input_tokens", "1,1", format="csv")


def test_columns_of_no_format_list_those_seen() -> None:
    with pytest.raises(WorkloadError, match=r"of no known format: got the columns when, input"):
        read("when,input", "1,1")


def test_thousands_separators_are_an_error() -> None:
    with pytest.raises(WorkloadError) as error:
        read("time_s,input_tokens,output_length", "1,1,1", '2,"1,024",64')
    assert str(error.value) == f"trace.csv: line 3, column input_tokens: got '1,024', {COUNT}"


def test_thousands_separators_of_quirks(data_dir: Path) -> None:
    path = data_dir / "quirks/thousands_separator.csv"
    with pytest.raises(WorkloadError) as error:
        read_trace(read_source(path))
    assert str(error.value) == f"{path}: " + "; ".join(
        f"line {line}, column {column}: got '{value}', {COUNT}"
        for line, column, value in (
            (3, "prompt_tokens", "1,024"),
            (5, "prompt_tokens", "12,288"),
            (5, "output_tokens", "1,500"),
        )
    )


def test_negative_nan_of_quirks(data_dir: Path) -> None:
    """All of lines 3, 4, 5, 6 and 8 in one report; 500.0 at line 7 is 500."""
    path = data_dir / "quirks/negative_nan.csv"
    with pytest.raises(WorkloadError) as error:
        read_trace(read_source(path))
    assert str(error.value) == f"{path}: " + "; ".join(
        f"line {line}, column {column}: got '{value}', {COUNT}"
        for line, column, value in (
            (3, "input_length", "-5"),
            (4, "input_length", "NaN"),
            (5, "output_length", ""),
            (6, "input_length", "abc"),
            (8, "input_length", "500.7"),
        )
    )


def test_times_may_be_dates() -> None:
    rows = "2026-11-03T09:00:00.134Z,5,6\n2026-11-03T10:00:01.634+01:00,7,8\n"
    trace = read_trace(Source("t.csv", "timestamp,prompt_tokens,completion_tokens\n" + rows))
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 1_500_000_000]
    assert trace.prompt_tokens.tolist() == [5, 7]
    assert trace.output_tokens.tolist() == [6, 8]
    assert any("2 zones" in note for note in trace.notes)


def test_dates_and_seconds_in_one_column_are_a_mistake() -> None:
    text = "timestamp,prompt_tokens,output_tokens\n2026-11-03T09:00:00Z,5,6\n17,7,8\n"
    with pytest.raises(WorkloadError, match="line 3, column timestamp: got '17', expected YYYY"):
        read_trace(Source("t.csv", text))


def test_the_one_column_that_is_missing_is_named() -> None:
    with pytest.raises(WorkloadError, match=r"no column of output tokens among .* expected one of"):
        read_trace(Source("t.csv", "timestamp,prompt_tokens,answer\n1,2,3\n"))
