"""Paged attention against loops over tokens, heads and positions; the index arrays by hand."""

import math

import numpy as np
import pytest

from engine.attention import paged_attention
from engine.batch import StepBatch
from engine.kv_pool import FloatArray, KVPool
from engine.request import Request, TokenPrompt
from engine.sequence import Sequence
from engine.step import Chunk

NUM_BLOCKS = 64


def chunks_on_permuted_blocks(
    spans: list[tuple[int, int]], block_size: int, rng: np.random.Generator
) -> list[Chunk]:
    """One sequence for each span (start, num_tokens), holding blocks in random order."""
    free = rng.permutation(NUM_BLOCKS).tolist()
    chunks = []
    for request_id, (start, num_tokens) in enumerate(spans):
        length = start + num_tokens
        tokens = rng.integers(0, 256, length).tolist()
        seq = Sequence(Request(request_id, TokenPrompt(tokens), 8), block_size, 4096)
        seq.block_table.block_ids = [free.pop() for _ in range(math.ceil(length / block_size))]
        seq.block_table.num_tokens = length
        chunks.append(Chunk(seq, start, num_tokens, samples=True))
    return chunks


def attention_of_one_token(q: FloatArray, pool: KVPool, seq: Sequence, position: int) -> FloatArray:
    """Outputs [num_heads, head_size] for q of the same shape, in float64, layer 0."""
    num_heads, head_size = q.shape
    share = num_heads // pool.keys.shape[2]
    out = np.zeros((num_heads, head_size))
    for head in range(num_heads):
        scores = []
        values = []
        for seen in range(position + 1):
            block_id, offset = seq.block_table.locate(seen)
            slot = block_id * pool.block_size + offset
            key = pool.keys[0, slot, head // share].astype(np.float64)
            scores.append(float(q[head] @ key) / math.sqrt(head_size))
            values.append(pool.values[0, slot, head // share])
        exponentials = [math.exp(score - max(scores)) for score in scores]
        for weight, value in zip(exponentials, values, strict=True):
            out[head] += weight / sum(exponentials) * value
    return out


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(2, 2), (4, 2), (4, 1)])
def test_equals_a_loop_over_positions(block_size: int, num_heads: int, num_kv_heads: int) -> None:
    """Decodes and prefill chunks of several lengths and contexts, in one step."""
    rng = np.random.default_rng([block_size, num_heads, num_kv_heads])
    spans = [(4, 1), (0, 5), (0, 1), (2, 3), (9, 1), (0, 3), (6, 5)]
    chunks = chunks_on_permuted_blocks(spans, block_size, rng)
    batch = StepBatch(chunks, block_size)
    pool = KVPool(
        num_layers=1,
        num_blocks=NUM_BLOCKS,
        block_size=block_size,
        num_kv_heads=num_kv_heads,
        head_size=8,
    )
    pool.keys[:] = rng.standard_normal(pool.keys.shape)  # every slot, also those nobody holds
    pool.values[:] = rng.standard_normal(pool.values.shape)
    q = 3 * rng.standard_normal((len(batch.token_ids), num_heads, 8), np.float32)

    out = paged_attention(q, pool, 0, batch.groups)

    for chunk, last_row in zip(chunks, batch.sample_rows, strict=True):
        for back in range(chunk.num_tokens):
            position = chunk.start + chunk.num_tokens - 1 - back
            expected = attention_of_one_token(q[last_row - back], pool, chunk.seq, position)
            np.testing.assert_allclose(out[last_row - back], expected, atol=1e-5, rtol=0)


def test_huge_scores_do_not_overflow() -> None:
    """With one score far above the others the output is that position's value."""
    chunks = chunks_on_permuted_blocks([(2, 1)], 1, np.random.default_rng(0))
    pool = KVPool(num_layers=1, num_blocks=NUM_BLOCKS, block_size=1, num_kv_heads=1, head_size=2)
    slots = [chunks[0].seq.block_table.locate(position)[0] for position in range(3)]
    pool.keys[0, slots, 0] = [[-1e4, 0], [1e4, 0], [0, 0]]
    pool.values[0, slots, 0] = [[1, 2], [3, 4], [5, 6]]
    q = np.full((1, 1, 2), 1e4, np.float32)

    out = paged_attention(q, pool, 0, StepBatch(chunks, 1).groups)

    assert out.tolist() == [[[3, 4]]]


def test_index_arrays_of_a_small_step() -> None:
    """A decode at position 2, a prefill of 2 tokens, a decode at position 3; block_size 2."""
    chunks = []
    for request_id, (start, num_tokens, block_ids) in enumerate(
        [(2, 1, [5, 3]), (0, 2, [4]), (3, 1, [0, 6])]
    ):
        tokens = [10 * request_id + position for position in range(start + num_tokens)]
        seq = Sequence(Request(request_id, TokenPrompt(tokens), 8), 2, 64)
        seq.block_table.block_ids = block_ids
        chunks.append(Chunk(seq, start, num_tokens, samples=request_id != 0))

    batch = StepBatch(chunks, 2)

    # groups, in order of appearance: (1 token, context 2-3), (2 tokens), (1 token, context 4-7)
    assert batch.token_ids.tolist() == [2, 10, 11, 23]
    assert batch.positions.tolist() == [2, 0, 1, 3]
    assert batch.slots.tolist() == [6, 8, 9, 13]
    assert batch.sample_rows.tolist() == [2, 3]
    assert [group.rows for group in batch.groups] == [slice(0, 1), slice(1, 3), slice(3, 4)]
    assert [group.block_tables.tolist() for group in batch.groups] == [[[5, 3]], [[4]], [[0, 6]]]
    assert batch.groups[1].mask.tolist() == [[[0, -math.inf], [0, 0]]]


def test_one_long_context_does_not_pad_the_short_ones() -> None:
    """40 decodes of context 10 and one of 301: padded together they would read 41 * 301 keys."""
    rng = np.random.default_rng(0)
    chunks = chunks_on_permuted_blocks([(9, 1)] * 40 + [(300, 1)], 16, rng)

    reads = sum(group.mask.size for group in StepBatch(chunks, 16).groups)

    assert reads == 40 * 10 + 301


def test_sample_rows_follow_the_chunks_not_the_groups() -> None:
    chunks = chunks_on_permuted_blocks(
        [(4, 1), (0, 3), (5, 1), (0, 3)], 4, np.random.default_rng(0)
    )

    batch = StepBatch(chunks, 4)

    assert batch.positions[batch.sample_rows].tolist() == [4, 2, 5, 2]
    assert batch.sample_rows.tolist() == [0, 4, 1, 7]


def test_a_chunk_beyond_its_blocks_is_caught() -> None:
    chunks = chunks_on_permuted_blocks([(4, 1)], 4, np.random.default_rng(0))
    chunks[0].seq.block_table.block_ids.pop()

    with pytest.raises(AssertionError, match="beyond its blocks"):
        StepBatch(chunks, 4)
