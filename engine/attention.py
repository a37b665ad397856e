"""Attention that reads keys and values through block tables."""

import math

import numpy as np

from engine.batch import ChunkGroup
from engine.kv_pool import FloatArray, KVPool


def paged_attention(
    q: FloatArray, pool: KVPool, layer: int, groups: list[ChunkGroup]
) -> FloatArray:
    """Causal grouped-query attention of every token of a step over its own sequence.

    q: [tokens, num_heads, head_size], in the row order of the step's `StepBatch`, whose groups
    cover every row once. The keys and values of these tokens must already be in the pool. Returns
    the heads' outputs, shaped like q. Query head h reads key/value head h // (num_heads /
    num_kv_heads), as in GQA, Ainslie et al. 2023 (arXiv:2305.13245).
    """
    outputs = np.empty_like(q)
    for group in groups:
        keys, values = pool.gather(layer, group.block_tables)
        outputs[group.rows] = _attend(q[group.rows], keys, values, group.mask)
    return outputs


def _attend(q: FloatArray, keys: FloatArray, values: FloatArray, mask: FloatArray) -> FloatArray:
    """One group: q [B * n, heads, head], keys and values [B, >= context, kv_heads, head].

    The `share` query heads that read the same key/value head are stacked with the n tokens, so
    that one matrix product per chunk and key/value head serves them all.
    """
    B, n, context = mask.shape
    num_heads, head_size = q.shape[1:]
    kv_heads = keys.shape[2]
    share = num_heads // kv_heads
    q = q.reshape(B, n, kv_heads, share, head_size).transpose(0, 2, 3, 1, 4)
    q = q.reshape(B, kv_heads, share * n, head_size) / np.float32(math.sqrt(head_size))
    keys = keys[:, :context].transpose(0, 2, 3, 1)  # [B, kv_heads, head, context]
    values = values[:, :context].transpose(0, 2, 1, 3)  # [B, kv_heads, context, head]

    scores = (q @ keys).reshape(B, kv_heads, share, n, context)
    scores += mask[:, None, None]
    scores -= scores.max(axis=-1, keepdims=True)  # the largest exponent is 0: no overflow
    weights = np.exp(scores, out=scores).reshape(B, kv_heads, share * n, context)
    totals = weights.sum(axis=-1, keepdims=True)
    out: FloatArray = weights @ values / totals  # [B, kv_heads, share * n, head]

    out = out.reshape(B, kv_heads, share, n, head_size).transpose(0, 3, 1, 2, 4)
    return out.reshape(B * n, num_heads, head_size)
