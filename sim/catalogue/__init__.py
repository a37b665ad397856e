"""Catalogues of GPUs and models, and the arithmetic of a model: parameters, bytes, FLOPs."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A GPU: dense peak FLOP/s in the model's precision, memory and its bandwidth."""

    title: str
    peak_flop_per_s: float
    memory_bytes: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, kw_only=True)
class Model:
    """A decoder-only transformer by its sizes. Weights, activations and KV have one precision."""

    title: str
    source: str
    num_layers: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    d_ff: int
    vocab_size: int
    ffn: str
    tied_embeddings: bool
    num_learned_positions: int
    biases: bool
    bytes_per_parameter: int

    @property
    def num_layer_matrix_parameters(self) -> int:
        """Weights of all layers that every token is multiplied with."""
        attention = self.d_model * self.head_size * 2 * (self.num_heads + self.num_kv_heads)
        ffn = self.d_model * self.d_ff * (3 if self.ffn == "gated" else 2)
        return self.num_layers * (attention + ffn)

    @property
    def num_output_parameters(self) -> int:
        """Weights of the output projection, multiplied with the tokens that are sampled from."""
        return self.d_model * self.vocab_size

    @property
    def num_parameters(self) -> int:
        """All parameters, counted once where embeddings and output share them."""
        embeddings = self.vocab_size + self.num_learned_positions
        if not self.tied_embeddings:
            embeddings += self.vocab_size
        norms = (2 * self.num_layers + 1) * self.d_model
        biases = 0
        if self.biases:  # of every matrix, and of every norm
            attention = self.head_size * (self.num_heads + 2 * self.num_kv_heads) + self.d_model
            biases = self.num_layers * (attention + self.d_ff + self.d_model) + norms
        return self.num_layer_matrix_parameters + embeddings * self.d_model + norms + biases

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters."""
        return self.num_parameters * self.bytes_per_parameter

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of one token's keys and values over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_size * self.bytes_per_parameter

    @property
    def attention_flop_per_pair(self) -> int:
        """FLOPs of one query token attending to one context token: a product with K, one with V."""
        return 4 * self.num_layers * self.num_heads * self.head_size


def hardware(name: str) -> Hardware:
    """A GPU of the catalogue. Raises KeyError for an unknown name."""
    return Hardware(**_read("hardware")[name])


def model(name: str) -> Model:
    """A model of the catalogue. Raises KeyError for an unknown name."""
    return Model(**_read("models")[name])


def names(table: str) -> list[str]:
    """Names in a table of the catalogue, `hardware` or `models`."""
    return sorted(_read(table))


@cache
def _read(table: str) -> dict[str, Any]:
    return tomllib.loads(files("sim.catalogue").joinpath(f"{table}.toml").read_text("utf-8"))
