"""BurstGPT: what failed is left out, totals are not believed."""

from pathlib import Path

import pytest

from workloads import Source, Trace, WorkloadError, read_source, read_trace

HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"


def read(*lines: str, header: str = HEADER) -> Trace:
    return read_trace(Source("trace.csv", "\n".join((header, *lines))))


def test_equal_times_keep_the_order_of_the_file() -> None:
    trace = read("11,ChatGPT,4,9,13,API log", "11,GPT-4,6,3,9,API log", "12.5,GPT-4,7,1,8,API log")
    assert trace.format == "burstgpt"
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 0, 1_500_000_000]
    assert trace.prompt_tokens.tolist() == [4, 6, 7]
    assert trace.notes == ()


def test_newer_files_have_sessions_that_are_passed_over() -> None:
    header = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens"
    trace = read("45,2,4.5,GPT-4,4,9,13", header=header)
    assert (trace.format, trace.previous) == ("burstgpt", None)


def test_rows_that_are_left_out_are_counted() -> None:
    trace = read("1,m,5,0,5,a", "2,m,0,7,7,a", "3,m,5,6,11,a", "4,m,5,0.0,5,a")
    assert trace.prompt_tokens.tolist() == [5]
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0]
    assert trace.num_rows == 4
    assert trace.notes == (
        "2 rows without output tokens left out, the first at line 2",
        "1 row without prompt tokens left out, the first at line 3",
    )


@pytest.mark.parametrize("total", ["999", "", "x", "1,000", "NaN"])
def test_totals_are_never_used(total: str) -> None:
    trace = read(f'1,m,5,6,"{total}",a')
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([5], [6])
    assert trace.notes == (
        "1 row whose `Total tokens` is not the sum (not used), the first at line 2",
    )


def test_wrong_cells_are_in_one_report() -> None:
    cells = ["-5", "NaN", "", "abc", "500.7", '"1,024"']
    with pytest.raises(WorkloadError) as error:
        read(*(f"1,m,{cell},20,1,a" for cell in cells))
    expected = "expected an integer from 0 to 1000000000"
    assert str(error.value) == "trace.csv: " + "; ".join(
        f"line {line}, column Request tokens: got '{cell.strip(chr(34))}', {expected}"
        for line, cell in enumerate(cells, start=2)
    )


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(WorkloadError, match=r"^trace.csv: no row with prompt and output tokens"):
        read("1,m,5,0,5,a")


def test_quirks_file(data_dir: Path) -> None:
    trace = read_trace(read_source(data_dir / "quirks/burstgpt_zero_response.csv"))
    assert trace.prompt_tokens.tolist() == [400, 64, 1500, 250, 70]
    assert trace.output_tokens.tolist() == [90, 31, 222, 50, 1]
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [t * 10**9 for t in (0, 0, 19, 20, 84)]
    assert trace.num_rows == 7
    assert trace.notes == (
        "2 rows without output tokens left out, the first at line 3",
        "1 row without prompt tokens left out, the first at line 5",
        "1 row whose `Total tokens` is not the sum (not used), the first at line 7",
    )
