"""What caches find, against caches written down as lists, and by hand."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from workloads import read_source, read_trace
from workloads.sharing import Blocks, Hits, blocks_of, curve_sizes, lfu, lru, optimum, unlimited
from workloads.trace import Rows, Trace, trace_from_rows


def trace(*contents: list[tuple[int, int]], block_tokens: int) -> Trace:
    """Requests with these segments, a second apart."""
    num = len(contents)
    tokens = [sum(tokens for _, tokens in content) for content in contents]
    rows = Rows(
        time_ns=np.arange(num, dtype=np.int64) * 10**9,
        prompt_tokens=np.array(tokens, dtype=np.int64),
        output_tokens=np.ones(num, dtype=np.int64),
        lines=list(range(1, num + 1)),
        contents=contents,
        block_tokens=block_tokens,
    )
    return trace_from_rows(rows, format="mooncake")


def found(contents: Blocks | None) -> Blocks:
    assert contents is not None
    return contents


def test_blocks_of_the_trace_are_told_apart_by_what_is_before_them() -> None:
    """Block 7 after 1 is not block 7 after 2; the last of the first prompt is a part."""
    blocks = found(
        blocks_of(trace([(1, 8), (7, 3)], [(2, 8), (7, 8)], [(1, 8), (7, 3)], block_tokens=8))
    )
    assert blocks.ids == [[0, 1], [2, 3], [0, 1]]
    assert blocks.tokens == [8, 3, 8, 8]
    assert unlimited(blocks) == Hits(2, 11)


def test_blocks_of_another_size_are_whole_ones() -> None:
    """Prompts of 11 and 16 tokens have two and four blocks of 4; they part after 8 tokens."""
    blocks = found(blocks_of(trace([(1, 8), (7, 3)], [(1, 8), (9, 8)], block_tokens=8), 4))
    assert blocks.ids == [[0, 1], [0, 1, 2, 3]]
    assert blocks.tokens == [4, 4, 4, 4]


def test_trace_that_knows_every_token_has_blocks_of_16() -> None:
    blocks = found(blocks_of(trace([(1, 20), (2, 13)], block_tokens=1)))
    assert (blocks.block_size, blocks.num_blocks) == (16, 2)


def test_least_recently_used_by_hand() -> None:
    """Three prompts of two blocks in a cache of three: the tail of the first is lost, then found no
    more; its head is."""
    blocks = Blocks([[0, 1], [2, 3], [0, 1]], [4] * 4, 4)
    assert lru(blocks, 3) == Hits(1, 4)
    assert lru(blocks, 4) == Hits(2, 8)


def random_blocks(rng: random.Random) -> Blocks:
    """Prompts as paths in a tree, often the same."""
    children: dict[tuple[int, int], int] = {}
    numbers = itertools.count()
    all_ids = []
    for _ in range(rng.randint(5, 25)):
        ids, before = [], -1
        for _ in range(rng.randint(1, 5)):
            key = (before, rng.randint(0, 1))
            if key not in children:
                children[key] = next(numbers)
            before = children[key]
            ids.append(before)
        all_ids.append(ids)
    return Blocks(all_ids, [rng.randint(1, 9) for _ in children], 9)


def listed(blocks: Blocks, size: int, worst: str) -> tuple[Hits, list[list[bool]]]:
    """A cache as a list that is searched anew each time for what to lose."""
    cache: list[int] = []
    uses = dict.fromkeys(range(len(blocks.tokens)), 0)
    last_use: dict[int, int] = {}
    hits, time, was_there = [], 0, []
    for number, ids in enumerate(blocks.ids):
        was_there.append([block in cache for block in ids])
        hits += [block for block in ids if block in cache]
        for block in reversed(ids):
            time += 1
            uses[block] += 1
            last_use[block] = time
            cache = [*(other for other in cache if other != block), block]
        later = blocks.ids[number + 1 :]

        def wanted(block: int, later: list[list[int]] = later) -> int:
            return next((i for i, ids in enumerate(later) if block in ids), 10**6)

        def rank(block: int) -> tuple[int, int]:
            first = {"lru": 0, "lfu": uses[block], "optimum": -wanted(block)}[worst]
            return first, last_use[block]

        while len(cache) > size:
            cache.remove(min(cache, key=rank))
    return Hits(len(hits), sum(blocks.tokens[block] for block in hits)), was_there


@pytest.mark.parametrize("policy", [lru, lfu, optimum], ids=lambda p: p.__name__)
@pytest.mark.parametrize("seed", range(40))
def test_policies_are_those_of_a_list(seed: int, policy) -> None:
    rng = random.Random(seed)
    blocks = random_blocks(rng)
    size = rng.randint(1, blocks.num_distinct + 2)
    expected, was_there = listed(blocks, size, policy.__name__)
    assert policy(blocks, size) == expected
    # What is found is always the beginning of a prompt: no block without those before it.
    assert all(row == sorted(row, reverse=True) for row in was_there)


@pytest.mark.parametrize("seed", range(20))
def test_optimum_finds_most_and_a_cache_of_all_finds_all(seed: int) -> None:
    rng = random.Random(seed)
    blocks = random_blocks(rng)
    for size in (1, 2, 3, 5, 8):
        best = optimum(blocks, size).num_blocks
        assert best >= max(lru(blocks, size).num_blocks, lfu(blocks, size).num_blocks)
    for policy in (lru, lfu, optimum):
        assert policy(blocks, blocks.num_distinct) == unlimited(blocks)


def test_sizes_go_up_to_all_there_is() -> None:
    blocks = Blocks([list(range(1000))], [1] * 1000, 1)
    assert curve_sizes(blocks) == [4, 11, 33, 103, 320, 1000]


def test_mooncake_as_it_was_counted(data_dir: Path) -> None:
    path = data_dir / "traces/mooncake_fast25/conversation_trace.jsonl.gz"
    blocks = found(blocks_of(read_trace(read_source(path))))
    assert (unlimited(blocks).num_blocks, blocks.num_blocks) == (105_710, 288_500)
