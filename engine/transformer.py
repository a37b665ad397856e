"""A small decoder-only language model in NumPy, with random weights.

The architecture is Llama's: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
`forward` computes one step of the engine on the paged pool; `dense_forward` computes a whole
sequence with no cache at all and is what `forward` is tested against.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.attention import paged_attention
from engine.batch import StepBatch
from engine.config import ConfigError
from engine.kv_pool import FloatArray, IntArray, KVPool
from engine.tokenizer import VOCAB_SIZE

# Chosen so that a random model behaves like a decided one. Sharp attention keeps single tokens of
# a long context visible (an even average would hide them, and greedy output would fall into short
# loops); spread logits give the argmax a margin of about 0.5, far above the rounding of about 1e-5.
ATTENTION_SHARPNESS = 2.0  # standard deviation of the attention scores, about
LOGIT_SPREAD = 2.0  # standard deviation of the logits, about


LARGEST = 65_536  # of any size but the vocabulary: beyond it no laptop holds the weights


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Shape and seed of the model.

    num_kv_heads: heads of keys and values; each serves num_heads / num_kv_heads query heads.
    head_size: size of a head, even.
    d_ff: width of the feed-forward layer.
    vocab_size: at least the tokenizer's; ids beyond it are padding and have no logits.
    tied_embeddings: the output matrix is the embedding.
    seed: of the weights.

    Raises ConfigError for a value no model can have.
    """

    num_layers: int = 2
    d_model: int = 64
    num_heads: int = 4
    num_kv_heads: int = 2
    head_size: int = 16
    d_ff: int = 172  # 8/3 of d_model, rounded up to a multiple of 4
    vocab_size: int = VOCAB_SIZE
    tied_embeddings: bool = True
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_layers", "d_model", "num_heads", "num_kv_heads", "d_ff"):
            self._require(name, f"from 1 to {LARGEST}", 1 <= getattr(self, name) <= LARGEST)
        self._require(
            "head_size",
            f"even, from 2 to {LARGEST}",
            2 <= self.head_size <= LARGEST and self.head_size % 2 == 0,
        )
        self._require(
            "num_kv_heads",
            f"a divisor of num_heads ({self.num_heads})",
            self.num_heads % self.num_kv_heads == 0,
        )
        self._require(
            "vocab_size",
            f"from {VOCAB_SIZE} to {10 * LARGEST}",
            VOCAB_SIZE <= self.vocab_size <= 10 * LARGEST,
        )
        self._require("rope_theta", "> 0", self.rope_theta > 0)
        self._require("norm_eps", "> 0", self.norm_eps > 0)
        self._require("seed", ">= 0", self.seed >= 0)

    def _require(self, name: str, expected: str, holds: bool) -> None:
        if not holds:
            raise ConfigError(f"{name}: got {getattr(self, name)!r}, expected {expected}")


class Layer(NamedTuple):
    """Weights of one layer; matrices are [inputs, outputs], parts of a fused one side by side."""

    attention_norm: FloatArray  # [d_model]
    qkv: FloatArray  # [d_model, (num_heads + 2 * num_kv_heads) * head_size]
    out: FloatArray  # [num_heads * head_size, d_model]
    mlp_norm: FloatArray  # [d_model]
    gate_up: FloatArray  # [d_model, 2 * d_ff]
    down: FloatArray  # [d_ff, d_model]


class RotaryTable:
    """Cosines and sines of rotary position embedding; grows with the positions asked for.

    Pair i of a head turns by position * theta ** (-2 i / head_size): RoFormer, Su et al. 2021
    (arXiv:2104.09864).
    """

    def __init__(self, head_size: int, theta: float) -> None:
        self._frequencies = theta ** (-np.arange(0, head_size, 2) / head_size)
        self._fill(num_positions=128)

    def _fill(self, num_positions: int) -> None:
        angles = np.arange(num_positions)[:, None, None] * self._frequencies
        self._cos = np.cos(angles).astype(np.float32)  # [positions, 1, head_size / 2]
        self._sin = np.sin(angles).astype(np.float32)

    def at(self, positions: IntArray) -> tuple[FloatArray, FloatArray]:
        """Cosines and sines for `rotate`, each [tokens, 1, head_size / 2]; tokens >= 1."""
        last = int(positions.max())
        if last >= len(self._cos):
            self._fill(num_positions=2 * last)
        return self._cos[positions], self._sin[positions]


def rotate(x: FloatArray, cos: FloatArray, sin: FloatArray) -> FloatArray:
    """Turn every head of x [tokens, heads, head_size] by its token's angles.

    Element i is paired with i + head_size / 2 (half-split, as Llama checkpoints store it).
    """
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)


def rms_norm(x: FloatArray, gain: FloatArray, eps: float) -> FloatArray:
    """Rows of x scaled to a root mean square of 1, then by gain: Zhang & Sennrich 2019."""
    mean_square = np.square(x).sum(axis=-1, keepdims=True) / np.float32(x.shape[-1])
    normed: FloatArray = x / np.sqrt(mean_square + np.float32(eps)) * gain
    return normed


