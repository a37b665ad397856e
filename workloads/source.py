"""What a reader reads: the text of a file, or of standard input, and its name in messages."""

import csv
import io
import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from workloads.errors import WorkloadError
from workloads.files import decoded, read_text

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Source:
    """name: the path, or what stands for it in messages. text: all of it."""

    name: str
    text: str

    @cached_property
    def first_line(self) -> str:
        """The first line that is not blank."""
        return next((line for line in self.text.splitlines() if line.strip()), "")

    @cached_property
    def columns(self) -> list[str]:
        """Cells of the first line, as of a CSV file."""
        try:
            return next(csv.reader(io.StringIO(self.first_line)), [])
        except csv.Error:
            return []

    @property
    def keys(self) -> set[str]:
        """Keys of the first object, where the text is JSON or begins with a line of JSON."""
        return self._first_json[0]

    @cached_property
    def _first_sign(self) -> str:
        return self.text.lstrip()[:1]

    @property
    def is_json(self) -> bool:
        """Whether the text begins as JSON does."""
        return self._first_sign in ("{", "[")

    @property
    def is_list(self) -> bool:
        """Whether the text is one JSON list."""
        return self._first_sign == "["

    @property
    def counted(self) -> str:
        """What the rows are counted in: lines, or items of the one JSON list that the text is."""
        return "item" if self.is_list else "line"

    @property
    def first_json(self) -> str:
        """The text of the first value of JSON, of a whole list or a line; empty where none is."""
        return self.text.lstrip()[: self._first_json[1]]

    @cached_property
    def _first_json(self) -> tuple[set[str], int]:
        """Keys of the first object, and how long the first value is; what is parsed is let go."""
        if not self.is_json:
            return set(), 0
        try:
            found, length = json.JSONDecoder(parse_constant=_none).raw_decode(self.text.lstrip())
        except (ValueError, RecursionError):
            return set(), 0
        if isinstance(found, list) and found:
            found = found[0]
        return set(found) if isinstance(found, dict) else set(), length


def _none(_name: str) -> None:
    return None


def read_source(path: str | Path) -> Source:
    """The text of a file, plain or gzipped, or of standard input where the path is `-`.

    Raises WorkloadError for one that cannot be read or decoded, is empty, or only points to data
    that was not downloaded.
    """
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise WorkloadError("standard input: is closed")
        source = Source("standard input", decoded(sys.stdin.buffer.read(), "standard input"))
    else:
        source = Source(str(path), read_text(path))
    if not source.text.strip():
        raise WorkloadError(f"{source.name}: is empty")
    return source
