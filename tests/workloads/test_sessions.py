"""Conversations: prompts that quote all that was said before, and whom each turn waits for."""

from typing import Any

import numpy as np
import pytest

from workloads import (
    ClosedLoop,
    ConstantRate,
    Empirical,
    ExponentialTime,
    Fixed,
    FixedTime,
    LogNormal,
    Sessions,
    SharedPrefix,
    Uniform,
    Workload,
    WorkloadError,
    synthetic,
)


def make(**changed: Any) -> Workload:
    settings: dict[str, Any] = {
        "num_requests": 300,
        "seed": 5,
        "arrivals": ConstantRate(2),
        "unique": LogNormal(mean=30, sigma=0.5),
        "outputs": LogNormal(mean=20, sigma=0.8, max=100),
        "shared": SharedPrefix(groups=4, tokens=Uniform(50, 150)),
        "sessions": Sessions(Uniform(1, 7), FixedTime(0.25)),
        "max_model_len": 4096,
    }
    return synthetic(**(settings | changed))


def segments(workload: Workload, i: int) -> list[tuple[int, int]]:
    offsets = workload.segment_offsets
    part = slice(int(offsets[i]), int(offsets[i + 1]))
    ids, tokens = workload.segment_ids[part], workload.segment_tokens[part]
    return list(zip(ids.tolist(), tokens.tolist(), strict=True))


def test_prompts_of_three_turns_by_hand() -> None:
    """Turns of 5, answers of 3: content ids 0 to 3 are turns, 4 to 7 their answers."""
    workload = make(
        num_requests=4,
        unique=Fixed(5),
        outputs=Fixed(3),
        shared=None,
        sessions=Sessions(Fixed(3), FixedTime(0.25)),
    )
    assert [segments(workload, i) for i in range(4)] == [
        [(0, 5)],
        [(0, 5), (4, 3), (1, 5)],
        [(0, 5), (4, 3), (1, 5), (5, 3), (2, 5)],
        [(3, 5)],
    ]
    assert workload.prompt_tokens.tolist() == [5, 13, 21, 5]
    assert workload.previous is not None
    assert workload.previous.tolist() == [-1, 0, 1, -1]
    assert workload.following == {0: (1, 250_000_000), 1: (2, 250_000_000)}
    assert workload.first_of_sessions.tolist() == [0, 3]
    assert workload.arrival_ns is not None
    assert workload.arrival_ns.tolist() == [5e8, 5e8, 5e8, 1e9]


def test_prompt_is_the_one_before_its_answer_and_a_new_turn() -> None:
    """For all of many: the system prompt stays, and nothing is shared between sessions but that."""
    workload = make()
    assert workload.previous is not None
    for i, before in enumerate(workload.previous.tolist()):
        prompt, new = segments(workload, i)[:-1], segments(workload, i)[-1]
        assert new[0] == 4 + i
        if before < 0:
            assert [content < 4 for content, _ in prompt] == [True]
        else:
            answer = (int(workload.answer_ids[before]), int(workload.output_tokens[before]))
            assert prompt == [*segments(workload, before), answer]


def test_sessions_have_as_many_turns_as_drawn() -> None:
    """As an empirical distribution of 2 and 5 says; the last is cut."""
    workload = make(sessions=Sessions(Empirical((2, 5)), FixedTime(0)))
    turns = np.diff([*workload.first_of_sessions.tolist(), len(workload)])
    assert set(turns[:-1].tolist()) == {2, 5}
    assert len(workload) == 300


def test_sessions_of_one_turn_are_requests_without_sessions() -> None:
    single, plain = make(sessions=Sessions(Fixed(1), FixedTime(9))), make(sessions=None)
    for name in ("arrival_ns", "prompt_tokens", "segment_ids", "segment_tokens", "answer_ids"):
        assert np.array_equal(getattr(single, name), getattr(plain, name))
    assert single.following == plain.following == {}


def test_answer_that_the_limit_cuts_is_quoted_as_it_was_given() -> None:
    workload = make(
        unique=Fixed(5),
        outputs=Fixed(30),
        shared=None,
        sessions=Sessions(Fixed(2), FixedTime(0)),
        max_new_tokens=7,
    )
    assert segments(workload, 1) == [(0, 5), (300, 7), (1, 5)]


def test_history_beyond_the_model_length_ends_a_session() -> None:
    """Prompts of 10, 35, 60 tokens: the third leaves no room within 60, and the fourth."""
    workload = make(
        num_requests=6,
        unique=Fixed(10),
        outputs=Fixed(15),
        shared=None,
        sessions=Sessions(Fixed(4), FixedTime(0)),
        max_model_len=60,
    )
    assert workload.prompt_tokens.tolist() == [10, 35, 10, 35]
    assert workload.previous is not None
    assert workload.previous.tolist() == [-1, 0, -1, 2]
    assert segments(workload, 3) == [(4, 10), (10, 15), (5, 10)]
    assert workload.notes == ("1 session ended early at max_model_len 60: 2 requests fewer",)


def test_model_length_leaves_the_lengths_of_others_as_they_are() -> None:
    free, short = make(), make(max_model_len=300)
    kept = np.isin(free.answer_ids, short.answer_ids)
    assert 0 < kept.sum() < 300
    assert (free.prompt_tokens[kept] == short.prompt_tokens).all()
    assert short.notes[0].endswith(f"{300 - kept.sum()} requests fewer")


def test_closed_loop_starts_sessions() -> None:
    workload = make(arrivals=ClosedLoop(4, think_time_s=0))
    assert workload.arrival_ns is None
    assert workload.following == make().following


def test_think_time_below_zero_is_refused() -> None:
    with pytest.raises(WorkloadError, match="seconds: got -1"):
        Sessions(Fixed(2), FixedTime(-1))


def test_think_times_are_drawn_for_each_turn_but_the_first() -> None:
    """Their mean within four standard errors of what was asked for."""
    workload = make(num_requests=5000, sessions=Sessions(Fixed(5), ExponentialTime(3)))
    assert workload.previous is not None
    assert workload.think_time_ns is not None
    follows = workload.previous >= 0
    assert not workload.think_time_ns[~follows].any()
    drawn_s = workload.think_time_ns[follows] / 1e9
    assert abs(drawn_s.mean() - 3) < 4 * 3 / np.sqrt(len(drawn_s))
