"""The index arrays of one step, built once and used by every layer.

The rows of a batch are the step's tokens, but not in the order of its chunks: chunks of equal
length stand together, so that attention sees each such group as one dense array.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from engine.kv_pool import FloatArray, IntArray
from engine.step import Chunk


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """Chunks of equal length, padded to the longest context among them.

    rows: where their tokens stand in the batch, chunk after chunk.
    block_tables: [chunks, blocks], padded with block 0.
    mask: [chunks, tokens per chunk, context], added to the scores: 0 where a token may look, -inf
        at later positions and in the padding.
    """

    rows: slice
    block_tables: IntArray
    mask: FloatArray


class StepBatch:
    """All tokens of a step as one ragged batch.

    chunks: at least one; every sequence holds the blocks of its chunk and of all before it.
    token_ids, positions, slots: [tokens], what to feed, its place in the sequence, and the slot
        of the pool that takes its keys and values.
    groups: the same rows as dense pieces, for attention.
    sample_rows: the row of the last token of each chunk that samples, in the order of the chunks;
        a chunk of no tokens, of a sequence that forks, samples from the one that it forks from.
    """

    def __init__(self, chunks: list[Chunk], block_size: int) -> None:
        token_ids: list[int] = []
        positions: list[IntArray] = []
        slots: list[IntArray] = []
        last_rows = [0] * len(chunks)
        self.groups: list[ChunkGroup] = []
        for members in _group(chunks):
            first_row = len(token_ids)
            for index in members:
                seq, start, num_tokens, _ = chunks[index]
                token_ids += seq.token_ids(start, start + num_tokens)
                last_rows[index] = len(token_ids) - 1
            group_chunks = [chunks[index] for index in members]
            tables = _block_tables(group_chunks, block_size)
            group_positions = _positions(group_chunks)
            positions.append(group_positions.ravel())
            slots.append(_slots(tables, group_positions, block_size).ravel())
            rows = slice(first_row, len(token_ids))
            self.groups.append(ChunkGroup(rows, tables, _causal_mask(group_positions)))
        for index, forked_at in _forked(chunks).items():
            last_rows[index] = last_rows[forked_at]
        self.token_ids: IntArray = np.array(token_ids, np.int64)
        self.positions: IntArray = np.concatenate(positions)
        self.slots: IntArray = np.concatenate(slots)
        self.sample_rows: IntArray = np.array(
            [row for row, chunk in zip(last_rows, chunks, strict=True) if chunk.samples], np.int64
        )


def _group(chunks: list[Chunk]) -> list[list[int]]:
    """Indices of the chunks, those of equal length and similar context together.

    Similar contexts have equal bit lengths, so padding at most doubles the work of a group.
    """
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for index, (_, start, num_tokens, _) in enumerate(chunks):
        if num_tokens:
            groups[num_tokens, (start + num_tokens).bit_length()].append(index)
    return list(groups.values())


def _forked(chunks: list[Chunk]) -> dict[int, int]:
    """Indices of the chunks without tokens -> those of the chunks they fork from."""
    indices = {chunk.seq: index for index, chunk in enumerate(chunks)}
    return {
        index: indices[chunk.seq.outputs[0]]
        for index, chunk in enumerate(chunks)
        if not chunk.num_tokens
    }


def _positions(chunks: list[Chunk]) -> IntArray:
    starts = np.array([chunk.start for chunk in chunks], np.int64)
    return starts[:, None] + np.arange(chunks[0].num_tokens)  # [chunks, tokens]


def _block_tables(chunks: list[Chunk], block_size: int) -> IntArray:
    num_blocks = [-(-(chunk.start + chunk.num_tokens) // block_size) for chunk in chunks]
    tables = np.zeros((len(chunks), max(num_blocks)), np.int64)
    for row, (chunk, count) in enumerate(zip(chunks, num_blocks, strict=True)):
        block_ids = chunk.seq.block_table.block_ids
        assert len(block_ids) >= count, "a chunk is scheduled beyond its blocks"
        tables[row, :count] = block_ids[:count]
    return tables


def _slots(tables: IntArray, positions: IntArray, block_size: int) -> IntArray:
    block_ids = np.take_along_axis(tables, positions // block_size, axis=1)  # [chunks, tokens]
    return block_ids * block_size + positions % block_size


def _causal_mask(positions: IntArray) -> FloatArray:
    visible = np.arange(positions.max() + 1) <= positions[:, :, None]  # [chunks, tokens, context]
    return np.where(visible, np.float32(0), np.float32(-np.inf))
