"""Objects from lines of JSON, or one error for all that is wrong in them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from workloads.checks import LARGEST_COUNT, problem
from workloads.files import bad_file
from workloads.source import Source

_MOST_SECONDS = 9e9  # 285 years; int64 nanoseconds end at 9.22e18


@dataclass(frozen=True)
class Field:
    """What a value must be: a `kind` of `count`, `number`, `seconds`, `ids`, `list`, `text` or
    `any`.

    count: an integer from 1 (or `lowest`). number, seconds: from 0. ids: a list of integers from 0.
    """

    kind: str
    lowest: int = 1
    is_optional: bool = False


def read_jsonl(source: Source, fields: Mapping[str, Field]) -> list[tuple[int, dict[str, Any]]]:
    """(line, object) of every line that is not blank; other keys are kept and passed over.

    Raises WorkloadError for lines that are no JSON object (with the position), lack a field or have
    one that is not as it must be: the first ten in one message.
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    problems: list[str] = []
    for line, text in _lines(source):
        try:
            value = parse_json(text)
        except ValueError as error:
            problems.append(f"line {line}: not JSON: {error}")
            continue
        if not isinstance(value, dict):
            problems.append(problem(f"line {line}", value, "an object"))
            continue
        rows.append((line, value))
        problems += check_object(value, fields, f"line {line}")
    if problems:
        raise bad_file(source.name, problems)
    return rows


def check_object(value: Mapping[str, Any], fields: Mapping[str, Field], where: str) -> list[str]:
    """What is wrong with the fields of an object, a line each."""
    problems = []
    for name, field in fields.items():
        if name not in value:
            if not field.is_optional:
                seen = ", ".join(list(value)[:20])
                problems.append(f"{where}: no field {name}, got {seen}")
        elif (expected := _unlike(value[name], field)) is not None:
            problems.append(problem(f"{where}, field {name}", value[name], expected))
    return problems


def _unlike(value: Any, field: Field) -> str | None:
    """What was expected, of a value that is not like it."""
    match field.kind:
        case "count":
            is_like = _whole(value) and field.lowest <= value <= LARGEST_COUNT
            return None if is_like else f"an integer from {field.lowest} to {LARGEST_COUNT}"
        case "number" | "seconds":
            most = _MOST_SECONDS * (1 if field.kind == "seconds" else 1e9)
            is_like = type(value) in (int, float) and 0 <= value <= most
            return None if is_like else "a number from 0"
        case "ids":
            is_like = isinstance(value, list) and all(
                type(item) is int and 0 <= item < 2**62 for item in value
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
    """A JSON value; NaN and Infinity, which JSON has not, are refused as anything else wrong is.

    Raises ValueError, of one line.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"got {name}, expected a number")


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    for line, text in enumerate(source.text.split("\n"), start=1):
        if text.strip():
            yield line, text
