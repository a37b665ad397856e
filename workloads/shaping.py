"""What is made of a trace before it is replayed: a part of it, faster or slower, repeated, cut."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from workloads.bootstrap import bootstrapped, num_contents
from workloads.checks import LATEST_NS, problem, require_between, require_count, require_positive
from workloads.content import MOST_CONTENT_IDS
from workloads.errors import WorkloadError
from workloads.streams import stream
from workloads.trace import Segments, Trace, session_numbers, take
from workloads.workload import Int64Column

TOO_LONG = ("refuse", "drop", "clip")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Applied in this order; sessions stay whole, as those that begin in the window or are drawn.

    window_s: from, to (not included), in seconds of the trace; times count from its beginning.
    sample: share of the sessions, or requests without any, that is drawn.
    bootstrap_s: other traces like it, by the seed: stretches of so many seconds drawn from it.
    rate_scale: so many times as many requests per second; think times stay.
    repeat: so often, each time with new content, a mean gap after the last arrival.
    too_long: prompts that leave no room for an output within max_model_len: `refuse`, the engine
        does; `drop`, with what follows in their session; `clip`, their ends, for one token.

    Raises WorkloadError for values that cannot be.
    """

    window_s: tuple[float, float] | None = None
    sample: float = 1.0
    bootstrap_s: float | None = None
    rate_scale: float = 1.0
    repeat: int = 1
    too_long: str = "refuse"

    def __post_init__(self) -> None:
        if self.window_s is not None:
            first_s, last_s = self.window_s
            if not 0 <= first_s < last_s <= LATEST_NS / 1e9:
                raise WorkloadError(
                    problem("window_s", [first_s, last_s], "a time and a later one")
                )
        require_between("sample", self.sample, 1e-9, 1)
        if self.bootstrap_s is not None:
            require_between("bootstrap_s", self.bootstrap_s, 1e-3, 1e9)
        require_positive("rate_scale", self.rate_scale)
        require_count("repeat", self.repeat)
        if self.too_long not in TOO_LONG:
            raise WorkloadError(problem("too_long", self.too_long, " or ".join(TOO_LONG)))


def shaped(trace: Trace, shape: Shape, *, max_model_len: int, seed: int) -> Trace:
    """The trace after all of it, with a note for each change.

    Raises WorkloadError where nothing is left, or a trace without times has a window or a scale.
    """
    if trace.arrival_ns is None and (shape.window_s or shape.rate_scale != 1):
        raise WorkloadError(
            f"the trace ({trace.format}) has no times, expected no window_s and no rate_scale"
        )
    if shape.window_s is not None:
        trace = _window(trace, *shape.window_s)
    if shape.sample < 1:
        trace = _sample(trace, shape.sample, seed)
    if shape.bootstrap_s is not None:
        trace = bootstrapped(trace, shape.bootstrap_s, seed)
    if shape.rate_scale != 1:
        trace = _scaled(trace, shape.rate_scale)
    if shape.too_long == "drop":
        trace = _dropped(trace, max_model_len)
    elif shape.too_long == "clip":
        trace = _clipped(trace, max_model_len - 1)
    return _repeated(trace, shape.repeat) if shape.repeat > 1 else trace


def _window(trace: Trace, first_s: float, last_s: float) -> Trace:
    assert trace.arrival_ns is not None
    first_ns, last_ns = round(first_s * 1e9), round(last_s * 1e9)
    is_in = (trace.arrival_ns >= first_ns) & (trace.arrival_ns < last_ns)
    kept = _kept(trace, is_in, f"from {first_s:g} to {last_s:g} s")
    assert kept.arrival_ns is not None
    return replace(kept, arrival_ns=kept.arrival_ns - first_ns)


def _sample(trace: Trace, share: float, seed: int) -> Trace:
    session = session_numbers(trace)
    num_sessions = int(session.max()) + 1
    is_drawn = stream(seed, "trace sample").random(num_sessions) < share
    return _kept(trace, is_drawn[session], f"in a sample of {share:.3g}")


def _kept(trace: Trace, is_kept: npt.NDArray[np.bool_], what: str) -> Trace:
    places = np.flatnonzero(is_kept)
    if not len(places):
        raise WorkloadError(f"of {len(trace)} requests of the trace none is {what}")
    return take(trace, places, (f"{len(places)} of {len(trace)} requests taken: {what}",))


