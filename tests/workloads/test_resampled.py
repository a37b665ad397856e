"""Requests drawn from those of a trace: what they share is what rows say, token by token."""

import random
from collections import Counter
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import pytest

from workloads import (
    Fixed,
    Poisson,
    SharedPrefix,
    SharingRows,
    Uniform,
    Workload,
    WorkloadError,
    read_sharing_rows,
    read_source,
    read_trace,
    resampled,
    sharing_rows,
    sharing_rows_csv,
    synthetic,
    trace_of_workload,
)
from workloads.sharing import blocks_of, curve_sizes, lru, unlimited
from workloads.trace import Rows, Trace, trace_from_rows

HEADER = "prompt_tokens,output_tokens,shared_tokens,ago,shared_since,beginning"
Prompt = list[tuple[int, int]]  # (content id, offset) of each token


def trace(*contents: list[tuple[int, int]]) -> Trace:
    num = len(contents)
    rows = Rows(
        time_ns=np.arange(num, dtype=np.int64) * 10**9,
        prompt_tokens=np.array([sum(n for _, n in content) for content in contents]),
        output_tokens=np.ones(num, dtype=np.int64),
        lines=list(range(num)),
        contents=contents,
    )
    return trace_from_rows(rows, format="kvsim")


def table(*rows: tuple[int, int, int, int, int, int]) -> SharingRows:
    return SharingRows(*np.array(rows, dtype=np.int64).T)


def draw(rows: SharingRows, num: int, seed: int = 0) -> Workload:
    return resampled(
        rows, num_requests=num, seed=seed, arrivals=Poisson(1), max_model_len=1_000_000
    )


def as_trace(workload: Workload) -> Trace:
    return trace_of_workload(workload, "kvsim")


def prompts_of(trace: Trace) -> list[Prompt]:
    assert trace.segments is not None
    return [
        [(content, k) for content, tokens in trace.segments.of(i) for k in range(tokens)]
        for i in range(len(trace))
    ]


def common(a: Prompt, b: Prompt) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))


def shared_ago_since(prompts: list[Prompt], i: int) -> tuple[int, int, int]:
    """Token by token: the longest beginning that is there, in whom last, and what came since."""
    lengths = [common(prompts[i], prompts[k]) for k in range(i)]
    shared = max(lengths, default=0)
    if shared == 0:
        return 0, 0, 0
    origin = max(k for k in range(i) if lengths[k] == shared)
    return shared, i - origin, max(lengths[origin + 1 :], default=0)


def random_contents(rng: random.Random, num: int) -> list[list[tuple[int, int]]]:
    """Prompts that copy some tokens of another and go on, in its last content or in a new one."""
    contents: list[list[tuple[int, int]]] = []
    ids = count()
    for _ in range(num):
        content: list[tuple[int, int]] = []
        if contents and rng.random() < 0.8:
            content = list(rng.choice(contents)[: rng.randint(1, 3)])
            last, tokens = content[-1]
            content[-1] = last, max(1, tokens + rng.randint(-2, 2))
        if not content or rng.random() < 0.7:
            content.append((next(ids), rng.randint(1, 6)))
        contents.append(content)
    return contents


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_a_trace_are_what_a_comparison_token_by_token_finds(seed: int) -> None:
    given = trace(*random_contents(random.Random(seed), 60))
    rows, prompts = sharing_rows(given), prompts_of(given)
    columns = (rows.shared_tokens, rows.ago, rows.shared_since)
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    assert found == [shared_ago_since(prompts, i) for i in range(len(prompts))]


def test_beginning_that_60_requests_share_has_a_number() -> None:
    """Content 0 is shared by 60 requests after the first, content 1 by 59."""
    contents = [[(content, 8), (next(ids), 4)] for ids in [count(2)] for content in [0] * 61]
    contents += [[(1, 8), (1000 + i, 4)] for i in range(60)]
    rows = sharing_rows(trace(*contents))
    assert Counter(rows.beginning.tolist()) == {1: 60, 0: 61}
    assert rows.beginning[1] == 1


@pytest.mark.parametrize("seed", range(5))
def test_drawn_requests_share_what_their_rows_say(seed: int) -> None:
    """Of all requests but those that the note counts, and no request shares more than its row
    says, token by token."""
    rows = sharing_rows(trace(*random_contents(random.Random(seed), 100)))
    workload = draw(rows, 150, seed)
    prompts = prompts_of(as_trace(workload))
    shared = [shared_ago_since(prompts, i)[0] for i in range(len(prompts))]
    known = Counter(zip(rows.prompt_tokens.tolist(), rows.shared_tokens.tolist(), strict=True))
    drawn = zip(workload.prompt_tokens.tolist(), shared, strict=True)
    strange = sum(pair not in known for pair in drawn)
    num_without = int(workload.notes[0].split()[0]) if workload.notes else 0
    assert strange <= num_without < 15


