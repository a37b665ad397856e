"""The buddy allocator against a plain map of the pool, and by hand."""

import random

import pytest

from engine.buddy import BuddyAllocator


class BitmapPool:
    """A block for each place, held or not; holes are looked up by going over all of it."""

    def __init__(self, num_blocks: int) -> None:
        self.is_held = [False] * num_blocks

    def allocate(self, num_blocks: int) -> int | None:
        """Of the places that start at a multiple of the size, the first of the smallest holes."""
        size = 1
        while size < num_blocks:
            size *= 2
        hole = size
        while hole <= len(self.is_held):
            for start in range(0, len(self.is_held) - hole + 1, hole):
                if self.is_hole(start, hole):
                    self.hold(start, size, True)
                    return start
            hole *= 2
        return None

    def is_hole(self, start: int, size: int) -> bool:
        """Whether it is free, and not half of a larger hole."""
        if any(self.is_held[start : start + size]):
            return False
        buddy = start ^ size
        has_buddy = buddy + size <= len(self.is_held)
        return not has_buddy or any(self.is_held[buddy : buddy + size])

    def hold(self, start: int, size: int, is_held: bool) -> None:
        self.is_held[start : start + size] = [is_held] * size


@pytest.mark.parametrize("num_blocks", [1, 2, 7, 8, 13, 64, 100, 127, 128])
def test_runs_are_those_of_a_bitmap(num_blocks):
    """A random walk: the same first blocks, the same refusals, the same free blocks."""
    rng = random.Random(num_blocks)
    buddy, bitmap = BuddyAllocator(num_blocks), BitmapPool(num_blocks)
    runs: dict[int, int] = {}
    for _ in range(1_500):
        if runs and rng.random() < 0.48:
            start = rng.choice(list(runs))
            wanted = runs.pop(start)
            buddy.free(start, wanted)
            bitmap.hold(start, buddy.size_of(wanted), False)
        else:
            wanted = min(1 + int(rng.expovariate(8 / num_blocks)), num_blocks)
            start = buddy.allocate(wanted)
            assert start == bitmap.allocate(wanted)
            if start is not None:
                runs[start] = wanted
        buddy.check(runs)
        assert buddy.num_free == bitmap.is_held.count(False)
    for start, wanted in runs.items():
        buddy.free(start, wanted)
    buddy.check({})


def test_a_hole_is_halved_until_it_fits_and_whole_again_by_hand():
    """16 blocks: 3 take 0-3 of 0-7, 1 takes 4 of 4-7, 5 take 8-15."""
    buddy = BuddyAllocator(16)
    assert [buddy.allocate(n) for n in (3, 1, 5)] == [0, 4, 8]
    assert buddy.num_free == 3  # 5 and 6-7
    assert buddy.allocate(3) is None
    assert [buddy.num_free_for(n) for n in (1, 2, 3)] == [3, 2, 0]
    buddy.free(4, 1)
    assert buddy.allocate(4) == 4
    buddy.free(0, 3)
    buddy.free(4, 4)
    assert buddy.num_free_for(8) == 8
    buddy.free(8, 5)
    assert buddy.num_free_for(16) == 16


def test_a_pool_that_is_no_power_of_two_is_several():
    """13 = 8 + 4 + 1."""
    buddy = BuddyAllocator(13)
    assert (buddy.num_free_for(8), buddy.num_free_for(4)) == (8, 12)
    assert [buddy.allocate(n) for n in (1, 4, 8, 1)] == [12, 8, 0, None]
