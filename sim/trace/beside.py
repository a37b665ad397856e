"""A fitted scenario and the files beside it, from which its workload is drawn."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.errors import UserError
from sim.whole_file import check_suffix, refuse_existing
from workloads import SharingRows, sharing_rows_csv
from workloads.workload import Int64Column

_MOST_VALUES = 2000  # of a distribution
_PARTS = (
    "prompts.txt",
    "outputs.txt",
    "system.txt",
    "turns.txt",
    "first.txt",
    "think.txt",
    "requests.csv",
)


@dataclass
class Beside:
    """The texts of files beside a scenario `out`, by path."""

    out: Path
    texts: dict[Path, str] = field(default_factory=dict)

    def lengths(self, part: str, tokens: Int64Column) -> Any:
        """What a scenario says of these lengths: one length, or a file of some as likely each."""
        if tokens.min() == tokens.max():
            return int(tokens[0])
        return self._empirical(part, _quantiles(tokens).tolist())

    def seconds(self, part: str, times_ns: Int64Column) -> Any:
        """The same of times."""
        if times_ns.min() == times_ns.max():
            return float(times_ns[0]) / 1e9
        return self._empirical(part, (f"{ns / 1e9:.9g}" for ns in _quantiles(times_ns).tolist()))

    def rows(self, rows: SharingRows) -> str:
        """A file of all of them."""
        return self._add("requests.csv", sharing_rows_csv(rows))

    def _empirical(self, part: str, values: Iterable[object]) -> Any:
        return {"empirical": {"file": self._add(f"{part}.txt", _lines(values))}}

    def _add(self, part: str, text: str) -> str:
        path = _path(self.out, part)
        self.texts[path] = text
        return path.name


def _path(out: Path, part: str) -> Path:
    return out.with_name(f"{out.stem}-{part}")


def _lines(values: Iterable[object]) -> str:
    return "".join(f"{value}\n" for value in values)


def _quantiles(values: Int64Column) -> npt.NDArray[np.int64]:
    """All of them in order, or those in the middle of equal parts."""
    ranked = np.sort(values)
    if len(ranked) > _MOST_VALUES:
        middles = (np.arange(_MOST_VALUES) + 0.5) / _MOST_VALUES
        ranked = ranked[(middles * len(ranked)).astype(np.int64)]
    return ranked


def check_place(out: Path) -> None:
    """Raise UserError for a name that is none of a scenario, and a file that is there."""
    check_suffix(out, "--fit", (".yaml", ".yml"))
    for path in (out, *(_path(out, part) for part in _PARTS)):
        refuse_existing(path)


def write_all(texts: dict[Path, str]) -> None:
    """All the files, or none. Raises UserError for a place that cannot be written to."""
    written: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except BaseException as error:
        for done in written:
            done.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        raise
