"""Files that are not quite as they should be, of every kind: what is said of them."""

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from workloads import Source, Trace, WorkloadError, read_source, read_trace
from workloads.readers import FORMATS

OWN = "arrival_s,prompt_tokens,output_tokens\n0,10,5\n1.5,20,6\n"
ROWS = [
    {"arrival_s": 0, "prompt_tokens": 10, "output_tokens": 5},
    {"arrival_s": 1.5, "prompt_tokens": 20, "output_tokens": 6},
]
AGENT = {
    "block_size": 64,
    "requests": [
        {"t": 0, "in": 130, "out": 5, "hash_ids": [1, 2]},
        {"t": 9, "in": 64, "out": 5, "hash_ids": [1]},
    ],
}


def read(text: str, format: str | None = None) -> Trace:
    return read_trace(Source("trace", text), format)


def error_of(text: str, format: str | None = None) -> str:
    with pytest.raises(WorkloadError) as error:
        read(text, format)
    assert str(error.value).startswith("trace: ")
    return str(error.value).removeprefix("trace: ")


def error_of_bytes(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(WorkloadError) as error:
        read_trace(read_source(path))
    return str(error.value).removeprefix(f"{path}: ")


HEADERS = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens",
    "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens",
    "burstgpt": "Timestamp,Request tokens,Response tokens",
    "kvsim": "prompt_tokens,output_tokens,session",
    "lengths": "input_length,output_length",
    "csv": "time_s,input_tokens,output_length",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize(("sign", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_other_separators_are_named(header: str, sign: str, name: str) -> None:
    expected = f"columns are separated by {name}, expected commas"
    assert error_of(f"{header}\n1,2,3\n".replace(",", sign)) == expected


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_columns_with_other_case_or_spaces_are_named(header: str) -> None:
    first, name, *others = header.split(",")
    for odd in (name.swapcase(), f" {name}", f"{name} ", name.replace("_", " ") + " "):
        found = error_of(f"{','.join([first, odd, *others])}\n1,2,3\n")
        assert found == f"got the column {odd!r}, expected {name!r}"


def test_separator_and_columns_are_in_one_report() -> None:
    assert error_of("Arrival_S;prompt_tokens;output_tokens\n1;2;3\n") == (
        "columns are separated by semicolons, expected commas; "
        "got the column 'Arrival_S', expected 'arrival_s'"
    )


def test_times_are_not_lost_for_the_spelling_of_their_column() -> None:
    """Else the file would be one of lengths alone, or of requests without sessions."""
    for name in ("arrival_s", "session"):
        found = error_of(f"prompt_tokens,output_tokens, {name}\n1,2,3\n")
        assert found == f"got the column ' {name}', expected {name!r}"
    for name in ("session", "turn", "think_time_s", "priority"):
        expected = f"got the column {name.upper()!r}, expected {name!r}"
        assert error_of(OWN.replace("output_tokens", f"output_tokens,{name.upper()}")) == expected
        of_json = error_of(json.dumps({**ROWS[0], name.upper(): 1}))
        assert of_json == expected.replace("column", "key")


def test_another_column_of_nearly_the_name_is_passed_over() -> None:
    trace = read("arrival_s,prompt_tokens,output_tokens,session,Session\n0,1,2,a,x\n")
    assert trace.previous is not None


def azure(*times: str) -> str:
    return "\n".join([HEADERS["azure"], *(f"{time},1,2" for time in times)])


def test_times_of_several_zones_are_instants_and_counted() -> None:
    """10:00 in UTC, 12:00:01 two hours east of it, 9:00:02 one hour west."""
    day = "2024-05-10"
    trace = read(azure(f"{day} 10:00:00Z", f"{day} 12:00:01+0200", f"{day} 09:00:02-01:00"))
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 10**9, 2 * 10**9]
    (note,) = trace.notes
    assert note == (
        "times of 3 zones, each taken as the instant it is: 1 in +02:00, 1 in -01:00, 1 in UTC"
    )


def test_one_zone_in_other_words_is_no_change() -> None:
    day = "2024-05-10"
    trace = read(azure(f"{day} 10:00:00Z", f"{day} 10:00:01+00:00", f"{day} 10:00:02-0000"))
    assert trace.notes == ()


def test_times_with_and_without_a_zone_are_an_error() -> None:
    bare, zoned = "2024-05-10 10:00:00", "2024-05-10 10:00:00Z"
    assert error_of(azure(bare, bare, zoned, zoned)) == (
        "column TIMESTAMP: got a time with a zone at line 4 and one without at line 2, expected "
        "one in all rows or in none"
    )


@pytest.mark.parametrize("odd", [{"turn": 2}, {"think_time_s": 0.5}])
def test_turns_and_think_times_of_no_session_are_an_error(odd: dict[str, Any]) -> None:
    (name,) = odd
    (value,) = odd.values()
    message = f"got a {name}, expected a session beside it"
    csv = f"prompt_tokens,output_tokens,session,{name}\n1,1,a,\n1,1,,{value}\n"
    assert error_of(csv) == f"line 3: {message}"
    rows = [{**ROWS[0], "session": "a"}, {**ROWS[1], **odd}]
    assert error_of("\n".join(map(json.dumps, rows))) == f"line 2: {message}"
    assert error_of(json.dumps(rows)) == f"item 2: {message}"


@pytest.mark.parametrize("session", [True, [1], {"a": 1}])
def test_sessions_are_names_or_numbers(session: Any) -> None:
    found = error_of(json.dumps({**ROWS[0], "session": session}))
    assert found == f"line 1, field session: got {session!r}, expected a text or a number"


def test_keys_that_come_twice_are_an_error() -> None:
    """Also deep inside, and not where other objects or texts have the same key."""
    fine = '{"prompt_tokens": 1, "output_tokens": 2, "x": [{"a": 1}, {"a": "{\\"a\\": 1,"}]}'
    assert len(read(fine)) == 1
    twice = '{"prompt_tokens": 1, "output_tokens": 2, "prompt_tokens": 3}'
    place = twice.rindex('"prompt') + 1
    expected = f"line 2: not JSON: got the key 'prompt_tokens' twice, at column {place}"
    assert error_of(f"{fine}\n{twice}") == expected
    deep = fine.replace('{"a": 1}', '{"b": {"c": 1, "d": 2, "c": 1}}')
    place = deep.rindex('"c"') + 1
    assert f"got the key 'c' twice, at column {place}" in error_of(deep)


def test_keys_that_come_twice_in_a_file_of_one_object() -> None:
    text = json.dumps(AGENT, indent=1).replace('"out": 5', '"t": 0')
    assert error_of(text) == "not JSON: got the key 't' twice, at line 7, column 4"


LINES = {
    "kvsim": ROWS,
    "mooncake": [{"timestamp": 5, "input_length": 9, "output_length": 3, "hash_ids": [4]}] * 2,
    "llmservingsim": [{"input_toks": 3, "output_toks": 5, "arrival_time_ns": 10}] * 2,
    "vllm-log": [{"input_toks": 5, "output_toks": 6, "arrival_time": 17.25}] * 2,
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_objects_is_as_good_as_lines(name: str, indent: int | None) -> None:
    trace = read(json.dumps(LINES[name], indent=indent))
    lines = read("\n".join(map(json.dumps, LINES[name])))
    assert trace.format == lines.format == name
    assert trace.notes == lines.notes
    assert trace.prompt_tokens.tolist() == lines.prompt_tokens.tolist()
    assert trace.output_tokens.tolist() == lines.output_tokens.tolist()


@pytest.mark.parametrize("name", LINES)
def test_rows_of_a_list_count_as_items(name: str) -> None:
    first, second = LINES[name]
    length = next(key for key in first if key.startswith(("prompt", "input")))
    found = error_of(json.dumps([first, {**second, length: 0}], indent=1))
    assert found.startswith(f"item 2, field {length}: got 0, expected an integer from 1")
    assert error_of(json.dumps([first, second, 7])) == "item 3: got 7, expected an object"


def test_items_of_a_list_out_of_time_order_are_counted_as_such() -> None:
    trace = read(json.dumps(ROWS[::-1]))
    assert trace.notes == ("sorted by time: 1 backward step, the first at item 2",)


def test_a_list_that_is_cut_says_where() -> None:
    text = json.dumps(ROWS, indent=1)
    text = text[: text.rindex(",") + 1]
    found = error_of(text, "kvsim")
    assert found.startswith("not a JSON list: ends early: ")
    assert f"at line {len(text.splitlines())}, column " in found


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("count", [1, 2])
def test_objects_over_several_lines_are_named(name: str, count: int) -> None:
    text = "\n".join(json.dumps(row, indent=1) for row in LINES[name][:count])
    expected = "JSON over several lines, expected one object a line, as of `jq -c .`"
    assert error_of(text) == expected


def test_json_that_ends_early_says_where() -> None:
    """Wherever it is cut within its object, so that no keys of a format can be seen."""
    text = json.dumps(AGENT, indent=1)
    for length in range(2, len(text)):
        cut = text[:length]
        found = error_of(cut)
        assert found.startswith("not JSON: ends early: "), (cut, found)
        is_text = "Unterminated string" in found  # its beginning is named
        line = cut.rstrip().count("\n") + 1
        assert is_text or f"at line {line}, " in found or f"at line {line + 1}, " in found, cut


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("[]", "JSON []"),
        ("{}\n{}\n", "JSON {}"),
        ("[1, 2]", "JSON [1, 2]"),
        ('{"a\\nb": 1}', "an object with the keys 'a\\nb'"),
        ("# mine\n1,2\n", "the columns # mine"),
    ],
)
def test_what_is_of_no_format_is_shown(text: str, seen: str) -> None:
    assert error_of(text).startswith(f"of no known format: got {seen}, expected one of azure")


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
def test_literals_that_json_has_not_are_named(literal: str) -> None:
    text = json.dumps(ROWS[0]).replace(": 0", f": {literal}")
    found = error_of(text)
    assert found == f"line 1: not JSON: got {literal}, expected a number, at column 15"


LONG = "x" * 5000


def longest_problem(text: str, format: str | None = None) -> int:
    """An error names ten problems at most."""
    return max(map(len, error_of(text, format).split("; ")))


LONG_VALUES = ["x" * 5000, ["x" * 100] * 100, {f"key{i}" * 50: i for i in range(50)}, 10**4000]


@pytest.mark.parametrize("value", LONG_VALUES, ids=range(len(LONG_VALUES)))
@pytest.mark.parametrize("name", LINES)
def test_long_values_are_shown_in_part(name: str, value: Any) -> None:
    first, second = LINES[name]
    for key in first:
        assert longest_problem(json.dumps([first, {**second, key: value}])) < 300
    assert longest_problem(json.dumps([first, value])) < 300


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"{OWN}1,{LONG},1\n",
        f"{json.dumps(ROWS[0])}\n{LONG}\n",
        ",".join(f"column {i}" for i in range(1000)),
        f"{','.join(LONG_VALUES[1])},prompt_tokens\n",
        json.dumps({f"{LONG}{i}": 1 for i in range(9)}),
        json.dumps({"prompt_tokens": 1, **{f"{LONG}{i}": 1 for i in range(9)}}),
        f"[{LONG}",
    ],
    ids=range(8),
)
@pytest.mark.parametrize("format", [None, *FORMATS])
def test_errors_of_long_texts_can_be_read(text: str, format: str | None) -> None:
    assert longest_problem(text, format) < 350


