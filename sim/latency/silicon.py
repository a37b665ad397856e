"""Measured kernels of many GPUs, answered by the library aiconfigurator-core (extra `silicon`)."""

import json
import logging
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from sim.catalogue.model import Model
from sim.deployment import Deployment
from sim.errors import UserError
from sim.latency.allreduce import NoAllReduce
from sim.latency.model import Curve, Prefills
from sim.latency.operators import Operators

# GPUs of the catalogue -> the library's names of those whose kernels were measured.
SYSTEMS = {
    "a100-80gb": "a100_sxm",
    "h100-80gb": "h100_sxm",
    "h200": "h200_sxm",
    "b200": "b200_sxm",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
# vLLM's fp8 checkpoints with static scales do not scale activations in a kernel of its own.
_PRODUCTS = {"none": "bfloat16", "fp8": "fp8_static"}
# Experts in fp8 are published with a scale for each block of weights (Qwen3, DeepSeek). Those with
# one for all are in the library's tables of Hopper with three times the time of 16 bits.
_EXPERTS = {"none": "bfloat16", "fp8": "fp8_block"}
_KV = {"float16": "bfloat16", "bfloat16": "bfloat16", "fp8": "fp8"}
_CONTEXTS = (1, *(16 * 2**i for i in range(14)))  # knots of a decode's context, in tokens
_CACHED_SHAPES = 1 << 16


def silicon_operators(deployment: Deployment) -> Operators:
    """Every operator as the library has it, its own all-reduces included.

    Raises UserError where the library is not installed or does not cover the deployment.
    """
    kernels = SiliconKernels(deployment)
    source = "kernels measured by aiconfigurator-core"
    return Operators(SiliconProducts(kernels), SiliconAttention(kernels), NoAllReduce(), source)


class SiliconKernels:
    """The operators of a deployed model, each with the time of its measured kernels.

    Raises UserError where the library is not installed or does not cover the deployment.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        engine = _compile(deployment)
        self._evaluate = {
            "generation": engine.evaluate_generation_ops,
            "context": engine.evaluate_context_ops,
        }
        self._places = {phase: _by_kind(self._names(phase)) for phase in self._evaluate}

    def _seconds(self, phase: str, kind: str, **shape: int) -> float:
        """Sum over the operators of a kind, in the phase `generation` or `context`."""
        try:
            found = self._evaluate[phase](self._places[phase][kind], **shape)
        except Exception as error:  # whatever its tables lack
            raise _not_covered(self._deployment, error) from None
        return float(sum(milliseconds for _, milliseconds, *_ in found)) / 1e3

    def _names(self, phase: str) -> list[str]:
        """Names of the operators of a phase, found by asking for one after the other."""
        names: list[str] = []
        while True:
            try:
                names += [
                    found[0] for found in self._evaluate[phase]([len(names)], batch_size=1, s=16)
                ]
            except Exception as error:
                if "out of range" in str(error):
                    return names
                raise _not_covered(self._deployment, error) from None

    def products_s(self, num_tokens: int) -> float:
        """All of the layers but attention, all-reduces included."""
        return self._seconds("context", "other", batch_size=1, s=num_tokens, x=num_tokens)

    def output_s(self, num_rows: int) -> float:
        """The output projection."""
        return self._seconds("generation", "logits", batch_size=num_rows, s=1)

    def decode_attention_s(self, num_decodes: int, context: int) -> float:
        """Attention of decodes with so much context each."""
        return self._seconds("generation", "attention", batch_size=num_decodes, s=context)

    @lru_cache(_CACHED_SHAPES)  # noqa: B019 - an instance lives as long as its run
    def chunk_attention_s(self, num_tokens: int, context: int) -> float:
        """Attention of a prefill chunk after so much context."""
        return self._seconds("context", "attention", batch_size=1, s=num_tokens, prefix=context)


class SiliconProducts:
    """See Products; the library's all-reduces are among them."""

    def __init__(self, kernels: SiliconKernels) -> None:
        self._kernels = kernels

    def layers_s(self, num_tokens: int) -> float:
        """See Products."""
        return self._kernels.products_s(num_tokens)

    def rows_s(self, num_rows: int) -> float:
        """See Products."""
        return self._kernels.output_s(num_rows)


class SiliconAttention:
    """See Attention. The library knows no kernel that does both: the times add up."""

    def __init__(self, kernels: SiliconKernels) -> None:
        self._kernels = kernels
        self._curves: dict[int, Curve] = {}  # by num_decodes

    def decode_curve(self, num_decodes: int) -> Curve:
        """See Attention."""
        if num_decodes not in self._curves:
            seconds = [self._kernels.decode_attention_s(num_decodes, c) for c in _CONTEXTS]
            knots = [0.0, *(float(num_decodes * context) for context in _CONTEXTS[1:])]
            self._curves[num_decodes] = Curve.through(knots, seconds)
        return self._curves[num_decodes]

    def mixed_s(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """See Attention."""
        seconds = self.decode_curve(num_decodes).at(decode_context_tokens) if num_decodes else 0.0
        return seconds + sum(self._kernels.chunk_attention_s(*chunk) for chunk in prefills)


def _covered() -> str:
    weights, kv = ", ".join(_PRODUCTS), ", ".join(_KV)
    return f"{', '.join(SYSTEMS)}, weights {weights}, activations of 16 bits, KV {kv}"


def _compile(deployment: Deployment) -> Any:
    try:
        from aiconfigurator_core.sdk.engine import EngineHandle
    except ImportError:
        raise UserError(
            "latency.kind: silicon needs the library aiconfigurator-core; "
            f"pip install 'kvsim[silicon]' brings it; it covers {_covered()}"
        ) from None
    logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)
    system, quantization = deployment.hardware.name, deployment.weights
    is_covered = system in SYSTEMS and quantization in _PRODUCTS and deployment.kv_dtype in _KV
    if not is_covered or deployment.activation_arithmetic != "bf16":
        raise UserError(
            f"latency.kind: silicon does not cover {deployment.hardware.title} with "
            f"{quantization} weights, {deployment.activation_dtype} activations and "
            f"{deployment.kv_dtype} KV; it covers {_covered()}"
        )
    try:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(_config(deployment.model)))
            return EngineHandle.compile(
                folder,
                SYSTEMS[system],
                "vllm",
                tp_size=deployment.tensor_parallel_size,
                moe_tp_size=deployment.tensor_parallel_size,
                gemm_quant_mode=_PRODUCTS[quantization],
                moe_quant_mode=_EXPERTS[quantization],
                kvcache_quant_mode=_KV[deployment.kv_dtype],
            )
    except Exception as error:  # the library raises whatever its tables lack
        raise _not_covered(deployment, error) from None


