"""Which cached block loses its content first: each order against a plain list of free blocks."""

import copy
import pickle
import random
from collections import Counter

import pytest

from engine.allocator import BlockAllocator
from engine.config import ConfigError, EngineConfig
from engine.eviction import EVICTION
from engine.request import Request, TokenPrompt
from engine.sequence import Sequence


class NaivePool:
    """The same promises, kept the slow and obvious way.

    free: blocks nobody holds; those without content in front, the next to be taken at the head,
    then those with content in the order of their release.
    """

    def __init__(self, num_blocks: int, eviction: str) -> None:
        self.eviction = eviction
        self.free = list(range(num_blocks))
        self.published: set[int] = set()
        self.tables: list[list[int]] = []
        self.num_hits = [0] * num_blocks
        self.history: list[int] = []  # every block ever taken, in order

    def next(self) -> int:
        if self.free[0] not in self.published or self.eviction == "lru":
            return self.free[0]
        if self.eviction == "lfu":
            return min(self.free, key=lambda b: (self.num_hits[b], self.free.index(b)))
        last_taken = {block_id: i for i, block_id in enumerate(self.history)}
        return min(self.free, key=lambda b: last_taken[b])

    def allocate(self, num_blocks: int) -> tuple[list[int], list[int]]:
        taken, evicted = [], []
        for _ in range(num_blocks):
            block_id = self.next()
            self.free.remove(block_id)
            taken.append(block_id)
            if block_id in self.published:
                self.published.remove(block_id)
                evicted.append(block_id)
            self.num_hits[block_id] = 0
        self.history += taken
        return taken, evicted

    def share(self, block_id: int) -> None:
        self.num_hits[block_id] += 1
        if block_id in self.free:
            self.free.remove(block_id)

    def release(self, table: list[int]) -> None:
        self.tables.remove(table)
        held = {block_id for other in self.tables for block_id in other}
        released = [block_id for block_id in reversed(table) if block_id not in held]
        front = [block_id for block_id in released if block_id not in self.published]
        end = [block_id for block_id in released if block_id in self.published]
        self.free = front + self.free + end

    def num_published(self, table: list[int]) -> int:
        """How many blocks at the head of a table have content; no other has."""
        is_published = [block_id in self.published for block_id in table]
        assert is_published == sorted(is_published, reverse=True)
        return sum(is_published)

    def drained(self) -> tuple[list[int], list[int]]:
        """What a copy hands out until nothing is left."""
        return copy.deepcopy(self).allocate(len(self.free))


