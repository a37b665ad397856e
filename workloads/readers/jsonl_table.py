"""Objects from JSON, one a line or one in all, or one error for all that is wrong in them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from workloads.checks import LARGEST_COUNT, LATEST_NS, listed, problem, shown
from workloads.content import MOST_CONTENT_IDS
from workloads.files import bad_file
from workloads.source import Source
from workloads.workload import Int64Column, int64_column

Row = tuple[int, dict[str, Any]]  # (line, or item of a list, object)

_STRING = r'"(?:[^"\\]|\\.)*"'
_STRING_OR_CONSTANT = re.compile(rf"{_STRING}|(NaN|-?Infinity)")
_STRING_OR_BRACE = re.compile(rf"({_STRING})(\s*:)?|[{{}}]")


@dataclass(frozen=True)
class Field:
    """What a value must be: a `kind` of `count`, `number`, `ids`, `list`, `text` or `any`.

    count: an integer from 1 (or `lowest`). number: from 0 to 9e18 / unit_ns, so that a time in
    units of so many nanoseconds is one of int64. ids: a list of integers from 0.
    """

    kind: str
    lowest: int = 1
    unit_ns: int = 1
    is_optional: bool = False


def read_jsonl(source: Source, fields: Mapping[str, Field]) -> list[Row]:
    """(line, object) of every line that is not blank; other keys are kept and passed over.

    Where the text is one JSON list, its items are as good as lines.

    Raises WorkloadError for lines that are no JSON object (with the position), lack a field or have
    one that is not as it must be: the first ten in one message.
    """
    problems: list[str] = []
    rows: list[Row] = []
    for number, value in json_items(source) if source.is_list else _lines(source, problems):
        where = f"{source.counted} {number}"
        if not isinstance(value, dict):
            problems.append(problem(where, value, "an object"))
            continue
        rows.append((number, value))
        problems += check_object(value, fields, where)
    if not (rows or problems):
        problems.append("an empty list, expected objects")
    if problems:
        raise bad_file(source.name, problems)
    return rows


def read_object(source: Source, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The one object that a source is; other keys are kept.

    Raises WorkloadError, with the position, for what is none, and for fields as `read_jsonl` does.
    """
    try:
        value = parse_json(source.text)
    except ValueError as error:
        raise bad_file(source.name, [f"not JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise bad_file(source.name, [problem("top level", value, "an object")])
    problems = check_object(value, fields, "top level")
    if problems:
        raise bad_file(source.name, problems)
    return value


def with_output(source: Source, rows: list[Row], name: str) -> tuple[list[Row], tuple[str, ...]]:
    """The rows whose field `name` is not 0, and a note that counts the others.

    Raises WorkloadError where none is left.
    """
    kept = [row for row in rows if row[1][name] > 0]
    if not kept:
        raise bad_file(source.name, [f"no request with {name} above 0, expected some"])
    return kept, skipped_note(len(rows) - len(kept), name)


def skipped_note(num_skipped: int, name: str) -> tuple[str, ...]:
    """A note on requests that were left out since field `name` is 0; none for none."""
    if not num_skipped:
        return ()
    return (f"skipped {num_skipped} {'request' if num_skipped == 1 else 'requests'}: {name} 0",)


def column(rows: list[Row], name: str) -> Int64Column:
    """[n] a field of every row that is a count."""
    return int64_column(int(row[name]) for _, row in rows)


def check_object(
    value: Mapping[str, Any], fields: Mapping[str, Field], where: str, joint: str = ", field "
) -> list[str]:
    """What is wrong with the fields of an object, a line each; joint: between place and name."""
    problems = []
    for name, field in fields.items():
        if name not in value:
            if not field.is_optional:
                problems.append(f"{where}: no field {name}, got {listed(value) or 'none'}")
        elif (expected := _unlike(value[name], field)) is not None:
            problems.append(problem(f"{where}{joint}{name}", value[name], expected))
    return problems


def _unlike(value: Any, field: Field) -> str | None:
    """What was expected, of a value that is not like it."""
    match field.kind:
        case "count":
            is_like = _whole(value) and field.lowest <= value <= LARGEST_COUNT
            return None if is_like else f"an integer from {field.lowest} to {LARGEST_COUNT}"
        case "number":
            highest = LATEST_NS / field.unit_ns
            is_like = type(value) in (int, float) and 0 <= value <= highest
            return None if is_like else f"a number from 0 to {highest:g}"
        case "ids":
            is_like = isinstance(value, list) and all(
                type(item) is int and 0 <= item < MOST_CONTENT_IDS for item in value
            )
            return None if is_like else "a list of integers from 0"
        case "list":
            return None if isinstance(value, list) else "a list"
        case "text":
            return None if isinstance(value, str) else "a text"
        case _:
            return None


def _whole(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def parse_json(text: str) -> Any:
    """A JSON value; NaN, Infinity, and keys that come twice are refused as anything else wrong is.

    Raises ValueError, of one line, with the position where that is known.
    """

    def refuse(name: str) -> NoReturn:
        places = (match.start() for match in _STRING_OR_CONSTANT.finditer(text) if match[1])
        raise ValueError(f"got {name}, expected a number, at {_position(text, next(places))}")

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=partial(_unique, text))
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        early = "ends early: " if is_cut else ""
        raise ValueError(f"{early}{error.msg} at {_position(text, error.pos)}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        if "integer string conversion" in str(error):  # thousands of digits
            raise ValueError("got a number of thousands of digits") from None
        raise


def _unique(text: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs. Raises ValueError where a key of one in the text comes twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        key, place = _repeated_key(text)
        raise ValueError(f"got the key {shown(key)} twice, at {_position(text, place)}")
    return value


def _repeated_key(text: str) -> tuple[str, int]:
    """The first key that an object of JSON has twice, and where it comes again."""
    keys: list[set[str]] = []  # of each object around the place
    for token in _STRING_OR_BRACE.finditer(text):
        if token[0] == "{":
            keys.append(set())
        elif token[0] == "}":
            keys.pop()
        elif token[2]:
            key = json.loads(token[1])
            if key in keys[-1]:
                return key, token.start()
            keys[-1].add(key)
    raise AssertionError("no key comes twice")


def _position(text: str, place: int) -> str:
    """The column, and the line in a text of several."""
    column_number = place - text.rfind("\n", 0, place)
    line = text.count("\n", 0, place)
    if "\n" not in text:
        return f"column {column_number}"
    return f"line {line + 1}, column {column_number}"


def _lines(source: Source, problems: list[str]) -> Iterator[tuple[int, Any]]:
    """(line, value) of every line; what is no JSON goes to `problems`."""
    if "\n" in source.first_json:
        problems.append("JSON over several lines, expected one object a line, as of `jq -c .`")
        return
    for line, text in enumerate(source.text.split("\n"), start=1):
        if not text.strip():
            continue
        try:
            yield line, parse_json(text)
        except ValueError as error:
            problems.append(f"line {line}: not JSON: {error}")


def json_items(source: Source) -> Iterator[tuple[int, Any]]:
    """(number from 1, value) of every item of the one list that the source is.

    Raises WorkloadError, with the position, for what is none.
    """
    try:
        yield from enumerate(parse_json(source.text), start=1)
    except ValueError as error:
        raise bad_file(source.name, [f"not a JSON list: {error}"]) from error
