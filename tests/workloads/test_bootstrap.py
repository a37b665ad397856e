"""Other traces like one there is: stretches of its time, drawn with replacement."""

from collections import Counter

import numpy as np
import pytest

from workloads import WorkloadError
from workloads.bootstrap import bootstrapped
from workloads.content import Segment
from workloads.trace import Rows, Trace, trace_from_rows

S = 10**9


def trace(times_s: list[float], **changed) -> Trace:
    """Requests whose prompt tells their row, each of content of its own, and a first shared one."""
    num = len(times_s)
    contents: list[tuple[Segment, ...]] = [((0, 5), (1 + row, 1 + row)) for row in range(num)]
    rows = {
        "time_ns": (np.array(times_s) * S).astype(np.int64),
        "prompt_tokens": np.arange(6, num + 6, dtype=np.int64),
        "output_tokens": np.ones(num, dtype=np.int64),
        "lines": list(range(num)),
        "contents": contents,
    }
    return trace_from_rows(Rows(**(rows | changed)), format="kvsim")


TIMES = sorted(np.random.default_rng(3).uniform(0, 100, 300).tolist())


def test_each_stretch_is_one_of_the_trace_moved_in_time() -> None:
    """Requests of every stretch of 10 s are all of one stretch, at the same offsets."""
    drawn = bootstrapped(trace(TIMES), 10, seed=4)
    offset_of = {row: time - TIMES[0] for row, time in enumerate(TIMES)}
    assert drawn.arrival_ns is not None
    shift = None
    sources: list[int] = []
    rows = (drawn.prompt_tokens - 6).tolist()
    for place, (at_ns, row) in enumerate(zip(drawn.arrival_ns.tolist(), rows, strict=True)):
        source = int(offset_of[row] // 10)
        moved = round(at_ns / S - offset_of[row], 6)
        if not sources or (source, moved) != (sources[-1], shift):
            sources.append(source)
            shift = moved
        assert place == 0 or drawn.arrival_ns[place - 1] <= at_ns
    assert len(sources) == 10
    counts = Counter(rows)
    for row, num in counts.items():
        assert num == sources.count(int(offset_of[row] // 10))


def test_what_is_drawn_again_has_new_content() -> None:
    """The first time the ids are those of the trace; no two uses of a stretch share any."""
    original = trace(TIMES)
    drawn = bootstrapped(original, 10, seed=4)
    assert drawn.segments is not None
    seen: dict[int, set[int]] = {}
    for place, row in enumerate((drawn.prompt_tokens - 6).tolist()):
        (shared, _), (own, _) = drawn.segments.of(place)
        use = len(seen.setdefault(row, set()))
        assert (shared, own) == (use * 301, use * 301 + 1 + row)
        seen[row].add(own)
    assert max(map(len, seen.values())) > 1


def test_sessions_stay_whole() -> None:
    times = [0.0, 0.0, 3.0, 12.0, 12.0, 25.0]
    previous = np.array([-1, 0, -1, -1, 3, -1], dtype=np.int64)
    sessions = trace(times, previous=previous, think_time_ns=np.full(6, S, dtype=np.int64))
    for seed in range(20):
        drawn = bootstrapped(sessions, 10, seed)
        assert drawn.previous is not None
        rows = (drawn.prompt_tokens - 6).tolist()
        for place, before in enumerate(drawn.previous.tolist()):
            assert (before < 0) == (rows[place] not in (1, 4))
            if before >= 0:
                assert rows[before] == rows[place] - 1
        assert rows.count(1) == rows.count(0)
        assert rows.count(4) == rows.count(3)


def test_the_seed_decides() -> None:
    one, same, other = (bootstrapped(trace(TIMES), 10, seed) for seed in (1, 1, 2))
    assert one.prompt_tokens.tolist() == same.prompt_tokens.tolist()
    assert one.prompt_tokens.tolist() != other.prompt_tokens.tolist()


def test_the_mean_over_many_is_that_of_the_trace() -> None:
    """Requests of a bootstrap: within four standard errors of those of the trace."""
    numbers = [len(bootstrapped(trace(TIMES), 10, seed)) for seed in range(200)]
    assert abs(np.mean(numbers) - 300) < 4 * np.std(numbers) / 200**0.5


def test_too_many_stretches_are_a_user_error() -> None:
    with pytest.raises(
        WorkloadError, match=r"bootstrap_s: got 0\.001, expected stretches of which"
    ):
        bootstrapped(trace(TIMES), 0.001, seed=1)