def test_each_copies_the_one_before_it_if_rows_say_so() -> None:
    """60 tokens of the request before: the first finds none. Its own are the last 40."""
    workload = draw(table((100, 7, 60, 1, 0, 0)), 4)
    assert workload.notes == ("1 request found no earlier prompt to copy: nothing shared",)
    assert [workload.segments(i).token_ids(0, 60) for i in range(1, 4)] == [
        workload.segments(0).token_ids(0, 60)
    ] * 3
    assert as_trace(workload).segments.of(3) == [(0, 60), (3, 40)]  # type: ignore[union-attr]  # it has some


def test_requests_that_share_nothing_have_content_of_their_own() -> None:
    workload = draw(table((10, 3, 0, 0, 0, 0)), 5)
    assert workload.segment_ids.tolist() == list(range(5))
    assert workload.notes == ()


def test_parts_of_the_trace_follow_each_other() -> None:
    """200 rows are two parts; a third hundred of requests is of the first part again."""
    rows = table(*[(10, 1, 0, 0, 0, 0)] * 100, *[(20, 2, 0, 0, 0, 0)] * 100)
    lengths = draw(rows, 300).prompt_tokens.reshape(3, 100)
    assert [set(part.tolist()) for part in lengths] == [{10}, {20}, {10}]


def test_lengths_and_outputs_are_drawn_together() -> None:
    workload = draw(table((10, 1, 0, 0, 0, 0), (20, 2, 0, 0, 0, 0)), 100)
    assert (workload.prompt_tokens == 10 * workload.output_tokens).all()
    assert set(workload.output_tokens.tolist()) == {1, 2}


@pytest.mark.parametrize(
    ("groups", "zipf", "most_points"), [(20, 0.0, 7), (50, 1.0, 6), (200, 0.0, 3)]
)
def test_caches_find_as_much_as_of_groups_with_a_system_prompt(
    groups: int, zipf: float, most_points: float
) -> None:
    """Few popular prompts, popular and rare ones, many rare ones: LRU caches of six sizes.

    Measured with ten seeds: at most 4.9, 4.1 and 1.3 points apart.
    """
    given = as_trace(
        synthetic(
            num_requests=3000,
            seed=5,
            arrivals=Poisson(1),
            unique=Uniform(64, 600),
            outputs=Fixed(3),
            shared=SharedPrefix(groups, Uniform(64, 1024), zipf),
            max_model_len=1_000_000,
        )
    )
    drawn = as_trace(draw(sharing_rows(given), 3000))
    theirs, ours = blocks_of(given), blocks_of(drawn)
    assert theirs is not None
    assert ours is not None
    for size in curve_sizes(theirs):
        before = lru(theirs, size).num_tokens / given.prompt_tokens.sum()
        after = lru(ours, size).num_tokens / drawn.prompt_tokens.sum()
        assert abs(after - before) < most_points / 100, size


_SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", _SEEDS)
def test_caches_find_as_much_of_the_mooncake_trace_as_of_its_fit(data_dir: Path, seed: int) -> None:
    """Measured with ten seeds: at most 1.5 points apart at any size."""
    folder = data_dir / "traces/mooncake_fast25"
    given = read_trace(read_source(folder / "conversation_trace.jsonl.gz"))
    drawn = as_trace(draw(sharing_rows(given), len(given), seed))
    theirs, ours = blocks_of(given), blocks_of(drawn, 512, with_parts=True)
    assert theirs is not None
    assert ours is not None
    totals = given.prompt_tokens.sum(), drawn.prompt_tokens.sum()
    sizes = curve_sizes(theirs)
    before = [
        h.num_tokens / totals[0] for h in (unlimited(theirs), *(lru(theirs, n) for n in sizes))
    ]
    after = [h.num_tokens / totals[1] for h in (unlimited(ours), *(lru(ours, n) for n in sizes))]
    assert np.abs(np.subtract(after, before)).max() < 0.03


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = table((100, 7, 60, 3, 20, 1), (100, 7, 60, 1, 0, 1), (10, 3, 0, 0, 0, 0))
    (tmp_path / "rows.csv").write_text(sharing_rows_csv(rows))
    again = read_sharing_rows(tmp_path / "rows.csv")
    assert np.array_equal(again.columns, rows.columns)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("0,1,0,0,0,0", "prompt_tokens: got '0', expected an integer from 1 to 1000000000"),
        ("5,1,-1,0,0,0", "shared_tokens: got '-1', expected an integer from 0 to 1000000000"),
        ("5,1,6,1,0,0", "shared_tokens: got 6, expected at most prompt_tokens (5)"),
        ("5,1,4,0,0,0", "ago: got 0, expected 1 or more, as something is shared"),
        ("5,1,0,2,0,0", "ago: got 2, expected 0, as nothing is shared"),
        ("5,1,4,2,4,0", "shared_since: got 4, expected less than shared_tokens (4)"),
        ("9,1,4,2,0,7", "shared_tokens: got 4, expected 8, as before of beginning 7"),
    ],
)
def test_rows_that_no_request_can_have(tmp_path: Path, row: str, problem: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{HEADER}\n9,1,8,1,0,7\n{row}\n")
    with pytest.raises(WorkloadError) as error:
        read_sharing_rows(path)
    assert str(error.value) == f"{path}: line 3, column {problem}"
