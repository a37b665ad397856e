"""How a model lies on GPUs: number types, tensor parallelism, and the sizes of one GPU's shard."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sim.catalogue.hardware import Hardware
from sim.catalogue.model import DTYPES, QUANTIZATIONS, Model, Quantization
from sim.errors import UserError


class Matrix(NamedTuple):
    """Weights [k, n] of one GPU's shard, by which it multiplies activations [tokens, k].

    num_layers: how many there are, one a layer. bits: of one weight. arithmetic: of the products.
    """

    name: str
    k: int
    n: int
    num_layers: float
    bits: float
    arithmetic: str

    @property
    def weight_bytes(self) -> float:
        """Bytes of one of them."""
        return self.k * self.n * self.bits / 8


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A model on tensor_parallel_size GPUs, each with the same share of every layer.

    dtype: of activations, and of weights that are not quantized; `auto`: as published.
    quantization: of the layers' weights; `auto`: as published.
    kv_cache_dtype: `auto` is dtype.

    Raises UserError where the GPUs cannot share the heads equally, as vLLM does, and for weights of
    experts in a model without.
    """

    model: Model
    hardware: Hardware
    tensor_parallel_size: int = 1
    dtype: str = "auto"
    quantization: str = "auto"
    kv_cache_dtype: str = "auto"

    def __post_init__(self) -> None:
        model, num_gpus = self.model, self.tensor_parallel_size
        got = f"deployment.tensor_parallel_size: got {num_gpus}, expected a"
        if model.num_heads % num_gpus:
            raise UserError(
                f"{got} divisor of the {model.num_heads} attention heads of {model.title}"
            )
        if max(model.num_kv_heads, num_gpus) % min(model.num_kv_heads, num_gpus):
            raise UserError(
                f"{got} divisor or a multiple of the {model.num_kv_heads} KV heads of {model.title}"
            )
        if self._quantization and self._quantization.experts_only and not model.num_experts:
            raise UserError(
                f"deployment.quantization: got {self.weights}, which is of experts, but "
                f"{model.title} has none"
            )

    @property
    def activation_dtype(self) -> str:
        """Type of the activations."""
        return self.model.dtype if self.dtype == "auto" else self.dtype

    @property
    def activation_bytes(self) -> float:
        """Bytes of one number of the activations."""
        return DTYPES[self.activation_dtype] / 8

    @property
    def kv_dtype(self) -> str:
        """Type of the cached keys and values."""
        return self.activation_dtype if self.kv_cache_dtype == "auto" else self.kv_cache_dtype

    @property
    def kv_heads(self) -> float:
        """KV heads of one GPU over all layers; it has at least one a layer, a copy if need be."""
        return max(self.model.kv_heads / self.tensor_parallel_size, self.model.num_layers)

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of one token's keys and values on one GPU, over all layers."""
        return 2 * self.kv_heads * self.model.head_size * DTYPES[self.kv_dtype] / 8

    @property
    def attention_flop_per_pair(self) -> float:
        """FLOPs of one GPU for one query attending to one token, over all layers."""
        return self.model.attention_flop_per_pair / self.tensor_parallel_size

    @property
    def activation_arithmetic(self) -> str:
        """Type in which what is not quantized is computed: bf16 or fp32."""
        return "fp32" if self.activation_dtype == "float32" else "bf16"

    @property
    def weights(self) -> str:
        """How the layers' weights are quantized: a key of QUANTIZATIONS."""
        return self.model.quantization if self.quantization == "auto" else self.quantization

    @property
    def _quantization(self) -> Quantization | None:
        return QUANTIZATIONS[self.weights]

    @property
    def arithmetic(self) -> str:
        """Type in which most of the layers' products are computed: bf16, fp8 or fp32."""
        return self.layer_matrices[0].arithmetic

    @cached_property
    def layer_matrices(self) -> list[Matrix]:
        """What every token is multiplied with in the layers, but for the experts."""
        model, num_gpus = self.model, self.tensor_parallel_size
        num_q = model.num_heads * model.head_size // num_gpus
        num_kv = round(2 * self.kv_heads / model.num_layers * model.head_size)
        matrices = [
            self._layer_matrix("qkv_proj", model.d_model, num_q + num_kv),
            self._layer_matrix("o_proj", num_q, model.d_model),
        ]
        if model.num_experts:
            router = Matrix(
                "router",
                model.d_model,
                model.num_experts,
                model.num_layers,
                DTYPES[self.activation_dtype],
                self.activation_arithmetic,
            )
            return [*matrices, router]
        return [*matrices, *self._ffn()]

    @cached_property
    def expert_matrices(self) -> list[Matrix]:
        """The matrices of one expert in every layer; none without experts."""
        return list(self._ffn()) if self.model.num_experts else []

    def _ffn(self) -> Iterator[Matrix]:
        model = self.model
        d_ff = -(-model.d_ff // self.tensor_parallel_size)
        d_up = model.num_up_matrices * d_ff
        yield self._layer_matrix("gate_up_proj", model.d_model, d_up, is_ffn=True)
        yield self._layer_matrix("down_proj", d_ff, model.d_model, is_ffn=True)

    def _layer_matrix(self, name: str, k: int, n: int, *, is_ffn: bool = False) -> Matrix:
        bits: float = DTYPES[self.activation_dtype]
        arithmetic, quantization = self.activation_arithmetic, self._quantization
        if quantization and (is_ffn or not quantization.experts_only):
            bits = quantization.bits
            if quantization.arithmetic in self.hardware.peak_flop_per_s:
                arithmetic = quantization.arithmetic
        return Matrix(name, k, n, self.model.num_layers, bits, arithmetic)

    @cached_property
    def output_matrix(self) -> Matrix:
        """What every token that is sampled from is multiplied with."""
        vocab_size = -(-self.model.vocab_size // self.tensor_parallel_size)
        bits = DTYPES[self.activation_dtype]
        return Matrix(
            "lm_head", self.model.d_model, vocab_size, 1, bits, self.activation_arithmetic
        )

    @property
    def weight_bytes(self) -> float:
        """Bytes of all parameters on one GPU; norms, biases and positions are on each."""
        matrices = [*self.layer_matrices, self.output_matrix]
        dense = sum(m.weight_bytes * m.num_layers for m in matrices)
        experts = sum(m.weight_bytes * m.num_layers for m in self.expert_matrices)
        embeddings = 0 if self.model.tied_embeddings else self.model.output_parameters
        others = self.model.other_parameters - embeddings + embeddings / self.tensor_parallel_size
        return dense + experts * self.model.num_experts + others * self.activation_bytes
