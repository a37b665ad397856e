"""One module a trace format; each reader makes a `Trace` of a `Source`.

A format is known by its columns, or by the keys of its first object, never by the file's name.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from workloads.checks import cut, listed
from workloads.errors import WorkloadError
from workloads.files import bad_file
from workloads.readers import (
    agentic,
    azure,
    benchmark_serving,
    burstgpt,
    conversations,
    generic_csv,
    headers,
    lengths,
    llmservingsim,
    mooncake,
    own,
    own_table,
    servegen,
    vidur,
    vllm_log,
)
from workloads.readers.jsonl_table import parse_json
from workloads.source import Source
from workloads.trace import Trace


class Format(NamedTuple):
    """A form in which requests are recorded.

    recognises: whether a source looks like it. columns: those of CSV by which it does.
    companions: further files that are read with one of this name, where they are there.
    """

    title: str
    recognises: Callable[[Source], bool]
    read: Callable[[Source], Trace]
    columns: tuple[str, ...] = ()
    companions: Callable[[Path], list[Path]] = lambda _: []


# In the order in which they are tried: what asks for less comes last.
FORMATS: dict[str, Format] = {
    "azure": Format(
        "Azure LLM inference trace 2023 and 2024, CSV", azure.recognises, azure.read, azure.COLUMNS
    ),
    "mooncake": Format("Mooncake trace, JSONL", mooncake.recognises, mooncake.read),
    "llmservingsim": Format("LLMServingSim, JSONL", llmservingsim.recognises, llmservingsim.read),
    "vllm-log": Format("request log of vLLM, JSONL", vllm_log.recognises, vllm_log.read),
    "agentic": Format("session of a coding agent, JSON", agentic.recognises, agentic.read),
    "servegen": Format(
        "rate profile of ServeGen, CSV",
        servegen.recognises,
        servegen.read,
        companions=servegen.companions,
    ),
    "vidur": Format("Vidur, CSV with arrival times", vidur.recognises, vidur.read, vidur.COLUMNS),
    "burstgpt": Format(
        "BurstGPT, CSV", burstgpt.recognises, burstgpt.read, tuple(burstgpt.COLUMNS)
    ),
    "benchmark-serving": Format(
        "result of vLLM's serving benchmark, JSON",
        benchmark_serving.recognises,
        benchmark_serving.read,
    ),
    "conversations": Format(
        "conversations with text as of ShareGPT, JSON", conversations.recognises, conversations.read
    ),
    "kvsim": Format("kvsim's own, CSV or JSON lines", own.recognises, own.read, own_table.COLUMNS),
    "lengths": Format(
        "lengths without times, CSV", lengths.recognises, lengths.read, lengths.COLUMNS
    ),
    "csv": Format(
        "any with arrivals and lengths, CSV",
        generic_csv.recognises,
        generic_csv.read,
        generic_csv.COLUMNS,
    ),
}


_WITH_TEXT = "conversations"  # all others say how many tokens there are


def read_trace(
    source: Source,
    format: str | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> Trace:
    """The requests of a source, in the format that is given or else recognised.

    count_tokens: of a text, for the format that has some.

    Raises WorkloadError for a format that is not known, a source that is of none, count_tokens with
    a format without text, and as readers do.
    """
    if format is None:
        format = _format_of(source)
    if format not in FORMATS:
        raise WorkloadError(f"format: got {format!r}, expected one of {', '.join(FORMATS)}")
    if count_tokens is None:
        return FORMATS[format].read(source)
    if format != _WITH_TEXT:
        problem = f"got a tokenizer with the format {format}, which has no text to count"
        raise bad_file(source.name, [f"{problem}; expected {_WITH_TEXT}"])
    return conversations.read(source, count_tokens)


def companions(path: Path) -> list[Path]:
    """Files that are there and may be read with a trace of this name, whatever its format."""
    return [
        beside
        for known in FORMATS.values()
        for beside in known.companions(path)
        if beside.is_file()
    ]


def _format_of(source: Source) -> str:
    """Raises WorkloadError for a source of no known format."""
    for name, known in FORMATS.items():
        if known.recognises(source):
            return name
    if problems := _nearly(source):
        raise bad_file(source.name, problems)
    if not source.is_json and (missing := generic_csv.missing_column(source)):
        raise bad_file(source.name, [missing])
    raise WorkloadError(
        f"{source.name}: of no known format: got {_seen(source)}, expected one of "
        f"{', '.join(FORMATS)} (docs/traces.md); `format` may name it"
    )


def _nearly(source: Source) -> list[str]:
    """What keeps a CSV file from being of the first format whose columns it has, but for that."""
    header = headers.with_commas(source)
    for known in FORMATS.values():
        mended = headers.mended(header, known.columns)
        if known.columns and known.recognises(mended):
            separator = headers.other_separator(source)
            return separator + headers.misspelt(header.columns, known.columns)
    return []


def _seen(source: Source) -> str:
    """What a source is, in words. Raises WorkloadError for JSON that is none."""
    if source.keys:
        return f"an object with the keys {listed(sorted(source.keys))}"
    if not source.is_json:
        return f"the columns {listed(source.columns)}"
    if not source.first_json:
        try:
            parse_json(source.text)
        except ValueError as error:
            raise bad_file(source.name, [f"not JSON: {error}"]) from error
    return f"JSON {cut(listed([source.first_json]), 40)}"
