"""The text format of Prometheus, in which `/metrics` of a server answers."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

Labels = dict[str, str]
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Sample(NamedTuple):
    """suffix: of the family's name."""

    suffix: str
    labels: Labels
    value: float


@dataclass(frozen=True)
class Family:
    """A metric and its samples. kind: counter, gauge, histogram or summary."""

    name: str
    kind: str
    meaning: str
    samples: list[Sample] = field(default_factory=list)

    def add(self, labels: Labels, value: float, suffix: str = "") -> None:
        """One sample more; none where the value is not known."""
        if not math.isnan(value):
            self.samples.append(Sample(suffix, labels, value))


def exposition(families: Iterable[Family]) -> str:
    """The text of all families that have samples; equal families give equal bytes."""
    return "".join(f"{line}\n" for family in families if family.samples for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    # A counter's own name ends with _total in this format.
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    yield f"# HELP {name} {family.meaning}"
    yield f"# TYPE {name} {family.kind}"
    for suffix, labels, value in family.samples:
        inside = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
        yield f"{name}{suffix}{{{inside}}} {number(value)}"


def number(value: float) -> str:
    """As Prometheus reads it, and as its client for Python writes the bounds of buckets."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value >= 1e6 and float(f"{value:.0e}") == value:
        return f"{value:.0e}"
    return repr(float(value))