class Transformer:
    """The model: float32 weights drawn from `config.seed`, and its two ways to compute."""

    def __init__(self, config: TransformerConfig) -> None:
        self.config = config
        rng = np.random.default_rng(config.seed)
        self.embedding = _matrix(rng, config.d_model, config.vocab_size).T  # [vocab, d_model]
        self.layers = [_layer(rng, config) for _ in range(config.num_layers)]
        self.final_norm = _gain(rng, config.d_model) * np.float32(LOGIT_SPREAD)
        output = (
            self.embedding.T
            if config.tied_embeddings
            else _matrix(rng, config.d_model, config.vocab_size)
        )
        self.output = output[:, :VOCAB_SIZE]  # [d_model, the tokenizer's ids]
        self._rotary = RotaryTable(config.head_size, config.rope_theta)

    def forward(self, batch: StepBatch, pool: KVPool) -> FloatArray:
        """Compute all tokens of a step, at least one; fills their slots of the pool.

        In each layer all keys and values of the step are written before attention reads any, so a
        chunk may read blocks that another chunk of the step fills. Returns the logits of the rows
        that sample, [samples, vocab].
        """
        eps = self.config.norm_eps
        cos, sin = self._rotary.at(batch.positions)
        x = self.embedding[batch.token_ids]  # [tokens, d_model]
        for index, layer in enumerate(self.layers):
            q, k, v = self._project(layer, rms_norm(x, layer.attention_norm, eps), cos, sin)
            pool.write(index, batch.slots, k, v)
            heads = paged_attention(q, pool, index, batch.groups)
            x = x + heads.reshape(len(x), -1) @ layer.out
            x = x + _feed_forward(layer, rms_norm(x, layer.mlp_norm, eps))
        logits: FloatArray = rms_norm(x[batch.sample_rows], self.final_norm, eps) @ self.output
        return logits

    def _project(
        self, layer: Layer, x: FloatArray, cos: FloatArray, sin: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rotated q and k, and v, each [tokens, its heads, head_size]."""
        num_heads, kv_heads = self.config.num_heads, self.config.num_kv_heads
        qkv = (x @ layer.qkv).reshape(len(x), num_heads + 2 * kv_heads, self.config.head_size)
        qk = rotate(qkv[:, : num_heads + kv_heads], cos, sin)
        return qk[:, :num_heads], qk[:, num_heads:], qkv[:, num_heads + kv_heads :]

    def dense_forward(self, token_ids: list[int]) -> FloatArray:
        """Logits [tokens, vocab] after each token of one sequence, from its token ids alone.

        Nothing is fused, paged or cached: this is the oracle that `forward` is tested against.
        """
        config = self.config
        q_size = config.num_heads * config.head_size
        kv_size = config.num_kv_heads * config.head_size
        cos, sin = self._rotary.at(np.arange(len(token_ids)))
        x = self.embedding[token_ids]
        for layer in self.layers:
            h = rms_norm(x, layer.attention_norm, config.norm_eps)
            q = h @ layer.qkv[:, :q_size]
            k = h @ layer.qkv[:, q_size : q_size + kv_size]
            v = h @ layer.qkv[:, q_size + kv_size :]
            q = rotate(q.reshape(-1, config.num_heads, config.head_size), cos, sin)
            k = rotate(k.reshape(-1, config.num_kv_heads, config.head_size), cos, sin)
            v = v.reshape(-1, config.num_kv_heads, config.head_size)
            x = x + _dense_attention(q, k, v).reshape(-1, q_size) @ layer.out
            h = rms_norm(x, layer.mlp_norm, config.norm_eps)
            gate = h @ layer.gate_up[:, : config.d_ff]
            up = h @ layer.gate_up[:, config.d_ff :]
            x = x + (gate / (1 + np.exp(-gate)) * up) @ layer.down
        logits: FloatArray = rms_norm(x, self.final_norm, config.norm_eps) @ self.output
        return logits


def _dense_attention(q: FloatArray, k: FloatArray, v: FloatArray) -> FloatArray:
    """Causal attention of one whole sequence, head by head; each array [tokens, heads, head]."""
    num_tokens, num_heads, head_size = q.shape
    share = num_heads // k.shape[1]
    causal = np.tril(np.ones((num_tokens, num_tokens), bool))
    out = np.empty_like(q)
    for head in range(num_heads):
        scores = q[:, head] @ k[:, head // share].T / head_size**0.5  # [tokens, tokens]
        scores = np.where(causal, scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        out[:, head] = weights @ v[:, head // share]
    return out


def _feed_forward(layer: Layer, x: FloatArray) -> FloatArray:
    """SwiGLU, Shazeer 2020 (arXiv:2002.05202): (silu(x @ gate) * (x @ up)) @ down."""
    gate_up = x @ layer.gate_up
    d_ff = len(layer.down)
    gate, up = gate_up[:, :d_ff], gate_up[:, d_ff:]  # each [tokens, d_ff]
    sigmoid = np.float32(0.5) + np.float32(0.5) * np.tanh(np.float32(0.5) * gate)  # no overflow
    out: FloatArray = (gate * sigmoid * up) @ layer.down
    return out


def _layer(rng: np.random.Generator, config: TransformerConfig) -> Layer:
    q_size = config.num_heads * config.head_size
    kv_size = config.num_kv_heads * config.head_size
    qkv = _matrix(rng, config.d_model, q_size + 2 * kv_size)
    qkv[:, :q_size] *= np.float32(ATTENTION_SHARPNESS)
    return Layer(
        attention_norm=_gain(rng, config.d_model),
        qkv=qkv,
        out=_matrix(rng, q_size, config.d_model),
        mlp_norm=_gain(rng, config.d_model),
        gate_up=_matrix(rng, config.d_model, 2 * config.d_ff),
        down=_matrix(rng, config.d_ff, config.d_model),
    )


def _matrix(rng: np.random.Generator, inputs: int, outputs: int) -> FloatArray:
    """[inputs, outputs] that keeps the variance: unit inputs give outputs of deviation 1."""
    weights = rng.standard_normal((inputs, outputs), dtype=np.float32)
    return weights / np.float32(inputs**0.5)


def _gain(rng: np.random.Generator, size: int) -> FloatArray:
    """Gains of a norm, around 1."""
    return 1 + np.float32(0.1) * rng.standard_normal(size, dtype=np.float32)