NO_TEXT = {
    "UTF-16": OWN.encode("utf-16"),
    "a zip file, as those of Excel are": b"PK\x03\x04" + bytes(30),
    "a Parquet file": b"PAR1" + bytes(30),
    "a PNG image": b"\x89PNG\r\n\x1a\n" + bytes(30),
    "compressed by zstd": b"\x28\xb5\x2f\xfd" + bytes(30),
    "compressed by xz": b"\xfd7zXZ\0" + bytes(30),
    "compressed by bzip2": b"BZh91AY" + bytes(30),
    "gzipped twice": gzip.compress(gzip.compress(OWN.encode())),
}


@pytest.mark.parametrize("what", NO_TEXT)
def test_files_that_are_no_text_are_named(tmp_path: Path, what: str) -> None:
    found = error_of_bytes(tmp_path / "trace", NO_TEXT[what])
    assert found == f"is {what}, expected UTF-8 text, plain or gzipped once"


def test_a_real_zip_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("trace.csv", OWN)
    assert error_of_bytes(tmp_path / "t", (tmp_path / "t.zip").read_bytes()).startswith("is a zip")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (OWN.encode("utf-16-le"), "line 1: got byte 0x00, expected UTF-8 text"),
        (f"{OWN}é,1,1\n".encode("latin-1"), "line 4: got byte 0xe9, expected UTF-8 text"),
        (f"{OWN}1,\0,1\n".encode(), "line 4: got byte 0x00, expected UTF-8 text"),
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (OWN.splitlines()[0].encode(), "no rows, expected some after the header"),
    ],
)
def test_bytes_that_are_no_trace(tmp_path: Path, data: bytes, message: str) -> None:
    assert error_of_bytes(tmp_path / "trace.csv", data) == message


def test_a_folder_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be read: Is a directory"):
        read_source(tmp_path)


def test_plain_text_may_have_a_name_of_gzip(tmp_path: Path) -> None:
    (tmp_path / "trace.csv.gz").write_text(OWN)
    assert len(read_trace(read_source(tmp_path / "trace.csv.gz"))) == 2
