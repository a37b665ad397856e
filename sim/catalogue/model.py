"""A decoder-only transformer by its sizes, and what follows from them."""

from dataclasses import dataclass
from typing import NamedTuple

DTYPES = {"float32": 32, "float16": 16, "bfloat16": 16, "fp8": 8}  # bits of a number


@dataclass(frozen=True, kw_only=True)
class Model:
    """A decoder-only transformer.

    source: where the sizes are from. hf_ids: models on Hugging Face that have them.
    num_kv_heads_total: over all layers, where they differ between layers; else 0.
    d_ff: width of the feed-forward network, of one expert where there are num_experts of them.
    ffn: `gated` has three matrices (gate, up, down), `plain` two (up, down).
    num_experts_per_token: experts that compute each token.
    sliding_window: tokens to which num_window_layers of the layers restrict their attention.
    num_learned_positions: rows of a table of position embeddings.
    biases: which have them: `qkv`, `o`, `ffn`, `router`, `norm`; `sink`: a number per head, that
        takes part in each of its softmaxes.
    norms_per_layer: normalisations of d_model numbers; there is one more after the last layer.
    qk_norm: whether queries and keys are normalised, by one vector of head_size each.
    dtype, quantization: in which the weights are published; see `QUANTIZATIONS`.
    """

    title: str
    source: str
    hf_ids: tuple[str, ...] = ()
    num_layers: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    num_kv_heads_total: int = 0
    head_size: int
    d_ff: int
    vocab_size: int
    ffn: str = "gated"
    num_experts: int = 0
    num_experts_per_token: int = 0
    sliding_window: int = 0
    num_window_layers: int = 0
    tied_embeddings: bool = False
    num_learned_positions: int = 0
    biases: tuple[str, ...] = ()
    norms_per_layer: int = 2
    qk_norm: bool = False
    dtype: str = "bfloat16"
    quantization: str = "none"

    @property
    def kv_heads(self) -> int:
        """KV heads of all layers together."""
        return self.num_kv_heads_total or self.num_layers * self.num_kv_heads

    @property
    def attention_parameters(self) -> int:
        """Weights of all layers' projections to Q, K and V and of the attention's output."""
        return (
            self.d_model * self.head_size * 2 * (self.num_layers * self.num_heads + self.kv_heads)
        )

    @property
    def num_up_matrices(self) -> int:
        """Matrices of a feed-forward network before its activation; one more comes after."""
        return 2 if self.ffn == "gated" else 1

    @property
    def expert_parameters(self) -> int:
        """Weights of one feed-forward network, of one expert of one layer where there are some."""
        return self.d_model * self.d_ff * (self.num_up_matrices + 1)

    @property
    def ffn_parameters(self) -> int:
        """Weights of all layers' feed-forward networks, all experts counted."""
        return self.num_layers * self.expert_parameters * max(self.num_experts, 1)

    @property
    def router_parameters(self) -> int:
        """Weights that choose the experts, of all layers."""
        return self.num_layers * self.d_model * self.num_experts

    @property
    def output_parameters(self) -> int:
        """Weights of the output projection, multiplied with the tokens that are sampled from."""
        return self.d_model * self.vocab_size

    @property
    def other_parameters(self) -> int:
        """Embeddings (those that the output projection shares are counted there), norms, biases."""
        embeddings = self.num_learned_positions
        if not self.tied_embeddings:
            embeddings += self.vocab_size
        qk_norms = 2 * self.num_layers * self.head_size if self.qk_norm else 0
        norms = self._norm_parameters + qk_norms
        return embeddings * self.d_model + norms + self._bias_parameters

    @property
    def _norm_parameters(self) -> int:
        return (self.norms_per_layer * self.num_layers + 1) * self.d_model

    @property
    def _bias_parameters(self) -> int:
        num_up = self.num_up_matrices
        sizes = {
            "qkv": self.head_size * (self.num_layers * self.num_heads + 2 * self.kv_heads),
            "o": self.num_layers * self.d_model,
            "ffn": self.num_layers * max(self.num_experts, 1) * (num_up * self.d_ff + self.d_model),
            "router": self.num_layers * self.num_experts,
            "norm": self._norm_parameters,
            "sink": self.num_layers * self.num_heads,
        }
        return sum(sizes[name] for name in self.biases)

    @property
    def num_parameters(self) -> int:
        """All parameters, counted once where embeddings and output share them."""
        layers = self.attention_parameters + self.ffn_parameters + self.router_parameters
        return layers + self.output_parameters + self.other_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one token is multiplied with in the layers."""
        num_networks = self.num_experts_per_token or 1
        ffn = self.num_layers * self.expert_parameters * num_networks
        return self.attention_parameters + self.router_parameters + ffn

    @property
    def attention_flop_per_pair(self) -> int:
        """FLOPs of one query attending to one token, in all layers: products with K and with V."""
        return 4 * self.num_layers * self.num_heads * self.head_size

    def flop_per_token(self, context_tokens: int) -> int:
        """FLOPs of one token that attends to context_tokens and is sampled from.

        2 per weight that it is multiplied with, 4 per head dimension and token it attends to
        (Kaplan et al., arXiv 2001.08361, section 2.1).
        """
        matrices = 2 * (self.active_parameters + self.output_parameters)
        return matrices + self.attention_flop_per_pair * context_tokens


class Quantization(NamedTuple):
    """How the weights of the layers' matrices are stored; embeddings and output stay as they are.

    bits: of one weight, scales included. arithmetic: of the products; None: that of the
    activations. experts_only: whether only the experts' weights are stored so.
    """

    bits: float
    arithmetic: str | None = None
    experts_only: bool = False


QUANTIZATIONS = {
    "none": None,
    "fp8": Quantization(8, "fp8"),
    # Groups of 128 weights share a scale of 16 bits and a zero point of 4: Lin et al., AWQ,
    # arXiv 2306.00978; Frantar et al., GPTQ, arXiv 2210.17323.
    "int4": Quantization(4 + 20 / 128),
    # Blocks of 32 weights share a scale of 8 bits: OCP Microscaling Formats (MX) v1.0, section 5.
    "mxfp4": Quantization(4 + 8 / 32, experts_only=True),
}
