"""One module a trace format; each reader makes a `Trace` of a `Source`.

A format is known by its columns, or by the keys of its first object, never by the file's name.
"""

from collections.abc import Callable
from typing import NamedTuple

from workloads.errors import WorkloadError
from workloads.readers import (
    agentic,
    azure,
    benchmark_serving,
    burstgpt,
    conversations,
    generic_csv,
    lengths,
    llmservingsim,
    mooncake,
    own,
    servegen,
    vidur,
    vllm_log,
)
from workloads.source import Source
from workloads.trace import Trace


class Format(NamedTuple):
    """A form in which requests are recorded.

    recognises: whether a source looks like it.
    """

    title: str
    recognises: Callable[[Source], bool]
    read: Callable[[Source], Trace]


# In the order in which they are tried: what asks for less comes last.
FORMATS: dict[str, Format] = {
    "azure": Format("Azure LLM inference trace 2023 and 2024, CSV", azure.recognises, azure.read),
    "mooncake": Format("Mooncake trace, JSONL", mooncake.recognises, mooncake.read),
    "llmservingsim": Format("LLMServingSim, JSONL", llmservingsim.recognises, llmservingsim.read),
    "vllm-log": Format("request log of vLLM, JSONL", vllm_log.recognises, vllm_log.read),
    "agentic": Format("session of a coding agent, JSON", agentic.recognises, agentic.read),
    "servegen": Format("rate profile of ServeGen, CSV", servegen.recognises, servegen.read),
    "vidur": Format("Vidur, CSV with arrival times", vidur.recognises, vidur.read),
    "burstgpt": Format("BurstGPT, CSV", burstgpt.recognises, burstgpt.read),
    "benchmark-serving": Format(
        "result of vLLM's serving benchmark, JSON",
        benchmark_serving.recognises,
        benchmark_serving.read,
    ),
    "conversations": Format(
        "conversations with text as of ShareGPT, JSON", conversations.recognises, conversations.read
    ),
    "kvsim": Format("kvsim's own, CSV or JSON lines", own.recognises, own.read),
    "lengths": Format("lengths without times, CSV", lengths.recognises, lengths.read),
    "csv": Format("any with arrivals and lengths, CSV", generic_csv.recognises, generic_csv.read),
}


def read_trace(source: Source, format: str | None = None) -> Trace:
    """The requests of a source, in the format that is given or else recognised.

    Raises WorkloadError for a format that is not known, a source that is of none, and as readers
    do.
    """
    if format is not None:
        if format not in FORMATS:
            raise WorkloadError(f"format: got {format!r}, expected one of {', '.join(FORMATS)}")
        return FORMATS[format].read(source)
    for known in FORMATS.values():
        if known.recognises(source):
            return known.read(source)
    if source.keys:
        seen = f"an object with the keys {', '.join(sorted(source.keys))}"
    else:
        seen = f"the columns {', '.join(source.columns[:20])[:200]}"
    raise WorkloadError(
        f"{source.name}: of no known format: got {seen}, expected one of {', '.join(FORMATS)} "
        "(docs/traces.md); `format` may name it"
    )
