"""What a Prometheus scrape says: the text format, in which vLLM's `/metrics` answers."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from sim.errors import UserError
from workloads.checks import listed, shown
from workloads.source import Source

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?[ \t]+([^\s_]+)(?:[ \t]+(-?[0-9]{1,15}))?")
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}
_KEPT = ("vllm:", "process_start_time_seconds")
_OTHERS = {"<": "HTML", "{": "JSON", "[": "JSON"}  # by the first letter of the text


@dataclass(frozen=True)
class Sample:
    """A line of a scrape. timestamp_ms: since 1970, where the line has one."""

    name: str
    labels: dict[str, str]
    value: float
    line: int
    timestamp_ms: int | None

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What tells it from the others of a scrape."""
        return self.name, tuple(sorted(self.labels.items()))


def read_samples(source: Source) -> list[Sample]:
    """Samples of vLLM, in the order of their lines.

    Raises UserError, naming file and line, for what is no scrape, or one of another server.
    """
    first = source.text.lstrip()[:1]
    if first in _OTHERS or not first:
        what = f"is {_OTHERS[first]}" if first else "is empty"
        raise UserError(f"{source.name}: {what}, expected what vLLM answers at /metrics")
    kept: dict[object, Sample] = {}
    others: dict[str, None] = {}
    for number, text in enumerate(source.text.splitlines(), 1):
        line = text.strip()
        if not line or line.startswith("#"):
            continue
        sample = _sample(line, number, source.name)
        if not sample.name.startswith(_KEPT):
            others[sample.name] = None
        elif (before := kept.get(sample.key)) is not None:
            raise UserError(
                f"{source.name}: line {number}: {sample.name} with the labels of line "
                f"{before.line}, expected one scrape"
            )
        else:
            kept[sample.key] = sample
    if not any(sample.name.startswith("vllm:") for sample in kept.values()):
        found = listed([*others, *(sample.name for sample in kept.values())])
        raise UserError(f"{source.name}: got no metric of vLLM, expected vllm:...; it has {found}")
    return list(kept.values())


def _sample(line: str, number: int, name: str) -> Sample:
    match = _SAMPLE.fullmatch(line)
    labels = None if match is None else _labels(match[2] or "")
    value = None if match is None else _value(match[3])
    if match is None or labels is None or value is None:
        raise UserError(
            f'{name}: line {number}: got {shown(line)}, expected `name{{label="text"}} number`'
        )
    timestamp_ms = int(match[4]) if match[4] else None
    return Sample(match[1], labels, value, number, timestamp_ms)


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _labels(text: str) -> dict[str, str] | None:
    """None for what is no list of labels."""
    labels, place = {}, 0
    while place < len(text):
        match = _LABEL.match(text, place)
        if match is None:
            return None
        labels[match[1]] = re.sub(r"\\(.)", lambda m: _ESCAPED.get(m[1], m[0]), match[2])
        place = match.end()
    return labels


def counted(sample: Sample, where: str) -> float:
    """The value of a sample that counts something. Raises UserError for NaN and what is below 0."""
    if math.isfinite(sample.value) and sample.value >= 0:
        return sample.value
    raise UserError(
        f"{where}: line {sample.line}: {sample.name}: got {sample.value}, expected a number from 0"
    )


def named(samples: Iterable[Sample], name: str) -> list[Sample]:
    """Those of one name."""
    return [sample for sample in samples if sample.name == name]
