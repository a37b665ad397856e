"""The Mooncake traces (github.com/kvcache-ai/Mooncake, `FAST25-release/traces`).

JSONL, an object a request: `timestamp` (milliseconds, of any origin), `input_length` (prompt) and
`output_length` in tokens, `hash_ids`, one for each block of 512 prompt tokens, of which the last
may be partial: Qin et al., Mooncake, FAST 2025. An id stands for a block and all before it.
"""

from typing import Any

from workloads.content import Segment
from workloads.files import bad_file
from workloads.readers.jsonl_table import Field, column, read_jsonl, with_output
from workloads.readers.times import times_ns
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

_BLOCK_TOKENS = 512
_MS = 10**6
_FIELDS = {
    "timestamp": Field("number", unit_ns=_MS),
    "input_length": Field("count"),
    "output_length": Field("count", lowest=0),
    "hash_ids": Field("ids"),
}


def recognises(source: Source) -> bool:
    """Whether the keys are those of Mooncake."""
    return {"timestamp", "input_length", "hash_ids"} <= source.keys


def read(source: Source) -> Trace:
    """Read the trace; prompts share the blocks whose ids are equal.

    Times count from the first request, so milliseconds since 1970 are as good as an offset.
    Requests with an output_length of 0 are skipped and noted.

    Raises WorkloadError as `read_jsonl` does, for a number of hash_ids that is not the number of
    blocks, and where no request is left.
    """
    rows = read_jsonl(source, _FIELDS)
    problems = [
        bad for line, row in rows if (bad := _wrong_blocks(f"{source.counted} {line}", row))
    ]
    if problems:
        raise bad_file(source.name, problems)
    kept, notes = with_output(source, rows, "output_length")
    return trace_from_rows(
        Rows(
            time_ns=times_ns([row["timestamp"] for _, row in kept], _MS),
            prompt_tokens=column(kept, "input_length"),
            output_tokens=column(kept, "output_length"),
            lines=[line for line, _ in kept],
            contents=[_content(row) for _, row in kept],
            block_tokens=_BLOCK_TOKENS,
            counted=source.counted,
        ),
        format="mooncake",
        num_rows=len(rows),
        notes=notes,
    )


def _wrong_blocks(where: str, row: dict[str, Any]) -> str | None:
    num_ids, length = len(row["hash_ids"]), int(row["input_length"])
    num_blocks = -(-length // _BLOCK_TOKENS)
    if num_ids == num_blocks:
        return None
    return (
        f"{where}, field hash_ids: got {num_ids} of them, expected {num_blocks}, one for each "
        f"{_BLOCK_TOKENS} tokens of input_length {length}"
    )


def _content(row: dict[str, Any]) -> list[Segment]:
    *full, last = row["hash_ids"]
    rest = int(row["input_length"]) - _BLOCK_TOKENS * len(full)
    return [*((block, _BLOCK_TOKENS) for block in full), (last, rest)]
