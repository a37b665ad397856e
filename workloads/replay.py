"""The workload that replays a trace."""

from dataclasses import replace

import numpy as np

from workloads.arrivals import Arrivals, ClosedLoop
from workloads.checks import require_count
from workloads.errors import WorkloadError
from workloads.limits import output_limits
from workloads.shaping import Shape, shaped
from workloads.streams import stream
from workloads.trace import Segments, Trace, session_numbers, take
from workloads.workload import Int64Column, Workload


def workload_from_trace(
    trace: Trace,
    *,
    max_new_tokens: int | None = None,
    max_model_len: int,
    limit: int | None = None,
    arrivals: Arrivals | ClosedLoop | None = None,
    shape: Shape | None = None,
    seed: int = 0,
) -> Workload:
    """Replay a trace. Prompts share what it says they share, else nothing.

    shape: what is made of it first. limit: take only the first so many requests. max_new_tokens
    None is what max_model_len leaves after the prompt, at least 1. arrivals: when requests come,
    drawn with `seed`, where the trace does not say; of sessions, when they start, and then one
    comes after the other.

    Raises WorkloadError for a limit, max_new_tokens or max_model_len below 1, for a trace without
    times and no arrivals, and for both.
    """
    if shape is not None:
        trace = shaped(trace, shape, max_model_len=max_model_len, seed=seed)
    trace = _first(trace, limit)
    if arrivals is not None:
        trace = _one_session_after_another(trace)
    num_requests = len(trace)
    limits = output_limits(
        trace.prompt_tokens,
        trace.output_tokens,
        max_new_tokens=max_new_tokens,
        max_model_len=max_model_len,
    )
    segments = trace.segments or _own_content(trace.prompt_tokens)
    answer_ids = trace.answer_ids
    if answer_ids is None:
        answer_ids = int(segments.ids.max()) + 1 + np.arange(num_requests, dtype=np.int64)
    return Workload(
        arrival_ns=_arrival_ns(trace, arrivals, seed),
        closed_loop=arrivals if isinstance(arrivals, ClosedLoop) else None,
        prompt_tokens=trace.prompt_tokens,
        output_tokens=trace.output_tokens,
        max_new_tokens=limits.max_new_tokens,
        segment_offsets=segments.offsets,
        segment_ids=segments.ids,
        segment_tokens=segments.tokens,
        answer_ids=answer_ids,
        previous=trace.previous,
        think_time_ns=trace.think_time_ns,
        priority=trace.priority,
        notes=(*trace.notes, *limits.notes),
    )


def _first(trace: Trace, limit: int | None) -> Trace:
    """The first requests; what waits for an answer comes after that."""
    if limit is None:
        return trace
    require_count("limit", limit)
    if limit > len(trace):
        note = f"{limit} requests asked for, the trace gives {len(trace)}"
        return replace(trace, notes=(*trace.notes, note))
    if limit == len(trace):
        return trace
    note = f"the first {limit} of {len(trace)} requests taken"
    return take(trace, np.arange(limit), (note,))


def _arrival_ns(
    trace: Trace, arrivals: Arrivals | ClosedLoop | None, seed: int
) -> Int64Column | None:
    if arrivals is None:
        if trace.arrival_ns is None:
            raise WorkloadError(
                f"the trace ({'; '.join((trace.format, *trace.notes))}) says of no request when it "
                "comes, expected `workload.arrivals` beside it, such as poisson: {rate: 5}"
            )
        return trace.arrival_ns
    if trace.arrival_ns is not None:
        raise WorkloadError(
            f"arrivals: got some beside a trace ({trace.format}) that has times, expected none"
        )
    if isinstance(arrivals, ClosedLoop):
        return None
    session = session_numbers(trace)
    return arrivals.times_ns(int(session[-1]) + 1, stream(seed, "arrivals"))[session]


def _one_session_after_another(trace: Trace) -> Trace:
    session = session_numbers(trace)
    if (np.diff(session) >= 0).all():
        return trace
    return take(trace, np.argsort(session, kind="stable"), ())


def _own_content(prompt_tokens: Int64Column) -> Segments:
    numbers = np.arange(len(prompt_tokens) + 1, dtype=np.int64)
    return Segments(offsets=numbers, ids=numbers[:-1], tokens=prompt_tokens, block_tokens=1)
