"""Request logs of a vLLM benchmark, as LLMServingSim records them.

JSONL, an object a request: `request_id`, `input_toks` (prompt) and `output_toks` in tokens,
`arrival_time` (Unix seconds); github.com/casys-kaist/LLMServingSim, `bench`. The stamps of what the
server did (`queued_ts`, `scheduled_ts`, `first_token_ts`, `last_token_ts`) are on another clock;
they are results, not part of the workload, and passed over.
"""

from workloads.readers.jsonl_table import Field, Row, column, read_jsonl, with_output
from workloads.readers.times import times_ns
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

_SECOND = 10**9
_FIELDS = {
    "request_id": Field("text", is_optional=True),
    "input_toks": Field("count"),
    "output_toks": Field("count", lowest=0),
    "arrival_time": Field("number", unit_ns=_SECOND),
}


def recognises(source: Source) -> bool:
    """Whether the keys are those of such a log; a workload of LLMServingSim has arrival_time_ns."""
    return {"input_toks", "arrival_time"} <= source.keys


def read(source: Source) -> Trace:
    """Read the log; nothing is known of what prompts share.

    Requests with output_toks 0 (they were aborted) are skipped and noted. A request_id that comes
    again is accepted, as another request, and noted.

    Raises WorkloadError as `read_jsonl` does, and where no request is left.
    """
    rows = read_jsonl(source, _FIELDS)
    kept, notes = with_output(source, rows, "output_toks")
    return trace_from_rows(
        Rows(
            time_ns=times_ns([row["arrival_time"] for _, row in kept], _SECOND),
            prompt_tokens=column(kept, "input_toks"),
            output_tokens=column(kept, "output_toks"),
            lines=[line for line, _ in kept],
            counted=source.counted,
        ),
        format="vllm-log",
        num_rows=len(rows),
        notes=(*notes, *_repeated_ids(kept)),
    )


def _repeated_ids(rows: list[Row]) -> tuple[str, ...]:
    ids = [row["request_id"] for _, row in rows if "request_id" in row]
    num_repeated = len(ids) - len(set(ids))
    if not num_repeated:
        return ()
    return (f"{num_repeated} of {len(rows)} requests with a request_id that came before",)