def _scaled(trace: Trace, factor: float) -> Trace:
    assert trace.arrival_ns is not None
    if trace.arrival_ns[-1] / factor > LATEST_NS:
        raise WorkloadError(problem("rate_scale", factor, "one with which all come in 285 years"))
    arrival_ns = np.rint(trace.arrival_ns / factor).astype(np.int64)
    notes = (*trace.notes, f"arrivals {factor:g} times as fast")
    return replace(trace, arrival_ns=arrival_ns, notes=notes)


def _dropped(trace: Trace, max_model_len: int) -> Trace:
    is_kept = trace.prompt_tokens < max_model_len
    if trace.previous is not None:  # nobody waits for what is not sent
        for number, before in enumerate(trace.previous.tolist()):
            if before >= 0 and not is_kept[before]:
                is_kept[number] = False
    if is_kept.all():
        return trace
    return _kept(trace, is_kept, f"short enough for max_model_len {max_model_len}")


def _clipped(trace: Trace, most: int) -> Trace:
    num_clipped = int((trace.prompt_tokens > most).sum())
    if not num_clipped:
        return trace
    prompts = "1 prompt" if num_clipped == 1 else f"{num_clipped} prompts"
    return replace(
        trace,
        prompt_tokens=trace.prompt_tokens.clip(max=most),
        segments=None if trace.segments is None else _clip_segments(trace.segments, most),
        notes=(*trace.notes, f"{prompts} clipped to {most} tokens"),
    )


def _clip_segments(segments: Segments, most: int) -> Segments:
    """What of each prompt lies in its first `most` tokens."""
    counts = np.diff(segments.offsets)
    ends = np.cumsum(segments.tokens)
    before = np.concatenate(([0], ends))[segments.offsets[:-1]]
    starts = ends - segments.tokens - np.repeat(before, counts)
    tokens = np.minimum(segments.tokens, most - starts)
    is_kept = tokens > 0
    kept_counts = np.add.reduceat(is_kept, segments.offsets[:-1], dtype=np.int64)
    return Segments(
        offsets=np.concatenate(([0], np.cumsum(kept_counts))),
        ids=segments.ids[is_kept],
        tokens=tokens[is_kept],
        block_tokens=segments.block_tokens,
    )


def _repeated(trace: Trace, times: int) -> Trace:
    last_ns = 0 if trace.arrival_ns is None else int(trace.arrival_ns[-1])
    num_ids = num_contents(trace) * times
    if (2 * last_ns + 10**9) * times > LATEST_NS or num_ids >= MOST_CONTENT_IDS:
        expected = "fewer: arrivals or content ids would leave the range of 64 bits"
        raise WorkloadError(problem("repeat", times, expected))
    number = np.repeat(np.arange(times), len(trace))
    return Trace(
        arrival_ns=_times_again(trace.arrival_ns, times),
        prompt_tokens=np.tile(trace.prompt_tokens, times),
        output_tokens=np.tile(trace.output_tokens, times),
        segments=_segments_again(trace, times),
        previous=_places_again(trace.previous, number, len(trace)),
        think_time_ns=None if trace.think_time_ns is None else np.tile(trace.think_time_ns, times),
        priority=None if trace.priority is None else np.tile(trace.priority, times),
        answer_ids=_places_again(trace.answer_ids, number, num_contents(trace)),
        num_rows=trace.num_rows,
        format=trace.format,
        notes=(*trace.notes, f"repeated {times} times, each time with new content"),
    )


def _times_again(arrival_ns: Int64Column | None, times: int) -> Int64Column | None:
    if arrival_ns is None:
        return None
    span_ns = int(arrival_ns[-1])
    period_ns = span_ns + (round(span_ns / (len(arrival_ns) - 1)) if len(arrival_ns) > 1 else 10**9)
    return (np.arange(times)[:, None] * period_ns + arrival_ns).ravel()


def _places_again(
    column: Int64Column | None, number: Int64Column, shift: int
) -> Int64Column | None:
    """The column once for each repetition, what is not negative further on each time."""
    if column is None:
        return None
    again = np.tile(column, len(number) // max(len(column), 1))
    return np.where(again < 0, again, again + number * shift)


def _segments_again(trace: Trace, times: int) -> Segments | None:
    segments = trace.segments
    if segments is None:
        return None
    number = np.repeat(np.arange(times), len(segments.ids))
    counts = np.tile(np.diff(segments.offsets), times)
    return Segments(
        offsets=np.concatenate(([0], np.cumsum(counts))),
        ids=np.tile(segments.ids, times) + number * num_contents(trace),
        tokens=np.tile(segments.tokens, times),
        block_tokens=segments.block_tokens,
    )
