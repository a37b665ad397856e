"""The expert block of a layer: router, the choice of experts, and their networks."""

import importlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from sim.profile_gpu.layers import activation
from sim.profile_gpu.points import ExpertPoint
from sim.profile_gpu.shard import Shard
from sim.profile_gpu.tensors import Tensors, assert_equal, first_that_works
from sim.profile_gpu.timing import Call, Timer

# The output [tokens, d_model] of hidden states [tokens, d_model] and weights of the experts that
# were chosen for each [tokens, experts per token].
Experts = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class ExpertLayer(NamedTuple):
    """Weights of all experts of one layer on one GPU, and their activation.

    router: [experts, d_model]. up: [experts, 2 d_ff, d_model], the gate first; with plain networks
    d_ff. down: [experts, d_model, d_ff].
    """

    router: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    activate: Callable[[torch.Tensor], torch.Tensor]
    is_gated: bool


class ExpertKernel(NamedTuple):
    """bind: computes with the experts [tokens, experts per token] that are given."""

    name: str
    bind: Callable[[ExpertLayer, torch.Tensor], Experts]


def expert_layer(shard: Shard, tensors: Tensors) -> ExpertLayer:
    """A layer with random weights."""
    up, down, router = (shard.matrices[name] for name in ("gate_up_proj", "down_proj", "router"))
    return ExpertLayer(
        tensors.weight(router.n, router.k),
        tensors.weight(router.n, up.n, up.k),
        tensors.weight(router.n, down.n, down.k),
        activation(shard),
        shard.model.ffn == "gated",
    )


def chosen_experts(shard: Shard, point: ExpertPoint, copy: int) -> torch.Tensor:
    """Experts of each token [tokens, experts per token]: so many, all chosen equally often.

    The next copy activates the experts after them.
    """
    per_token = shard.model.num_experts_per_token
    places = torch.arange(point.tokens * per_token).view(-1, per_token) % point.activated_experts
    return (places + copy * point.activated_experts) % shard.model.num_experts


def expert_call(
    shard: Shard, layer: ExpertLayer, kernel: ExpertKernel, hidden: torch.Tensor, ids: torch.Tensor
) -> Call:
    """The whole block. The router decides the weights; which experts they are for is given."""
    compute = kernel.bind(layer, ids.to(hidden.device))
    per_token = shard.model.num_experts_per_token

    def call() -> torch.Tensor:
        logits = functional.linear(hidden, layer.router).float()
        weights = logits.softmax(dim=-1).topk(per_token).values
        return compute(hidden, weights.to(hidden.dtype))

    return call


def choose_experts(
    shard: Shard, layer: ExpertLayer, tensors: Tensors, timer: Timer
) -> ExpertKernel:
    """The first kernel that is installed, computes the right thing here and can be timed."""
    point = ExpertPoint(4, min(2 * shard.model.num_experts_per_token, shard.model.num_experts))
    ids = chosen_experts(shard, point, 0)
    hidden = tensors.normal(point.tokens, shard.model.d_model)
    weights = tensors.normal(*ids.shape)

    def try_out(kernel: ExpertKernel) -> None:
        output = kernel.bind(layer, ids.to(tensors.device))(hidden, weights)
        assert_equal(output, compute_densely(layer, ids, hidden, weights))
        timer.time_us([expert_call(shard, layer, kernel, hidden, ids)])

    loaders = [torch_grouped, torch_loop]
    if tensors.device == "cuda":
        loaders = [vllm_fused, *loaders]
    return first_that_works("experts", loaders, try_out)


def compute_densely(
    layer: ExpertLayer, ids: torch.Tensor, hidden: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """What the experts are, token by token in float32 [tokens, d_model]."""
    output = torch.zeros_like(hidden, dtype=torch.float32)
    for token, experts in enumerate(ids.tolist()):
        for place, expert in enumerate(experts):
            inner = layer.activate(layer.up[expert].float() @ hidden[token].float())
            output[token] += weights[token, place].float() * (layer.down[expert].float() @ inner)
    return output


def vllm_fused() -> ExpertKernel:
    """The Triton kernel of vLLM."""
    module: Any = importlib.import_module("vllm.model_executor.layers.fused_moe")

    def bind(layer: ExpertLayer, ids: torch.Tensor) -> Experts:
        if not layer.is_gated:
            raise NotImplementedError("for gated networks only")
        ids = ids.int()
        return lambda hidden, weights: module.fused_experts(
            hidden, layer.up, layer.down, topk_weights=weights.float(), topk_ids=ids
        )

    return ExpertKernel(f"fused_experts of vLLM {version('vllm')}", bind)


def torch_grouped() -> ExpertKernel:
    """torch's grouped_mm over the tokens in the order of their experts."""
    if not hasattr(functional, "grouped_mm"):
        raise ModuleNotFoundError("this torch has none")
    return ExpertKernel("grouped_mm of torch", _bind_grouped)


def _bind_grouped(layer: ExpertLayer, ids: torch.Tensor) -> Experts:
    per_token = ids.shape[1]
    all_experts = torch.arange(len(layer.up), device=ids.device)
    up, down = layer.up.transpose(1, 2), layer.down.transpose(1, 2)

    def compute(hidden: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        experts, order = ids.flatten().sort()
        ends = torch.searchsorted(experts, all_experts, right=True).int()
        tokens = order // per_token
        inner = layer.activate(functional.grouped_mm(hidden[tokens], up, offs=ends))
        output = functional.grouped_mm(inner, down, offs=ends) * weights.flatten()[order, None]
        return torch.zeros_like(hidden).index_add_(0, tokens, output)

    return compute


def torch_loop() -> ExpertKernel:
    """One expert after the other."""
    return ExpertKernel("products of torch, expert by expert", _bind_loop)


def _bind_loop(layer: ExpertLayer, ids: torch.Tensor) -> Experts:
    places = {expert: (ids == expert).nonzero(as_tuple=True) for expert in ids.unique().tolist()}

    def compute(hidden: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        output = torch.zeros_like(hidden)
        for expert, (tokens, columns) in places.items():
            inner = layer.activate(functional.linear(hidden[tokens], layer.up[expert]))
            part = functional.linear(inner, layer.down[expert]) * weights[tokens, columns, None]
            output.index_add_(0, tokens, part)
        return output

    return compute
