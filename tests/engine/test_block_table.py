"""Logical positions to physical slots."""

import random

import pytest

from engine.block_table import BlockTable


def filled_table(block_size: int, num_tokens: int, seed: int = 0) -> BlockTable:
    """A table of scattered blocks with one more than it needs."""
    table = BlockTable(block_size)
    num_blocks = -(-num_tokens // block_size) + 1
    table.block_ids = random.Random(seed).sample(range(100), num_blocks)
    table.num_tokens = num_tokens
    return table


@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_every_position_comes_back_from_its_slot(block_size):
    """The slot alone tells the position: which block of the table it is in, and how far in it."""
    for num_tokens in range(3 * block_size + 2):
        table = filled_table(block_size, num_tokens)
        for position in range(num_tokens):
            block_id, offset = table.locate(position)
            assert 0 <= offset < block_size
            assert table.block_ids.index(block_id) * block_size + offset == position


def test_worked_example():
    """Block size 4, blocks [7, 2], 6 tokens: position 5 is the second slot of block 2."""
    table = BlockTable(4)
    table.block_ids = [7, 2]
    table.num_tokens = 6
    assert [table.locate(p) for p in (0, 3, 4, 5)] == [(7, 0), (7, 3), (2, 0), (2, 1)]


@pytest.mark.parametrize("position", [-1, 6, 7, 8, 100])
def test_position_that_is_not_filled_is_an_error(position):
    """Neither a slot that is held but empty nor one counted from the end is given out."""
    with pytest.raises(IndexError, match=f"position {position} .* holds 6"):
        filled_table(4, 6).locate(position)
