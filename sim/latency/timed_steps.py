"""Steps of a real engine with the time each took, and the CSV files that hold them."""

import csv
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim.errors import UserError
from sim.latency.linear import num_decode_doublings
from sim.latency.model import Float64Array, num_pairs
from workloads.readers.csv_table import Column, read_csv_table
from workloads.source import read_source


class TimedStep(NamedTuple):
    """A step as it was taken, and how long it took.

    prefills: (tokens, context before them) of each prefill chunk.
    after_idle: whether the engine idled just before.
    """

    num_decodes: int
    decode_context_tokens: int
    prefills: list[tuple[int, int]]
    after_idle: bool
    duration_ns: int


_SHAPE = ("decode_seqs", "decode_context_tokens", "prefill_tokens")
_DOUBLINGS = "decode_doublings"
OPTIONAL = (_DOUBLINGS, "prefill_seqs", "prefill_pairs", "after_idle")
_DURATION = "duration_ms"
_LARGEST = 10**15  # of any cell: sums of fewer than a thousand rows stay exact in a float
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?|\.[0-9]+")


@dataclass(frozen=True, eq=False)
class MeasuredSteps:
    """shape: column name -> [steps], see docs/latency.md; duration_s: [steps], each above 0."""

    shape: dict[str, Float64Array]
    duration_s: Float64Array

    def __len__(self) -> int:
        return len(self.duration_s)

    def where(self, is_chosen: npt.NDArray[np.bool_]) -> "MeasuredSteps":
        """Those that are chosen [steps]."""
        shape = {name: column[is_chosen] for name, column in self.shape.items()}
        return MeasuredSteps(shape, self.duration_s[is_chosen])


def measured_steps(steps: Iterable[TimedStep]) -> MeasuredSteps:
    """Columns of steps, at least one."""
    rows = [
        (
            num_decodes,
            context_tokens,
            sum(num_tokens for num_tokens, _ in prefills),
            num_decode_doublings(num_decodes),
            len(prefills),
            sum(num_pairs(*chunk) for chunk in prefills),
            after_idle,
            duration_ns / 1e9,
        )
        for num_decodes, context_tokens, prefills, after_idle, duration_ns in steps
    ]
    *shape, duration_s = np.array(rows, np.float64).T
    return MeasuredSteps(dict(zip((*_SHAPE, *OPTIONAL), shape, strict=True)), duration_s)


def write_steps(path: Path, steps: MeasuredSteps) -> None:
    """Write a CSV file that `read_steps` reads, by rename. Raises UserError where it cannot."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*steps.shape, _DURATION])
            columns = [*steps.shape.values(), steps.duration_s * 1e3]
            writer.writerows(zip(*map(_texts, columns), strict=True))
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _texts(column: Float64Array) -> list[str]:
    """Whole numbers as such, others with six decimals."""
    form = ".0f" if (column == np.rint(column)).all() else ".6f"
    return [format(value, form) for value in column.tolist()]


def read_steps(paths: list[str]) -> MeasuredSteps:
    """The steps of one or several CSV files, which must have the same columns of OPTIONAL.

    Other columns are passed over. Raises UserError or WorkloadError, in one line, for a file that
    cannot be read, lacks a column or has no rows, and for cells that are not what is expected.
    """
    parts = [_read(path) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        for name in set(parts[0].shape) ^ set(part.shape):
            has, lacks = (path, paths[0]) if name in part.shape else (paths[0], path)
            raise UserError(f"{lacks}: lacks the column {name} that {has} has, expected the same")
    shape = {name: np.concatenate([part.shape[name] for part in parts]) for name in parts[0].shape}
    return MeasuredSteps(shape, np.concatenate([part.duration_s for part in parts]))


def _read(path: str) -> MeasuredSteps:
    required = dict.fromkeys(_SHAPE, Column(_parse_count, f"a whole number from 0 to {_LARGEST}"))
    required[_DURATION] = Column(_parse_ms, "milliseconds, a number from 0.000001 to 1e9")
    optional = dict.fromkeys(OPTIONAL, required["prefill_tokens"])
    optional[_DOUBLINGS] = Column(_parse_doublings, "a number from 0 to 64")
    values = read_csv_table(read_source(path), required, optional).values
    duration_s = values.pop(_DURATION) / 1e9
    shape = {name: column.astype(np.float64) for name, column in values.items()}
    if _DOUBLINGS in shape:
        shape[_DOUBLINGS] /= 1e6
    return MeasuredSteps(shape, duration_s)


def _parse_count(text: str) -> int | None:
    value = _parse_number(text)
    return int(value) if value <= _LARGEST and value == int(value) else None


def _parse_ms(text: str) -> int | None:
    """Nanoseconds."""
    value = _parse_number(text)
    return round(value * 1e6) if 1e-6 <= value <= 1e9 else None


def _parse_doublings(text: str) -> int | None:
    """In millionths."""
    value = _parse_number(text)
    return round(value * 1e6) if value <= 64 else None


def _parse_number(text: str) -> float:
    """What is plainly a number that is not negative; infinity for anything else."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else math.inf
