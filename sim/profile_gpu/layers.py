"""The operators of a layer besides attention and experts, and those at the ends of the model.

Each is what an engine runs as one kernel: the residual is added in the norm, queries and keys are
rotated together.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from sim.deployment import Matrix
from sim.profile_gpu.shard import Shard
from sim.profile_gpu.tensors import Tensors

Fuse = Callable[[Callable[..., Any]], Callable[..., Any]]

_BIAS_OF = {"qkv_proj": "qkv", "o_proj": "o", "gate_up_proj": "ffn", "down_proj": "ffn"}


class Operator(NamedTuple):
    """An operator and random tensors for it.

    weights: makes one copy of its weights. inputs: makes the activations of so many tokens.
    compute: takes the inputs, then the weights.
    """

    name: str
    weights: Callable[[], tuple[torch.Tensor, ...]]
    inputs: Callable[[int], tuple[torch.Tensor, ...]]
    compute: Callable[..., Any]


def fusing(device: str) -> tuple[Fuse, str]:
    """Makes one kernel of a few element-wise steps where torch.compile can, and says so."""
    if device == "cpu":
        return _as_it_is, "eager"
    try:
        torch.compile(functional.silu, dynamic=True)(torch.ones(2, device=device))
    except Exception:  # whatever a missing compiler or driver makes of it
        return _as_it_is, "eager"
    return lambda function: torch.compile(function, dynamic=True), "torch.compile"


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def activation(shard: Shard) -> Callable[[torch.Tensor], torch.Tensor]:
    """Of a feed-forward network: [tokens, 2 d_ff] or, with plain ones, [tokens, d_ff] → d_ff."""
    return _silu_and_multiply if shard.model.ffn == "gated" else functional.relu


def dense_operators(shard: Shard, tensors: Tensors, fuse: Fuse) -> list[Operator]:
    """Those whose time depends on the tokens of a step, in the order of a step."""
    model = shard.model
    norm = _norm(shard, tensors, fuse)
    operators = [
        _embedding(shard, tensors),
        norm._replace(name="layernorm"),
        _product(shard, "qkv_proj", tensors),
    ]
    if model.qk_norm:
        operators.append(_qk_norm(shard, tensors, fuse))
    if not model.num_learned_positions:
        operators.append(_rotary(shard, tensors, fuse))
    operators.append(_product(shard, "o_proj", tensors))
    if not model.num_experts:
        operators += [
            _product(shard, "gate_up_proj", tensors),
            _activation(shard, tensors, fuse),
            _product(shard, "down_proj", tensors),
        ]
    return [*operators, norm._replace(name="final_layernorm")]


def sequence_operators(shard: Shard, tensors: Tensors) -> list[Operator]:
    """Those whose time depends on the sequences that are sampled from."""
    vocab_size = shard.model.vocab_size
    sampler = Operator(
        "sampler",
        weights=tuple,
        inputs=lambda rows: (tensors.normal(rows, vocab_size),),
        compute=_greedy,
    )
    return [_product(shard, "lm_head", tensors), sampler]


def _product(shard: Shard, name: str, tensors: Tensors) -> Operator:
    matrix: Matrix = shard.matrices[name]
    has_bias = _BIAS_OF.get(name) in shard.model.biases

    def weights() -> tuple[torch.Tensor, ...]:
        biases = (tensors.normal(matrix.n),) if has_bias else ()
        return (tensors.weight(matrix.n, matrix.k), *biases)

    return Operator(
        name, weights, lambda tokens: (tensors.normal(tokens, matrix.k),), functional.linear
    )


def _embedding(shard: Shard, tensors: Tensors) -> Operator:
    rows, d_model = shard.matrices["lm_head"].n, shard.model.d_model
    return Operator(
        "embedding",
        weights=lambda: (tensors.normal(rows, d_model),),
        inputs=lambda tokens: (tensors.integers(rows, tokens),),
        compute=functional.embedding,
    )


def _norm(shard: Shard, tensors: Tensors, fuse: Fuse) -> Operator:
    size = shard.model.d_model
    has_bias = "norm" in shard.model.biases
    return Operator(
        "norm",
        weights=lambda: tuple(tensors.normal(size) for _ in range(2 if has_bias else 1)),
        inputs=lambda tokens: (tensors.normal(tokens, size), tensors.normal(tokens, size)),
        compute=fuse(_add_and_layer_norm if has_bias else _add_and_rms_norm),
    )


def _qk_norm(shard: Shard, tensors: Tensors, fuse: Fuse) -> Operator:
    size = shard.model.head_size
    return Operator(
        "qk_norm",
        weights=lambda: (tensors.normal(size), tensors.normal(size)),
        inputs=lambda tokens: _queries_and_keys(shard, tensors, tokens),
        compute=fuse(_norm_both),
    )


def _rotary(shard: Shard, tensors: Tensors, fuse: Fuse) -> Operator:
    half = shard.model.head_size // 2

    def inputs(tokens: int) -> tuple[torch.Tensor, ...]:
        angles = (tensors.normal(tokens, 1, half), tensors.normal(tokens, 1, half))
        return (*_queries_and_keys(shard, tensors, tokens), *angles)

    return Operator("rotary_emb", tuple, inputs, fuse(_rotate_both))


def _activation(shard: Shard, tensors: Tensors, fuse: Fuse) -> Operator:
    width = shard.matrices["gate_up_proj"].n
    return Operator(
        "act_fn",
        weights=tuple,
        inputs=lambda tokens: (tensors.normal(tokens, width),),
        compute=fuse(activation(shard)),
    )


def _queries_and_keys(shard: Shard, tensors: Tensors, tokens: int) -> tuple[torch.Tensor, ...]:
    size = shard.model.head_size
    return (
        tensors.normal(tokens, shard.num_heads, size),
        tensors.normal(tokens, shard.num_kv_heads, size),
    )


def _silu_and_multiply(gate_and_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_and_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def _add_and_rms_norm(
    hidden: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = hidden + residual
    return functional.rms_norm(total, weight.shape, weight), total


def _add_and_layer_norm(
    hidden: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = hidden + residual
    return functional.layer_norm(total, weight.shape, weight, bias), total


def _norm_both(
    queries: torch.Tensor, keys: torch.Tensor, q_weight: torch.Tensor, k_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        functional.rms_norm(queries, q_weight.shape, q_weight),
        functional.rms_norm(keys, k_weight.shape, k_weight),
    )


def _rotate_both(
    queries: torch.Tensor, keys: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return _rotate(queries, cos, sin), _rotate(keys, cos, sin)


def _rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = heads.chunk(2, dim=-1)  # [tokens, heads, head_size / 2] each
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _greedy(logits: torch.Tensor) -> torch.Tensor:
    """The most probable tokens [rows], of logits in float32, as vLLM takes them."""
    return logits.float().argmax(dim=-1)
