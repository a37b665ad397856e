"""The allocator against a plain list: one free queue, as vLLM keeps it."""

import copy
import pickle
import random
from collections import Counter

import pytest

from engine.allocator import BlockAllocator


class NaivePool:
    """The same promises, kept the slow and obvious way.

    queue: free blocks, the next to be taken at the head. published: blocks with content.
    tables: the blocks of each holder, in the order of its tokens.
    """

    def __init__(self, num_blocks: int) -> None:
        self.queue = list(range(num_blocks))
        self.published: set[int] = set()
        self.tables: list[list[int]] = []

    @property
    def num_holders(self) -> Counter[int]:
        return Counter(block_id for table in self.tables for block_id in table)

    def num_published(self, table: list[int]) -> int:
        """How many blocks at the head of a table have content; no other has."""
        is_published = [block_id in self.published for block_id in table]
        assert is_published == sorted(is_published, reverse=True)
        return sum(is_published)

    def allocate(self, num_blocks: int) -> tuple[list[int], list[int]]:
        taken = self.queue[:num_blocks]
        evicted = [block_id for block_id in taken if block_id in self.published]
        self.queue = self.queue[num_blocks:]
        self.published -= set(taken)
        return taken, evicted

    def share(self, block_id: int) -> None:
        if block_id in self.queue:
            self.queue.remove(block_id)

    def free(self, table: list[int]) -> None:
        """Content goes to the end, tail first; the rest to the front, to be taken tail first."""
        self.tables.remove(table)
        released = [block_id for block_id in reversed(table) if block_id not in self.num_holders]
        front = [block_id for block_id in released if block_id not in self.published]
        end = [block_id for block_id in released if block_id in self.published]
        self.queue = front + self.queue + end


def assert_same(allocator: BlockAllocator, pool: NaivePool, num_blocks: int) -> None:
    counts = pool.num_holders
    allocator.check(counts)
    assert {block_id: allocator.num_holders(block_id) for block_id in counts} == counts
    assert allocator.num_shared == sum(count > 1 for count in counts.values())
    assert allocator.num_saved == sum(counts.values()) - len(counts)
    assert allocator.num_free == len(pool.queue)
    cached = {block_id for block_id in pool.queue if block_id in pool.published}
    assert allocator.num_cached == len(cached)
    assert {b for b in range(num_blocks) if allocator.num_cached_of([b])} == cached
    # What the whole queue looks like shows in the order in which a copy hands it out.
    assert copy.deepcopy(allocator).allocate(len(pool.queue))[0] == pool.queue


@pytest.mark.parametrize("seed", range(20))
def test_random_walk_keeps_the_order_of_the_free_queue(seed):
    """Allocations, shares and releases in any order leave the queue as the plain list has it."""
    rng = random.Random(seed)
    num_blocks = rng.randint(1, 12)
    allocator, pool = BlockAllocator(num_blocks), NaivePool(num_blocks)
    for _ in range(150):
        if pool.tables and rng.random() < 0.45:
            table = rng.choice(pool.tables)
            for block_id in table[: rng.randint(0, len(table))]:
                pool.published.add(block_id)
            allocator.free(table, num_kept=pool.num_published(table))
            pool.free(table)
        else:
            shared = sorted(pool.published)[: rng.randint(0, 3)]
            allocator.share(shared)
            for block_id in shared:
                pool.share(block_id)
            num_new = rng.randint(0, len(pool.queue))
            expected = pool.allocate(num_new)
            assert allocator.allocate(num_new) == expected
            pool.tables.append(shared + expected[0])
        assert_same(allocator, pool, num_blocks)


def test_new_pool_hands_out_ascending_ids():
    assert BlockAllocator(4).allocate(3) == ([0, 1, 2], [])


def test_empty_blocks_come_back_tail_first():
    """Of a freed table without content the tail is used again first, before all others."""
    allocator = BlockAllocator(5)
    table, _ = allocator.allocate(3)
    allocator.free(table, num_kept=0)
    assert allocator.allocate(5) == ([2, 1, 0, 3, 4], [])


def test_cached_blocks_are_evicted_last_and_tail_first():
    """Blocks 0 and 1 keep content, 2 is partly filled: 2 is reused first, then the untouched 3."""
    allocator = BlockAllocator(4)
    table, _ = allocator.allocate(3)
    allocator.free(table, num_kept=2)
    assert allocator.allocate(4) == ([2, 3, 1, 0], [1, 0])


def test_block_of_another_holder_stays():
    allocator = BlockAllocator(3)
    table, _ = allocator.allocate(2)
    allocator.share([0])
    assert (allocator.num_holders(0), allocator.num_shared, allocator.num_saved) == (2, 1, 1)
    allocator.free(table, num_kept=1)
    allocator.check({0: 1})
    assert allocator.num_holders(0) == 1
    assert allocator.num_free == 2
    assert allocator.num_shared == 0


def test_hit_takes_a_cached_block_out_of_the_queue():
    allocator = BlockAllocator(2)
    table, _ = allocator.allocate(2)
    allocator.free(table, num_kept=2)
    allocator.share([1])
    assert allocator.allocate(1) == ([0], [0])


def test_failed_allocation_changes_nothing():
    allocator = BlockAllocator(4)
    table, _ = allocator.allocate(3)
    allocator.free(table[1:], num_kept=1)
    before = pickle.dumps(allocator)
    with pytest.raises(ValueError, match="4 blocks asked for, 3 are free"):
        allocator.allocate(4)
    assert pickle.dumps(allocator) == before


# What is done to an allocator of 4 blocks, of which 0 and 1 are held once each; who is said to
# hold what afterwards.
DAMAGE = {
    "held, counted as free": (lambda allocator: allocator.free([0], num_kept=0), {0: 1, 1: 1}),
    "free, counted as held": (lambda allocator: allocator.allocate(1), {0: 1, 1: 1}),
    "let go twice": (lambda allocator: allocator.free([0, 0], num_kept=0), {1: 1}),
    "let go, said to be kept": (
        lambda allocator: allocator.free([0], num_kept=1),
        {0: 1, 1: 1},
    ),
    "shared by nobody": (lambda allocator: allocator.share([0]), {0: 1, 1: 1}),
    "shared by more": (lambda allocator: allocator.share([0]), {0: 3, 1: 1}),
    "shared, counted once": (lambda allocator: None, {0: 2, 1: 1}),
}


@pytest.mark.parametrize(("damage", "num_holders"), DAMAGE.values(), ids=DAMAGE)
def test_check_finds_damage(damage, num_holders):
    allocator = BlockAllocator(4)
    allocator.allocate(2)
    allocator.check({0: 1, 1: 1})
    damage(allocator)
    with pytest.raises(AssertionError):
        allocator.check(num_holders)
