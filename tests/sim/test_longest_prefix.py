"""Longest prefix first on batches that share prefixes as a tree does, against the best order."""

import random

import numpy as np
import pytest

from workloads import Workload

Leaf = list[tuple[int, int]]  # its segments, those of the branches first


def tree(rng: random.Random, depth: int = 4, branches: int = 3) -> list[Leaf]:
    """Requests depth first: each is the path from the root to a leaf."""
    leaves: list[Leaf] = [[]]
    num_ids = 0
    for _ in range(depth):
        grown = []
        for path in leaves:
            for _ in range(branches):
                grown.append([*path, (num_ids, rng.randint(20, 100))])
                num_ids += 1
        leaves = grown
    return leaves


def best_hits(leaves: list[Leaf]) -> int:
    """Every edge is computed once and is a hit for all others below it."""
    distinct = {segment for leaf in leaves for segment in leaf}
    num_all = sum(num_tokens for leaf in leaves for _, num_tokens in leaf)
    return num_all - sum(num_tokens for _, num_tokens in distinct)


def batch(leaves: list[Leaf]) -> Workload:
    """All at once, with one token of output each."""
    ones = np.ones(len(leaves), np.int64)
    segments = np.array([segment for leaf in leaves for segment in leaf], np.int64)
    return Workload(
        arrival_ns=0 * ones,
        closed_loop=None,
        prompt_tokens=np.array([sum(num for _, num in leaf) for leaf in leaves]),
        output_tokens=ones,
        max_new_tokens=ones,
        segment_offsets=np.cumsum([0, *map(len, leaves)]),
        segment_ids=segments[:, 0].copy(),
        segment_tokens=segments[:, 1].copy(),
        answer_ids=10_000 + np.arange(len(leaves)),
    )


@pytest.fixture
def hits(serve):
    """Tokens that come from a cache of `num_blocks` tokens; prompts alone, 512 tokens a step."""

    def served(leaves: list[Leaf], policy: str, num_blocks: int) -> int:
        records = serve(
            batch(leaves),
            policy=policy,
            num_blocks=num_blocks,
            enable_prefix_caching=True,
            block_size=1,
            max_model_len=512,
            max_num_batched_tokens=512,
            mixed_batches=False,
            enable_chunked_prefill=False,
        )
        return int(records.requests["cached_tokens"].sum())

    return served


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("room", [1.0, 1.5, 2.0, 4.0])
def test_longest_prefix_first_is_nearly_the_best_order(hits, seed, room):
    """With a cache of one to four of the longest requests. Depth first is the best there is."""
    rng = random.Random(seed)
    leaves = tree(rng)
    best = best_hits(leaves)
    num_blocks = int(room * max(sum(num for _, num in leaf) for leaf in leaves))
    assert hits(leaves, "fcfs", num_blocks) == best
    rng.shuffle(leaves)
    assert 0.97 * best < hits(leaves, "lpm", num_blocks) <= best
    assert hits(leaves, "fcfs", num_blocks) < 0.75 * best


def test_any_order_is_the_best_where_all_fits(hits):
    leaves = tree(random.Random(1))
    best, num_blocks = best_hits(leaves), 40_000
    random.Random(2).shuffle(leaves)
    assert hits(leaves, "fcfs", num_blocks) == hits(leaves, "lpm", num_blocks) == best
