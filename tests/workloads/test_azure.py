"""The Azure reader, oddity by oddity, and on the published file."""

import gzip
from pathlib import Path

import pytest

from workloads import Trace, WorkloadError, read_source, read_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
COUNT = "expected an integer from 1 to 1000000000"
GOOD = "2023-11-16 18:15:46.6805900,374,44"


def read_azure_csv(path: Path) -> Trace:
    return read_trace(read_source(path), "azure")


def write(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "trace.csv"
    path.write_bytes(b"".join(f"{line}\n".encode() for line in (header, *lines)))
    return path


def error_of(path: Path) -> str:
    with pytest.raises(WorkloadError) as error:
        read_azure_csv(path)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def as_rows(trace: Trace) -> list[tuple[int, ...]]:
    columns = (trace.arrival_ns, trace.prompt_tokens, trace.output_tokens)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_arrivals_count_from_the_first_request_exactly(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "2023-11-16 18:15:50.9951691,396,109")
    assert as_rows(read_azure_csv(path)) == [(0, 374, 44), (4_314_579_100, 396, 109)]


@pytest.mark.parametrize(
    ("second", "arrival_ns"),
    [
        ("2023-11-17 00:00:00.0000001", 200),
        ("2023-11-17 00:00:00", 100),
        ("2023-11-17 00:00:00.5", 500_000_100),
        ("2024-02-29 00:00:00.0", 104 * 86_400 * 10**9 + 100),
    ],
)
def test_midnight_leap_days_and_short_fractions(
    tmp_path: Path, second: str, arrival_ns: int
) -> None:
    path = write(tmp_path, "2023-11-16 23:59:59.9999999,1,1", f"{second},1,1")
    assert read_azure_csv(path).arrival_ns.tolist() == [0, arrival_ns]


def test_byte_order_mark_crlf_and_no_final_newline(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(f"\ufeff{HEADER}\r\n{GOOD}\r\n{GOOD}".encode())
    assert as_rows(read_azure_csv(path)) == [(0, 374, 44), (0, 374, 44)]


def test_gzip_is_known_by_its_first_bytes_not_its_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(gzip.compress(f"{HEADER}\n{GOOD}\n".encode()))
    assert as_rows(read_azure_csv(path)) == [(0, 374, 44)]


def test_plain_text_named_gz(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD).rename(tmp_path / "trace.csv.gz")
    assert as_rows(read_azure_csv(path)) == [(0, 374, 44)]


def test_columns_in_another_order_with_others_between(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "44,x,2023-11-16 18:15:46.6805900,374.0",
        header="GeneratedTokens,Model,TIMESTAMP,ContextTokens",
    )
    assert as_rows(read_azure_csv(path)) == [(0, 374, 44)]


def test_blank_lines_are_passed_over(tmp_path: Path) -> None:
    assert as_rows(read_azure_csv(write(tmp_path, GOOD, "", ""))) == [(0, 374, 44)]


def test_unsorted_rows_are_sorted_stably_and_noted(tmp_path: Path) -> None:
    """The rows of quirks/unsorted_ties.csv: backward at lines 5, 7 and 9, ties at 0.5 and 1.0."""
    times = ["0.0", "0.5", "0.5", "0.2", "1.5", "1.0", "1.0", "0.9"]
    rows = [f"2023-11-16 18:15:0{t},{300 + i},20" for i, t in enumerate(times)]
    trace = read_azure_csv(write(tmp_path, *rows))
    assert trace.prompt_tokens.tolist() == [300, 303, 301, 302, 307, 305, 306, 304]
    assert trace.arrival_ns.tolist() == [t * 10**8 for t in (0, 2, 5, 5, 9, 10, 10, 15)]
    assert trace.notes == ("sorted by time: 3 backward steps, the first at line 5",)


def test_arrivals_count_from_the_earliest_row_wherever_it_stands(tmp_path: Path) -> None:
    path = write(tmp_path, "2023-11-16 18:15:47,374,44", "2023-11-16 18:15:46,1,2")
    assert as_rows(read_azure_csv(path)) == [(0, 1, 2), (10**9, 374, 44)]


def test_many_rows_of_one_instant_keep_their_order(tmp_path: Path) -> None:
    """More than NumPy's unstable sorts would leave in order by chance."""
    rows = [f"2023-11-16 18:15:{46 - i // 50},{i + 1},1" for i in range(100)]
    tokens = read_azure_csv(write(tmp_path, *rows)).prompt_tokens.tolist()
    assert tokens == [*range(51, 101), *range(1, 51)]


def test_sorted_rows_need_no_note(tmp_path: Path) -> None:
    assert read_azure_csv(write(tmp_path, GOOD, GOOD)).notes == ()


@pytest.mark.parametrize(
    "cell",
    ["500.7", "", "NaN", "-5", "0", "abc", "5e2", "+5", " 5", "\u0665", "9" * 5000, "1000000001"],
)
@pytest.mark.parametrize("column", ["ContextTokens", "GeneratedTokens"])
def test_token_counts_are_plain_positive_integers(tmp_path: Path, cell: str, column: str) -> None:
    tokens = f"{cell},44" if column == "ContextTokens" else f"374,{cell}"
    message = error_of(write(tmp_path, GOOD, f"2023-11-16 18:15:46.6805900,{tokens}"))
    assert message.startswith(f"line 3, column {column}: got '{cell[:5]}")
    assert message.endswith(COUNT)


def test_thousands_separator_is_quoted_in_the_error(tmp_path: Path) -> None:
    message = error_of(write(tmp_path, '2023-11-16 18:15:46.6805900,"1,024",5'))
    assert message == f"line 2, column ContextTokens: got '1,024', {COUNT}"


def test_whole_floats_are_integers(tmp_path: Path) -> None:
    path = write(tmp_path, "2023-11-16 18:15:46.6805900,500.0,20.00")
    assert as_rows(read_azure_csv(path)) == [(0, 500, 20)]


@pytest.mark.parametrize(
    "time",
    [
        "",
        "1700158546.68",
        "2023-13-01 00:00:00",
        "2023-02-30 00:00:00",
        "2023-11-16 24:00:01",
        "2023-11-16 18:15:46.",
        "2023-11-16 18:15:46.6805900+25:00",
        "0001-01-01 00:00:00",
        "9023-11-16 18:15:46",
    ],
)
def test_times_that_are_none(tmp_path: Path, time: str) -> None:
    expected = "YYYY-MM-DD HH:MM:SS.fffffff, from 1970 to 2199"
    assert error_of(write(tmp_path, GOOD, f"{time},374,44")) == (
        f"line 3, column TIMESTAMP: got {time!r}, expected {expected}"
    )


def test_all_bad_rows_are_in_one_message(tmp_path: Path) -> None:
    """The cells of quirks/negative_nan.csv, lines 3 to 8."""
    cells = ["500", "-5", "NaN", "", "abc", "500.0", "500.7", "500"]
    path = write(tmp_path, *(f"2023-11-16 18:15:46.6805900,{cell},20" for cell in cells))
    bad = [(3, "-5"), (4, "NaN"), (5, ""), (6, "abc"), (8, "500.7")]
    assert error_of(path) == "; ".join(
        f"line {line}, column ContextTokens: got {cell!r}, {COUNT}" for line, cell in bad
    )


def test_more_than_ten_bad_rows_are_counted(tmp_path: Path) -> None:
    message = error_of(write(tmp_path, *["2023-11-16 18:15:46.6805900,374,x"] * 25))
    assert message.count("; ") == 10
    assert "line 11, " in message
    assert message.endswith("; and 15 more")


def test_rows_of_another_width(tmp_path: Path) -> None:
    assert error_of(write(tmp_path, GOOD, "2023-11-16 18:15:46,374", f"{GOOD},7")) == (
        "line 3: got 2 fields, expected 3; line 4: got 4 fields, expected 3"
    )


def test_lines_are_counted_through_quoted_line_ends(tmp_path: Path) -> None:
    header = f"{HEADER},Note"
    message = error_of(write(tmp_path, f'{GOOD},"a\nb"', f"{GOOD[:-2]}x,c", header=header))
    assert message.startswith("line 4, column GeneratedTokens: got 'x'")


def test_missing_columns_list_those_seen(tmp_path: Path) -> None:
    message = error_of(write(tmp_path, "0.0,5,5", header="arrived_at,prompt,output"))
    assert message == (
        "line 1, columns: got ['arrived_at', 'prompt', 'output'], "
        "expected TIMESTAMP, ContextTokens, GeneratedTokens, each once"
    )


def test_a_column_given_twice(tmp_path: Path) -> None:
    header = f"{HEADER},ContextTokens"
    assert error_of(write(tmp_path, f"{GOOD},9", header=header)).endswith("each once")


def test_unclosed_quote(tmp_path: Path) -> None:
    assert error_of(write(tmp_path, GOOD, '"2023,4,5')).startswith("line 3: not CSV: ")


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"")
    assert error_of(path) == "is empty"


def test_header_only(tmp_path: Path) -> None:
    assert error_of(write(tmp_path)) == "no rows, expected some after the header"


def test_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(f"{HEADER}\n{GOOD}\n".encode() + b"\xe9")
    assert error_of(path) == "line 3: got byte 0xe9, expected UTF-8 text"


def test_missing_file(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none.csv") == "cannot be read: No such file or directory"


def test_directory(tmp_path: Path) -> None:
    assert error_of(tmp_path) == "cannot be read: Is a directory"


@pytest.mark.parametrize("kept", [5, 30, -4])
def test_truncated_gzip(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(f"{HEADER}\n{GOOD}\n".encode())[:kept])
    assert error_of(path).startswith("broken or truncated gzip: ")


def test_corrupt_gzip(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    data = bytearray(gzip.compress(f"{HEADER}\n{GOOD}\n".encode()))
    data[20] ^= 0xFF
    path.write_bytes(data)
    assert error_of(path).startswith("broken or truncated gzip: ")


def test_published_file(data_dir: Path) -> None:
    """Against the figures of its README: rows, span, mean prompt and output."""
    trace = read_azure_csv(data_dir / "traces/azure2023/AzureLLMInferenceTrace_conv.csv.gz")
    assert len(trace) == 19_366
    assert trace.arrival_ns[-1] == 3_501_721_937_000
    assert trace.prompt_tokens.mean() == pytest.approx(1154.7, abs=0.05)
    assert trace.output_tokens.mean() == pytest.approx(211.1, abs=0.05)
    assert trace.notes == ()


def test_quirks_file(data_dir: Path) -> None:
    """Byte order mark, CRLF, no final newline, 7 digits, midnight: the README's six arrivals."""
    assert as_rows(read_azure_csv(data_dir / "quirks/azure_bom_crlf.csv")) == [
        (0, 210, 35),
        (800, 4096, 1),
        (1_899_999_800, 77, 512),
        (1_899_999_900, 1300, 240),
        (2_399_999_900, 15, 9),
        (3_924_999_900, 902, 128),
    ]
