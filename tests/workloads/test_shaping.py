"""What is made of traces, by hand, and that nobody is left waiting for what is not sent."""

from typing import Any

import numpy as np
import pytest

from workloads import Shape, Trace, WorkloadError, workload_from_trace
from workloads.shaping import shaped
from workloads.trace import Rows, trace_from_rows

S = 10**9


def trace(
    times_s: list[float] | None = None,
    prompts: tuple[int, ...] = (10, 20, 30, 40),
    previous: list[int] | None = None,
    contents: Any = None,
) -> Trace:
    """Four requests, at 0, 1, 2 and 5 s if nothing else is said."""
    num = len(prompts)
    times = [0, 1, 2, 5] if times_s is None else times_s
    rows = Rows(
        time_ns=np.array([round(time * S) for time in times], dtype=np.int64),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.arange(1, num + 1, dtype=np.int64),
        lines=list(range(1, num + 1)),
        contents=contents,
        block_tokens=16,
        previous=None if previous is None else np.array(previous, dtype=np.int64),
        think_time_ns=None if previous is None else np.full(num, 7, dtype=np.int64),
    )
    return trace_from_rows(rows, format="kvsim")


def made(source: Trace, max_model_len: int = 1000, **settings: Any) -> Trace:
    return shaped(source, Shape(**settings), max_model_len=max_model_len, seed=1)


def seconds(source: Trace) -> list[float]:
    assert source.arrival_ns is not None
    return [time / S for time in source.arrival_ns.tolist()]


def test_window_counts_from_its_beginning_and_leaves_out_its_end() -> None:
    cut = made(trace(), window_s=(0.5, 5))
    assert seconds(cut) == [0.5, 1.5]
    assert cut.prompt_tokens.tolist() == [20, 30]
    assert cut.notes == ("2 of 4 requests taken: from 0.5 to 5 s",)


def test_sessions_that_begin_in_the_window_stay_whole() -> None:
    """Two sessions: requests 0 and 2, which waits for it, and requests 1 and 3."""
    cut = made(trace([0, 1, 0, 1], previous=[-1, -1, 0, 1]), window_s=(1, 2))
    assert cut.prompt_tokens.tolist() == [20, 40]
    assert cut.previous is not None
    assert cut.previous.tolist() == [-1, 0]


def test_scaled_rate_moves_arrivals_only() -> None:
    fast = made(trace(), rate_scale=2)
    assert seconds(fast) == [0, 0.5, 1, 2.5]
    assert fast.output_tokens.tolist() == [1, 2, 3, 4]
    assert fast.notes == ("arrivals 2 times as fast",)


def test_sample_is_drawn_by_the_seed_in_the_order_of_the_trace() -> None:
    many = trace(list(range(400)), prompts=tuple(range(1, 401)))
    drawn = made(many, sample=0.25)
    assert 60 < len(drawn) < 140  # 100 and 8.7: more than four standard deviations
    assert (np.diff(drawn.prompt_tokens) > 0).all()
    assert made(many, sample=0.25).prompt_tokens.tolist() == drawn.prompt_tokens.tolist()


def test_dropped_prompts_take_those_that_follow_with_them() -> None:
    """Of 30 tokens at most 29 leave room; request 3 waits for 2, which is dropped."""
    kept = made(trace([0, 0, 0, 0], previous=[-1, 0, -1, 2]), 30, too_long="drop")
    assert kept.prompt_tokens.tolist() == [10, 20]
    assert kept.notes == ("2 of 4 requests taken: short enough for max_model_len 30",)


def test_nothing_is_said_where_nothing_is_too_long() -> None:
    assert made(trace(), too_long="drop").notes == ()
    assert made(trace(), too_long="clip").notes == ()


def test_clipped_prompts_keep_their_beginnings() -> None:
    contents = [[(1, 10)], [(1, 10), (2, 10)], [(1, 16), (3, 14)], [(4, 40)]]
    clipped = made(trace(contents=contents), 17, too_long="clip")
    assert clipped.prompt_tokens.tolist() == [10, 16, 16, 16]
    segments = clipped.segments
    assert segments is not None
    pairs = list(zip(segments.ids.tolist(), segments.tokens.tolist(), strict=True))
    assert pairs == [(1, 10), (1, 10), (2, 6), (1, 16), (4, 16)]
    assert segments.offsets.tolist() == [0, 1, 3, 4, 5]
    assert clipped.notes == ("3 prompts clipped to 16 tokens",)
    workload_from_trace(clipped, max_model_len=17)  # whose columns agree


def test_repetitions_follow_after_a_mean_gap_with_new_content() -> None:
    """A span of 5 s in three gaps: the next begins 5 / 3 s after the last."""
    contents = [[(1, 10)], [(1, 10), (2, 10)], [(3, 30)], [(1, 10), (5, 30)]]
    twice = made(trace(contents=contents, previous=[-1, -1, 1, -1]), repeat=2)
    assert seconds(twice) == pytest.approx([0, 1, 2, 5, 20 / 3, 23 / 3, 26 / 3, 35 / 3])
    assert twice.previous is not None
    assert twice.previous.tolist() == [-1, -1, 1, -1, -1, -1, 5, -1]
    segments = twice.segments
    assert segments is not None
    assert segments.ids.tolist() == [1, 1, 2, 3, 1, 5, 7, 7, 8, 9, 7, 11]
    workload = workload_from_trace(twice, max_model_len=100)
    assert len(set(workload.answer_ids.tolist()) | set(segments.ids.tolist())) == 8 + 8


def test_shapes_are_applied_one_after_the_other() -> None:
    """The last three, twice as fast, two times over: gaps of 0.5 and 1.5 s, so 1 s between."""
    whole = made(trace(), window_s=(1, 6), rate_scale=2, repeat=2)
    assert seconds(whole) == [0, 0.5, 2, 3, 3.5, 5]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window_s": (2, 1)}, r"window_s: got \[2, 1\], expected a time and a later one"),
        ({"window_s": (100, 200)}, "of 4 requests of the trace none is from 100 to 200 s"),
        ({"sample": 0}, "sample: got 0, expected a number from 1e-09 to 1"),
        ({"rate_scale": 0}, "rate_scale: got 0, expected a finite number above 0"),
        ({"repeat": 0}, "repeat: got 0, expected an integer from 1"),
        ({"too_long": "cut"}, "too_long: got 'cut', expected refuse or drop or clip"),
        ({"too_long": "drop", "max_model_len": 5}, "none is short enough for max_model_len 5"),
    ],
)
def test_shapes_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        made(trace(), **settings)


def test_trace_without_times_has_no_window() -> None:
    rows = Rows(
        time_ns=None,
        prompt_tokens=np.array([5], dtype=np.int64),
        output_tokens=np.array([5], dtype=np.int64),
        lines=[1],
    )
    with pytest.raises(WorkloadError, match=r"^the trace \(lengths\) has no times"):
        made(trace_from_rows(rows, format="lengths"), window_s=(0, 1))