def _not_covered(deployment: Deployment, error: Exception) -> UserError:
    reason = " ".join(str(error).split())[:200]
    return UserError(
        f"latency.kind: silicon does not cover {deployment.model.title} on "
        f"{deployment.tensor_parallel_size} x {deployment.hardware.title}: {reason}"
    )


def _config(model: Model) -> dict[str, Any]:
    """A config.json by which the library knows the model's sizes."""
    if model.ffn != "gated" or model.num_window_layers or model.num_kv_heads_total:
        raise ValueError("only layers that are all alike, with a gated network and full attention")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": model.num_layers,
        "hidden_size": model.d_model,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_kv_heads,
        "head_dim": model.head_size,
        "intermediate_size": model.d_ff,
        "vocab_size": model.vocab_size,
        "max_position_embeddings": 1 << 20,
        "torch_dtype": "bfloat16",
    }
    if model.num_experts:
        config["architectures"] = ["Qwen3MoeForCausalLM"]
        config["num_experts"] = model.num_experts
        config["num_experts_per_tok"] = model.num_experts_per_token
        config["moe_intermediate_size"] = model.d_ff
    return config


def _by_kind(names: list[str]) -> dict[str, list[int]]:
    """Places of the operators by what they are."""
    kinds: dict[str, list[int]] = {"attention": [], "logits": [], "other": []}
    for place, name in enumerate(names):
        kind = next((kind for kind in ("attention", "logits") if kind in name), "other")
        kinds[kind].append(place)
    return kinds
