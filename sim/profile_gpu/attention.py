"""Kernels of attention over a KV cache, the one nearest to what an engine runs first."""

import importlib
from collections.abc import Callable
from importlib.metadata import version
from typing import NamedTuple

import torch
from torch.nn import functional

from sim.profile_gpu.kv_pool import AttentionBatch, KvPool, blocks_of
from sim.profile_gpu.points import AttentionPoint
from sim.profile_gpu.shard import Shard
from sim.profile_gpu.tensors import Tensors, assert_equal, first_that_works
from sim.profile_gpu.timing import Timer

_TRIALS = (AttentionPoint(5, 20, 3, 40), AttentionPoint(5, 0, 0, 0), AttentionPoint(0, 0, 3, 300))


class AttentionKernel(NamedTuple):
    """attend: the output [tokens, heads, head_size] of a batch, over blocks of block_size."""

    name: str
    block_size: int
    is_paged: bool
    attend: Callable[[AttentionBatch], torch.Tensor]


def choose_attention(shard: Shard, tensors: Tensors, timer: Timer) -> AttentionKernel:
    """The first kernel that is installed, computes the right thing here and can be timed."""

    def try_out(kernel: AttentionKernel) -> None:
        for point in _TRIALS:
            pool = KvPool(
                shard,
                tensors,
                num_blocks=blocks_of(point, kernel.block_size),
                block_size=kernel.block_size,
                is_scattered=kernel.is_paged,
            )
            (batch,) = pool.batches(point, 1)
            assert_equal(kernel.attend(batch), attend_densely(batch))
            # mypy does not infer the type of a lambda with a default.
            timer.time_us([lambda batch=batch: kernel.attend(batch)])  # type: ignore[misc]  # bound as a default

    loaders = [torch_sdpa]
    if tensors.device == "cuda":
        loaders = [vllm_flash_attn, flash_attn, torch_varlen, torch_sdpa]
    return first_that_works("attention", loaders, try_out)


def attend_densely(batch: AttentionBatch) -> torch.Tensor:
    """What attention is, sequence by sequence in float32 [tokens, heads, head_size]."""
    outputs = []
    queries = batch.query.float().split([queries for queries, _ in batch.point.sequences])
    for query, blocks, (num_queries, num_kv) in zip(
        queries, batch.block_table, batch.point.sequences, strict=True
    ):
        group = query.shape[1] // batch.keys.shape[2]
        keys, values = (
            pool[blocks].flatten(0, 1)[:num_kv].float().repeat_interleave(group, dim=1)
            for pool in (batch.keys, batch.values)
        )  # [num_kv, heads, head_size]
        scores = torch.einsum("qhd,khd->hqk", query, keys) * query.shape[-1] ** -0.5
        is_later = torch.ones_like(scores[0], dtype=torch.bool).triu(num_kv - num_queries + 1)
        weights = scores.masked_fill(is_later, -torch.inf).softmax(dim=-1)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(outputs)


def vllm_flash_attn() -> AttentionKernel:
    """The FlashAttention that comes with vLLM: version 3 on Hopper, 2 elsewhere, as vLLM does."""
    module = importlib.import_module("vllm.vllm_flash_attn.flash_attn_interface")
    is_hopper = torch.cuda.get_device_capability()[0] == 9
    fa_version = 3 if is_hopper and module.is_fa_version_supported(3) else 2

    def attend(batch: AttentionBatch) -> torch.Tensor:
        output: torch.Tensor = module.flash_attn_varlen_func(
            batch.query,
            batch.keys,
            batch.values,
            max_seqlen_q=batch.lengths.most_queries,
            cu_seqlens_q=batch.lengths.query_ends,
            max_seqlen_k=batch.lengths.most_kv,
            seqused_k=batch.lengths.kv,
            block_table=batch.block_table,
            causal=True,
            fa_version=fa_version,
        )
        return output

    name = f"FlashAttention {fa_version} of vLLM {version('vllm')}, paged"
    return AttentionKernel(name, 16, True, attend)


def flash_attn() -> AttentionKernel:
    """The package flash-attn, whose blocks have at least 256 tokens."""
    module = importlib.import_module("flash_attn")

    def attend(batch: AttentionBatch) -> torch.Tensor:
        output: torch.Tensor = module.flash_attn_varlen_func(
            batch.query,
            batch.keys,
            batch.values,
            cu_seqlens_q=batch.lengths.query_ends,
            cu_seqlens_k=batch.lengths.kv_ends,
            max_seqlen_q=batch.lengths.most_queries,
            max_seqlen_k=batch.lengths.most_kv,
            block_table=batch.block_table,
            causal=True,
        )
        return output

    return AttentionKernel(f"flash-attn {version('flash-attn')}, paged", 256, True, attend)


def torch_varlen() -> AttentionKernel:
    """The FlashAttention that comes with torch, where it reads a paged cache."""
    module = importlib.import_module("torch.nn.attention.varlen")

    def attend(batch: AttentionBatch) -> torch.Tensor:
        output: torch.Tensor = module.varlen_attn(
            batch.query,
            batch.keys,
            batch.values,
            batch.lengths.query_ends,
            batch.lengths.kv_ends,
            batch.lengths.most_queries,
            batch.lengths.most_kv,
            window_size=(-1, 0),  # causal
            enable_gqa=True,
            seqused_k=batch.lengths.kv,
            block_table=batch.block_table,
        )
        return output

    return AttentionKernel("varlen_attn of torch, paged", 256, True, attend)


def torch_sdpa() -> AttentionKernel:
    """torch's scaled_dot_product_attention: one call for the prompt, one for all decodes.

    It reads no block table, so each sequence's keys and values lie one behind the other.
    """
    importlib.import_module("torch.nn.attention.bias")
    name = "scaled_dot_product_attention of torch, not paged, prompt and decodes in two calls"
    return AttentionKernel(name, 1, False, _attend_in_two)


def _attend_in_two(batch: AttentionBatch) -> torch.Tensor:
    point = batch.point
    first_slot = batch.first_slot
    num_prompt_kv = point.sequences[0][1] if point.prefill_chunk else 0
    outputs = []
    if point.prefill_chunk:
        prompt = slice(first_slot, first_slot + num_prompt_kv)
        outputs.append(
            _prefill(
                batch.query[: point.prefill_chunk],
                batch.keys[prompt, 0],
                batch.values[prompt, 0],
            )
        )
    if point.n_decode:
        start = first_slot + num_prompt_kv
        decodes = slice(start, start + point.n_decode * point.kv_decode)
        size = (point.n_decode, point.kv_decode, *batch.keys.shape[2:])
        outputs.append(
            _decode(
                batch.query[point.prefill_chunk :],
                batch.keys[decodes, 0].view(size),
                batch.values[decodes, 0].view(size),
            )
        )
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


def _prefill(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """[queries, heads, size] over [kv, KV heads, size] → [queries, heads, size], causal."""
    mask = torch.nn.attention.bias.causal_lower_right(len(query), len(keys))
    q, k, v = (tensor.transpose(0, 1)[None] for tensor in (query, keys, values))
    output = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    return output[0].transpose(0, 1)


def _decode(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """[n, heads, size] over [n, kv, KV heads, size] → [n, heads, size].

    The heads that share a KV head are rows of one product, so that it is read once.
    """
    num_kv_heads, size = keys.shape[2:]
    grouped = query.view(len(query), num_kv_heads, -1, size)
    output = functional.scaled_dot_product_attention(
        grouped, keys.transpose(1, 2), values.transpose(1, 2)
    )
    return output.reshape(query.shape)
