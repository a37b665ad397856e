"""Types of models on Hugging Face: what a config.json leaves to its `model_type`.

Only types that a Model describes to the last parameter are here. Defaults are those of
transformers 4.57, `configuration_*.py`; biases and norms those of its `modeling_*.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sim.catalogue.config_keys import ConfigKeys


class Bias(NamedTuple):
    """What has a bias, see Model, and the key that says whether; no key: it always has."""

    name: str
    key: str | None = None
    default: bool = False


def no_layers(keys: ConfigKeys, num_layers: int) -> int:
    """Layers with a sliding window: none."""
    return 0


def all_layers(keys: ConfigKeys, num_layers: int) -> int:
    """All of them."""
    return num_layers


def every_other_layer(keys: ConfigKeys, num_layers: int) -> int:
    """The first of every two."""
    return -(-num_layers // 2)


def all_but_every_sixth(keys: ConfigKeys, num_layers: int) -> int:
    """All but the last of every sliding_window_pattern layers."""
    return num_layers - num_layers // keys.size("sliding_window_pattern", default=6)


def layers_from_a_depth(keys: ConfigKeys, num_layers: int) -> int:
    """Those from max_window_layers on, if they are used."""
    if not keys.flag("use_sliding_window", default=False):
        return 0
    return max(0, num_layers - keys.size("max_window_layers", default=28))


def layers_if_used(keys: ConfigKeys, num_layers: int) -> int:
    """All, if they are used."""
    return num_layers if keys.flag("use_sliding_window", default=False) else 0


@dataclass(frozen=True, kw_only=True)
class ModelType:
    """One type. Names are those of Model; its numbers are defaults, 0 where there is none.

    window_layers: how many layers have a sliding window, where no `layer_types` lists them.
    d_ff_ratio: d_ff / d_model. extra_positions: rows of a table of positions beside those that can
    be used; None where there is no table. dtype: of the weights where no key names it.
    """

    biases: tuple[Bias, ...] = ()
    window_layers: Callable[[ConfigKeys, int], int] = no_layers
    sliding_window: int = 0
    num_heads: int = 0
    num_kv_heads: int = 0
    head_size: int = 0
    d_ff_ratio: int = 0
    vocab_size: int = 0
    has_experts: bool = False
    ffn: str = "gated"
    tied_embeddings: bool = False
    qk_norm: bool = False
    norms_per_layer: int = 2
    extra_positions: int | None = None
    dtype: str = ""


def _by(key: str, *names: str, default: bool = False) -> tuple[Bias, ...]:
    return tuple(Bias(name, key, default) for name in names)


def _always(*names: str) -> tuple[Bias, ...]:
    return tuple(Bias(name) for name in names)


_LLAMA = ModelType(biases=_by("attention_bias", "qkv", "o") + _by("mlp_bias", "ffn"))
_INTERNLM = ModelType(biases=_by("bias", "qkv", "o", default=True))
_QWEN3: dict[str, Any] = {
    "biases": _by("attention_bias", "qkv", "o"),
    "sliding_window": 4096,
    "qk_norm": True,
}
_GEMMA: dict[str, Any] = {
    "biases": _by("attention_bias", "qkv", "o"),
    "head_size": 256,
    "tied_embeddings": True,
}
_LATER_GEMMA: dict[str, Any] = _GEMMA | {
    "sliding_window": 4096,
    "num_heads": 8,
    "num_kv_heads": 4,
    "norms_per_layer": 4,
}

MODEL_TYPES = {
    "llama": _LLAMA,
    "granite": _LLAMA,
    "internlm": _INTERNLM,
    "internlm2": _INTERNLM,
    "mistral": ModelType(window_layers=all_layers, sliding_window=4096, num_kv_heads=8),
    "mixtral": ModelType(window_layers=all_layers, num_kv_heads=8, has_experts=True),
    "phi3": ModelType(window_layers=all_layers),
    "qwen2": ModelType(
        biases=_always("qkv"),
        window_layers=layers_from_a_depth,
        sliding_window=4096,
        num_kv_heads=32,
    ),
    "qwen3": ModelType(window_layers=layers_from_a_depth, num_kv_heads=32, head_size=128, **_QWEN3),
    "qwen3_moe": ModelType(
        window_layers=layers_if_used, num_kv_heads=4, has_experts=True, **_QWEN3
    ),
    "gpt_oss": ModelType(
        biases=_by("attention_bias", "qkv", "o", default=True) + _always("ffn", "router", "sink"),
        window_layers=every_other_layer,
        sliding_window=128,
        num_kv_heads=8,
        head_size=64,
        has_experts=True,
        dtype="bfloat16",
    ),
    "gemma": ModelType(num_kv_heads=16, **_GEMMA),
    "gemma2": ModelType(window_layers=every_other_layer, **_LATER_GEMMA),
    "gemma3_text": ModelType(
        window_layers=all_but_every_sixth, vocab_size=262208, qk_norm=True, **_LATER_GEMMA
    ),
    "opt": ModelType(
        biases=_by("enable_bias", "qkv", "o", "ffn", default=True)
        + _by("layer_norm_elementwise_affine", "norm", default=True),
        ffn="plain",
        tied_embeddings=True,
        extra_positions=2,
    ),
    "gpt2": ModelType(
        biases=_always("qkv", "o", "ffn", "norm"),
        d_ff_ratio=4,
        ffn="plain",
        tied_embeddings=True,
        extra_positions=0,
        dtype="float32",
    ),
    "gpt_neox": ModelType(
        biases=_by("attention_bias", "qkv", "o", default=True) + _always("ffn", "norm"),
        ffn="plain",
    ),
}