@pytest.mark.parametrize("eviction", EVICTION)
@pytest.mark.parametrize("seed", range(25))
def test_random_walk_evicts_like_a_plain_list(seed, eviction):
    """Allocations, hits and releases in any order; hits favour few blocks: their counts differ."""
    rng = random.Random(seed)
    num_blocks = rng.randint(1, 14)
    allocator, pool = BlockAllocator(num_blocks, eviction), NaivePool(num_blocks, eviction)
    for _ in range(150):
        if pool.tables and rng.random() < 0.5:
            table = rng.choice(pool.tables)
            pool.published |= set(table[: rng.randint(0, len(table))])
            allocator.free(table, num_kept=pool.num_published(table))
            pool.release(table)
        else:
            shared = sorted(pool.published)[: rng.choice([0, 1, 1, 2, 5])]
            allocator.share(shared)
            for block_id in shared:
                pool.share(block_id)
            num_new = rng.randint(0, max(len(pool.free) // 2, 1)) if pool.free else 0
            taken, evicted = pool.allocate(num_new)
            assert allocator.allocate(num_new) == (taken, evicted)
            pool.tables.append(shared + taken)
        allocator.check(Counter(block_id for table in pool.tables for block_id in table))
        assert allocator.num_free == len(pool.free)
        cached = set(pool.free) & pool.published
        assert allocator.num_cached == len(cached)
        assert {b for b in range(num_blocks) if allocator.num_cached_of([b])} == cached
        # The whole order shows in how a copy hands the blocks out.
        assert copy.deepcopy(allocator).allocate(len(pool.free)) == pool.drained()


def test_lru_is_what_an_allocator_does_unless_told_otherwise():
    """Released 1, then 0 with its tail 2: the default evicts in that order, and so does lru."""
    for allocator in (BlockAllocator(3), BlockAllocator(3, "lru")):
        for _ in range(3):
            allocator.allocate(1)
        allocator.free([1], num_kept=1)
        allocator.free([0, 2], num_kept=2)
        assert allocator.allocate(3) == ([1, 2, 0], [1, 2, 0])
    assert EngineConfig().eviction == "lru"


def cached_three(eviction: str) -> BlockAllocator:
    """Blocks 0, 1 and 2, taken in this order and cached; released in the order 1, 0, 2.

    Hits since they were filled: 0 and 1 two each, 2 one.
    """
    allocator = BlockAllocator(3, eviction)
    for _ in range(3):
        (block_id,), _ = allocator.allocate(1)
        allocator.free([block_id], num_kept=1)
    for block_id in (1, 1, 0, 0, 2):
        allocator.share([block_id])
        allocator.free([block_id], num_kept=1)
    return allocator


@pytest.mark.parametrize(
    ("eviction", "order"), [("lru", [1, 0, 2]), ("lfu", [2, 1, 0]), ("fifo", [0, 1, 2])]
)
def test_orders_differ(eviction, order):
    """lru by the last release, lfu the least hit and of equals by release, fifo by the filling."""
    assert cached_three(eviction).allocate(3) == (order, order)


def test_lfu_forgets_the_hits_of_the_content_that_is_gone():
    """2 goes first; filled again and never hit it is the first to go once more, though released
    last."""
    allocator = cached_three("lfu")
    assert allocator.allocate(1) == ([2], [2])
    allocator.free([2], num_kept=1)
    assert allocator.allocate(3) == ([2, 1, 0], [2, 1, 0])


def test_fifo_counts_from_the_last_filling():
    allocator = cached_three("fifo")
    assert allocator.allocate(1) == ([0], [0])
    allocator.free([0], num_kept=1)
    assert allocator.allocate(3) == ([1, 2, 0], [1, 2, 0])


@pytest.mark.parametrize("eviction", EVICTION)
def test_blocks_without_content_go_before_any_with(eviction):
    """Of four blocks 0 and 2 keep content; 1, then 3, which was never used, go first."""
    allocator = BlockAllocator(4, eviction)
    allocator.allocate(3)
    allocator.free([0], num_kept=1)
    allocator.free([1], num_kept=0)
    allocator.free([2], num_kept=1)
    assert allocator.allocate(2) == ([1, 3], [])


@pytest.mark.parametrize("eviction", EVICTION)
def test_block_that_is_held_again_is_not_evicted(eviction):
    allocator = BlockAllocator(3, eviction)
    table, _ = allocator.allocate(3)
    allocator.free(table, num_kept=3)
    allocator.share([1])
    taken, evicted = allocator.allocate(2)
    assert sorted(taken) == sorted(evicted) == [0, 2]
    with pytest.raises(ValueError, match="1 blocks asked for, 0 are free"):
        allocator.allocate(1)


@pytest.mark.parametrize("eviction", EVICTION)
def test_hits_while_others_hold_the_block_count(eviction):
    """Block 0 is hit three times by two more holders at once, block 1 twice one after the other.

    Released 0, then 1: lru and fifo take 0 first, lfu takes 1.
    """
    allocator = BlockAllocator(2, eviction)
    allocator.allocate(1)
    allocator.allocate(1)
    for block_id, num_hits in ((0, 3), (1, 2)):
        for _ in range(num_hits):
            allocator.share([block_id])
        for _ in range(num_hits + 1):
            allocator.free([block_id], num_kept=1)
    assert allocator.allocate(1)[0] == ([1] if eviction == "lfu" else [0])


def size_after(eviction: str, num_rounds: int) -> int:
    """Bytes of an allocator of two blocks that have been hit and released so many times."""
    allocator = BlockAllocator(2, eviction)
    table, _ = allocator.allocate(2)
    allocator.free(table, num_kept=2)
    for _ in range(num_rounds):
        allocator.share(table)
        allocator.free(table, num_kept=2)
    return len(pickle.dumps(allocator))


@pytest.mark.parametrize("eviction", ["lru", "lfu", "fifo"])
def test_memory_does_not_grow_with_the_number_of_hits(eviction):
    """A pool with room for all it is asked never evicts, and may be hit for ever."""
    assert size_after(eviction, 3000) < 2 * size_after(eviction, 300)


@pytest.mark.parametrize(
    ("eviction", "lost"), [("lru", "b"), ("lfu", "c"), ("fifo", "a")], ids=EVICTION
)
def test_engine_evicts_in_the_order_of_its_config(new_world, eviction, lost):
    """Three prompts of one full block each are cached in a pool of 4; then b and a are hit twice
    each, c once. A fourth prompt takes the empty block and one of theirs."""
    world = new_world(num_blocks=4, enable_prefix_caching=True, eviction=eviction)
    prompts = {"a": [1, 2, 9], "b": [3, 4, 9], "c": [5, 6, 9], "d": [7, 8, 9]}
    for number, name in enumerate("abcbbaac"):
        seq = world.add(f"{name}{number}", prompts[name], 1)
        world.run()
        assert seq.num_cached_tokens == (0 if number < 3 else 2)
    world.add("d", prompts["d"], 1)
    world.run()
    for name in "abc":
        probe = Sequence(Request("probe", TokenPrompt(prompts[name]), 1), 2, 32)
        assert (world.engine.kv.cached_prefix(probe) == []) == (name == lost), name


def test_eviction_is_one_of_three():
    with pytest.raises(ConfigError, match="eviction: got 'mru', expected lru or lfu or fifo"):
        EngineConfig(eviction="mru")
