"""Documents that sessions are given: different ones, by their popularity, before the first turn."""

import math
from typing import Any

import numpy as np
import pytest

from workloads import (
    ConstantRate,
    Documents,
    Fixed,
    FixedTime,
    Sessions,
    SharedPrefix,
    Uniform,
    Workload,
    WorkloadError,
    synthetic,
)


def make(**changed: Any) -> Workload:
    settings: dict[str, Any] = {
        "num_requests": 2000,
        "seed": 3,
        "arrivals": ConstantRate(1),
        "unique": Fixed(7),
        "outputs": Fixed(5),
        "documents": Documents(collection=20, per_session=3, tokens=Uniform(10, 99), zipf=1.0),
        "max_model_len": 10_000,
    }
    return synthetic(**(settings | changed))


def segments(workload: Workload, i: int) -> list[tuple[int, int]]:
    offsets = workload.segment_offsets
    part = slice(int(offsets[i]), int(offsets[i + 1]))
    ids, tokens = workload.segment_ids[part], workload.segment_tokens[part]
    return list(zip(ids.tolist(), tokens.tolist(), strict=True))


def test_documents_of_a_session_are_different_ones() -> None:
    workload = make()
    for i in range(len(workload)):
        documents = [content for content, _ in segments(workload, i)[:-1]]
        assert len(set(documents)) == 3
        assert set(documents) <= set(range(20))


def test_a_document_is_as_long_wherever_it_is() -> None:
    workload = make()
    lengths: dict[int, set[int]] = {}
    for i in range(len(workload)):
        for content, tokens in segments(workload, i)[:-1]:
            lengths.setdefault(content, set()).add(tokens)
    assert {len(tokens) for tokens in lengths.values()} == {1}
    assert len(set.union(*lengths.values())) > 5


def test_first_and_second_are_drawn_by_zipfs_law_among_those_that_are_left() -> None:
    """P(j second) = sum over i of p_i p_j / (1 - p_i), i not j; within 4 standard errors."""
    num = 40_000
    workload = make(num_requests=num)
    places = workload.segment_offsets[:-1]
    p = np.arange(1, 21) ** -1.0
    p /= p.sum()
    second = p * np.array([sum(p[i] / (1 - p[i]) for i in range(20) if i != j) for j in range(20)])
    for place, expected in ((0, p), (1, second)):
        counts = np.bincount(workload.segment_ids[places + place], minlength=20)
        errors = np.sqrt(num * expected * (1 - expected))
        assert (np.abs(counts - num * expected) <= 4 * errors).all()


def test_prompt_is_system_prompt_documents_history_and_turn() -> None:
    """Ids: 2 groups, 20 documents, 4 turns, 4 answers."""
    workload = make(
        num_requests=4,
        shared=SharedPrefix(2, Fixed(50)),
        sessions=Sessions(Fixed(2), FixedTime(0)),
    )
    for first in (0, 2):
        before, after = segments(workload, first), segments(workload, first + 1)
        assert [tokens for _, tokens in before][0::4] == [50, 7]
        assert after == [*before, (26 + first, 5), (22 + first + 1, 7)]
        assert before[0][0] < 2
        assert all(2 <= content < 22 for content, _ in before[1:4])


def test_lengths_and_groups_are_the_same_with_and_without_documents() -> None:
    shared = SharedPrefix(2, Fixed(50))
    plain, with_documents = make(shared=shared, documents=None), make(shared=shared)
    assert (plain.output_tokens == with_documents.output_tokens).all()
    first = plain.segment_offsets[:-1], with_documents.segment_offsets[:-1]
    assert (plain.segment_ids[first[0]] == with_documents.segment_ids[first[1]]).all()


def test_first_turns_have_lengths_of_their_own() -> None:
    sessions = Sessions(Fixed(3), FixedTime(0), first=Fixed(1000))
    workload = make(num_requests=6, documents=None, sessions=sessions)
    assert workload.prompt_tokens.tolist() == [1000, 1012, 1024] * 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"per_session": 11}, "per_session: got 11, expected at most 10"),
        ({"collection": 1000, "per_session": 65}, "expected at most 64"),
        ({"zipf": 2.5}, "zipf: got 2.5, expected a number from 0 to 2"),
        ({"zipf": math.nan}, "zipf: got nan"),
        ({"collection": 0}, "collection: got 0"),
    ],
)
def test_impossible_documents_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Documents(**({"collection": 20, "per_session": 3, "tokens": Fixed(1)} | settings))
