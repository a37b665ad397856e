"""A KV cache of one layer, in blocks, and the batches that attend to it."""

import math
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import torch

from sim.profile_gpu.points import AttentionPoint
from sim.profile_gpu.shard import Shard
from sim.profile_gpu.tensors import Tensors


class Lengths(NamedTuple):
    """Lengths of a batch's sequences, as kernels take them.

    kv: tokens that the last query of each attends to [sequences]. query_ends, kv_ends: 0 and the
    running sums of queries and of kv [sequences + 1]. All int32. most_queries, most_kv: of one.
    """

    kv: torch.Tensor
    query_ends: torch.Tensor
    kv_ends: torch.Tensor
    most_queries: int
    most_kv: int


class AttentionBatch(NamedTuple):
    """One call of attention.

    query: [tokens, heads, head_size], the prompt's chunk first. keys, values: the whole pool,
    [blocks, block_size, KV heads, head_size]. block_table: [sequences, most blocks of one], int32.
    first_slot: with blocks of one token, one behind the other: where the first sequence begins.
    """

    point: AttentionPoint
    lengths: Lengths
    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    block_table: torch.Tensor
    first_slot: int


class KvPool:
    """Random keys and values of one layer, num_blocks blocks of block_size tokens.

    is_scattered: whether a sequence's blocks lie anywhere, as they do after a while in an engine
    with a paged cache; else one behind the other.
    """

    def __init__(
        self,
        shard: Shard,
        tensors: Tensors,
        *,
        num_blocks: int,
        block_size: int,
        is_scattered: bool,
    ) -> None:
        size = (num_blocks, block_size, shard.num_kv_heads, shard.model.head_size)
        self.keys, self.values = tensors.normal(*size), tensors.normal(*size)
        order = torch.randperm(num_blocks) if is_scattered else torch.arange(num_blocks)
        self._order = order.int()
        self._block_size = block_size
        self._tensors = tensors
        self._num_heads = shard.num_heads

    def bytes_read(self, point: AttentionPoint) -> float:
        """Bytes of keys and values that one call reads."""
        return 2.0 * sum(kv for _, kv in point.sequences) * int(self.keys[0, 0].nbytes)

    def batches(self, point: AttentionPoint, num_copies: int) -> list[AttentionBatch]:
        """Up to num_copies batches over other blocks each; none if the pool is too small for one.

        They share their queries.
        """
        num_blocks = blocks_of(point, self._block_size)
        num_copies = min(num_copies, len(self._order) // num_blocks)
        num_tokens = point.prefill_chunk + point.n_decode
        query = self._tensors.normal(num_tokens, self._num_heads, self.keys.shape[-1])
        lengths = _lengths_of(point, self._tensors.device)
        return [
            AttentionBatch(
                point=point,
                lengths=lengths,
                query=query,
                keys=self.keys,
                values=self.values,
                block_table=self._block_table(point, start),
                first_slot=start,
            )
            for start in range(0, num_copies * num_blocks, num_blocks)
        ]

    def _block_table(self, point: AttentionPoint, start: int) -> torch.Tensor:
        """Blocks of each sequence, from a place in the order on; short rows end in zeros."""
        counts = [math.ceil(kv / self._block_size) for _, kv in point.sequences]
        rows = self._order[start : start + sum(counts)].split(counts)
        table = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
        return table.to(self._tensors.device)


def blocks_of(point: AttentionPoint, block_size: int) -> int:
    """Blocks that hold the keys and values of a batch."""
    return sum(math.ceil(kv / block_size) for _, kv in point.sequences)


def _lengths_of(point: AttentionPoint, device: str) -> Lengths:
    queries, kv = zip(*point.sequences, strict=True)
    int32 = partial(torch.tensor, dtype=torch.int32, device=device)
    return Lengths(
        kv=int32(kv),
        query_ends=int32([0, *accumulate(queries)]),
        kv_ends=int32([0, *accumulate(kv)]),
        most_queries=max(queries),
        most_kv=max(kv),
    )
