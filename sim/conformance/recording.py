"""Reads the files of a recorded case; docs/conformance.md describes them.

Each is plain or gzipped. What is not in the format raises UserError, naming file and line.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from engine import EngineConfig, RequestId
from sim.errors import UserError
from sim.scenario import engine_config
from sim.scenario.mistakes import explain


class WorkloadRow(BaseModel):
    """A line of workload.jsonl: a request, the step before which it comes, and its output."""

    id: RequestId
    arrive_step: Annotated[int, Field(ge=0)]
    prompt: Annotated[list[int], Field(min_length=1)]
    output: Annotated[list[int], Field(min_length=1)]
    priority: int = 0


T = TypeVar("T")
_WORKLOAD_ROW = TypeAdapter(WorkloadRow)
_OBJECT = TypeAdapter(dict[str, Any])


def file_in(folder: Path, name: str) -> Path:
    """A file of a case: the plain one, else the gzipped one."""
    plain = folder / name
    return plain if plain.is_file() else folder / f"{name}.gz"


def read_text(path: Path) -> str:
    """All that is in a file."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def read_settings(path: Path) -> dict[str, Any]:
    """What config.json holds."""
    return _parse(_OBJECT, read_text(path), str(path))


def to_config(settings: dict[str, Any], where: str) -> EngineConfig:
    """Settings that an engine can run with; the error starts with `where`."""
    try:
        return engine_config(settings)
    except ValidationError as error:
        raise _user_error(error, where) from None


def read_workload(path: Path) -> Iterator[tuple[str, WorkloadRow]]:
    """Where each request stands, for messages, and the request."""
    return _read_lines(_WORKLOAD_ROW, path)


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each line stands and what it holds, parsed as they are asked for."""
    return _read_lines(_OBJECT, path)


def _read_lines(adapter: TypeAdapter[T], path: Path) -> Iterator[tuple[str, T]]:
    for number, line in enumerate(read_text(path).rstrip("\n").split("\n"), start=1):
        where = f"{path}, line {number}"
        yield where, _parse(adapter, line, where)


def _parse(adapter: TypeAdapter[T], text: str, where: str) -> T:
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise _user_error(error, where) from None


def _user_error(error: ValidationError, where: str) -> UserError:
    return UserError(f"{where}: {'; '.join(explain(error))}")
