"""`Trace`, what every trace reader returns, and the workload that replays one."""

from dataclasses import dataclass

import numpy as np

from workloads.checks import require_count
from workloads.limits import output_limits
from workloads.workload import Int64Column, Workload


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests of a trace, in order of arrival.

    arrival_ns: [n] from the first request. prompt_tokens, output_tokens: [n].
    notes: what the reader changed or skipped, a line each, to be shown to the user.
    """

    arrival_ns: Int64Column
    prompt_tokens: Int64Column
    output_tokens: Int64Column
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.arrival_ns)


def trace_from_rows(
    time_ns: Int64Column,
    prompt_tokens: Int64Column,
    output_tokens: Int64Column,
    lines: list[int],
) -> Trace:
    """The trace of rows as they stand in a file: at least one, `lines` their line numbers.

    Rows out of time order are sorted, equal times keep the order of the file, and a note counts
    the rows that came earlier than the row before. Times count from the first request.
    """
    order = np.argsort(time_ns, kind="stable")
    backward = np.flatnonzero(np.diff(time_ns) < 0)
    notes: tuple[str, ...] = ()
    if len(backward):
        first_line = lines[backward[0] + 1]
        notes = (f"sorted by time: {len(backward)} backward steps, the first at line {first_line}",)
    return Trace(
        arrival_ns=time_ns[order] - time_ns.min(),
        prompt_tokens=prompt_tokens[order],
        output_tokens=output_tokens[order],
        notes=notes,
    )


def workload_from_trace(
    trace: Trace,
    *,
    max_new_tokens: int | None = None,
    max_model_len: int,
    limit: int | None = None,
) -> Workload:
    """Replay a trace; no two prompts share content, since the trace does not say what they hold.

    limit: take only the first so many requests. max_new_tokens None is what max_model_len leaves
    after the prompt, at least 1. Content ids: prompts first, then answers.

    Raises WorkloadError for a limit, max_new_tokens or max_model_len below 1.
    """
    notes = trace.notes
    num_requests = len(trace)
    if limit is not None:
        require_count("limit", limit)
        if limit < num_requests:
            notes = (*notes, f"the first {limit} of {num_requests} requests taken")
            num_requests = limit
    prompt_tokens = trace.prompt_tokens[:num_requests]
    output_tokens = trace.output_tokens[:num_requests]
    limits = output_limits(
        prompt_tokens,
        output_tokens,
        max_new_tokens=max_new_tokens,
        max_model_len=max_model_len,
    )
    prompt_ids = np.arange(num_requests, dtype=np.int64)
    return Workload(
        arrival_ns=trace.arrival_ns[:num_requests],
        closed_loop=None,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        max_new_tokens=limits.max_new_tokens,
        segment_offsets=np.arange(num_requests + 1, dtype=np.int64),
        segment_ids=prompt_ids,
        segment_tokens=prompt_tokens,
        answer_ids=num_requests + prompt_ids,
        notes=(*notes, *limits.notes),
    )
