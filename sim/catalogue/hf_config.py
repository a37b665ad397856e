"""Reads the config.json of a model on Hugging Face; refuses what a Model cannot describe."""

from pathlib import Path
from typing import Any

from sim.catalogue.config_keys import ConfigKeys, read_config_keys
from sim.catalogue.hf_types import MODEL_TYPES, ModelType
from sim.catalogue.model import Model

# Keys that say of a model what a Model has no field for, if they are not null, 0, false or empty.
_INDESCRIBABLE = {
    "is_encoder_decoder": "encoders",
    "add_cross_attention": "cross-attention",
    "kv_lora_rank": "latent attention",
    "n_shared_experts": "experts that all tokens share",
    "num_shared_experts": "experts that all tokens share",
    "shared_expert_intermediate_size": "experts that all tokens share",
    "first_k_dense_replace": "layers without experts beside those with them",
    "mlp_only_layers": "layers without experts beside those with them",
    "block_configs": "layers of different sizes",
    "num_kv_shared_layers": "layers that share their K/V",
    "mamba_d_state": "state-space layers",
    "mamba_d_ssm": "state-space layers",
    "state_size": "state-space layers",
    "ssm_cfg": "state-space layers",
    "hybrid_override_pattern": "state-space layers",
    "linear_num_value_heads": "linear attention",
    "linear_attn_config": "linear attention",
}
# Keys that say at every how many layers there are experts.
_EXPERT_STEPS = ("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step")

_DTYPES = ("float32", "float16", "bfloat16")
_COMPRESSED = {(8, "float"): "fp8", (4, "int"): "int4"}  # by num_bits and type


def read_config(path: str) -> Model:
    """A model by its config.json; of one that sees or hears besides, the language model.

    A type of model that is not known is refused, for its keys could mean anything. Raises
    UserError: one line with file, key, value and what was expected.
    """
    file = read_config_keys(path)
    keys = file.part("text_config") if "text_config" in file.data else file
    for mapping in (file, keys):
        _refuse_indescribable(mapping)
    model_type = MODEL_TYPES[keys.one_of("model_type", choices=tuple(MODEL_TYPES))]
    num_layers = keys.size("num_hidden_layers", "n_layer")
    attention = _attention_sizes(keys, model_type, num_layers)
    return Model(
        title=_title(path),
        source=path,
        num_layers=num_layers,
        vocab_size=keys.size("vocab_size", default=model_type.vocab_size or None),
        ffn=model_type.ffn,
        tied_embeddings=_outer(file, keys, "tie_word_embeddings").flag(
            "tie_word_embeddings", default=model_type.tied_embeddings
        ),
        num_learned_positions=_num_learned_positions(keys, model_type),
        biases=_biases(keys, model_type),
        norms_per_layer=model_type.norms_per_layer,
        qk_norm=model_type.qk_norm,
        dtype=_dtype(file, keys, model_type),
        quantization=_quantization(_outer(file, keys, "quantization_config")),
        **attention,
        **_ffn_sizes(keys, model_type, attention["d_model"]),
        **_window(keys, model_type, num_layers),
    )


def _title(path: str) -> str:
    stem, folder = Path(path).stem, Path(path).absolute().parent.name
    return folder if stem == "config" and folder else stem


def _outer(file: ConfigKeys, keys: ConfigKeys, key: str) -> ConfigKeys:
    """The mapping that has a key that may stand outside of text_config."""
    return keys if keys.get(key) is not None else file


def _refuse_indescribable(keys: ConfigKeys) -> None:
    for key, what in _INDESCRIBABLE.items():
        if keys.get(key):
            keys.refuse(key, f"none, for {what} cannot be described")
    for key in _EXPERT_STEPS:
        if keys.get(key, 1) != 1:
            keys.refuse(key, "1, for layers with and without experts cannot be described")
    if keys.get("do_layer_norm_before", True) is not True:
        keys.refuse("do_layer_norm_before", "true, for norms after a layer cannot be described")
    if keys.get("word_embed_proj_dim", d := keys.get("hidden_size")) != d:
        keys.refuse("word_embed_proj_dim", f"the hidden_size {d}, for nothing projects embeddings")


def _attention_sizes(keys: ConfigKeys, kind: ModelType, num_layers: int) -> dict[str, Any]:
    d_model = keys.size("hidden_size", "n_embd")
    heads_key = keys.name_of("num_attention_heads", "n_head")
    num_heads = keys.size(heads_key, default=kind.num_heads or None)
    head_size = kind.head_size or d_model // num_heads
    if keys.get("head_dim") is None and not kind.head_size and d_model % num_heads:
        keys.refuse(heads_key, f"a divisor of the hidden size {d_model}")
    return {
        "d_model": d_model,
        "num_heads": num_heads,
        "head_size": keys.size("head_dim", default=head_size),
        **_kv_heads(keys, kind, num_layers, num_heads),
    }


def _kv_heads(keys: ConfigKeys, kind: ModelType, num_layers: int, num_heads: int) -> dict[str, Any]:
    key = "num_key_value_heads"
    is_null = key in keys.data and keys.data[key] is None
    default = num_heads if is_null else kind.num_kv_heads or num_heads
    num_kv_heads = keys.size(key, default=default)
    if num_heads % num_kv_heads:
        keys.refuse(key, f"a divisor of the {num_heads} attention heads")
    return {"num_kv_heads": num_kv_heads}


def _ffn_sizes(keys: ConfigKeys, kind: ModelType, d_model: int) -> dict[str, Any]:
    widths = ("intermediate_size", "ffn_dim", "n_inner")
    if not kind.has_experts:
        return {"d_ff": keys.size(*widths, default=kind.d_ff_ratio * d_model or None)}
    num_experts = keys.size("num_experts", "num_local_experts")
    key = keys.name_of("num_experts_per_tok", "experts_per_token")
    num_chosen = keys.size(key)
    if num_chosen > num_experts:
        keys.refuse(key, f"at most the {num_experts} experts")
    return {
        "d_ff": keys.size("moe_intermediate_size", *widths),
        "num_experts": num_experts,
        "num_experts_per_token": num_chosen,
    }


def _window(keys: ConfigKeys, kind: ModelType, num_layers: int) -> dict[str, Any]:
    key = "sliding_window"
    if keys.get("layer_types") is not None:
        num_window_layers = _listed_window_layers(keys, num_layers)
    elif keys.get(key) is None and (key in keys.data or not kind.sliding_window):
        num_window_layers = 0
    else:
        num_window_layers = kind.window_layers(keys, num_layers)
    if not num_window_layers:
        return {}
    window = keys.size(key, default=kind.sliding_window or None)
    return {"sliding_window": window, "num_window_layers": num_window_layers}


def _listed_window_layers(keys: ConfigKeys, num_layers: int) -> int:
    layers = keys.get("layer_types")
    known = ("full_attention", "sliding_attention")
    if not isinstance(layers, list) or len(layers) != num_layers:
        keys.refuse("layer_types", f"one for each of the {num_layers} layers")
    if any(layer not in known for layer in layers):
        keys.refuse("layer_types", f"each one of {', '.join(known)}")
    return layers.count("sliding_attention")


def _num_learned_positions(keys: ConfigKeys, kind: ModelType) -> int:
    if kind.extra_positions is None:
        return 0
    return keys.size("n_positions", "max_position_embeddings") + kind.extra_positions


def _biases(keys: ConfigKeys, kind: ModelType) -> tuple[str, ...]:
    return tuple(
        bias.name
        for bias in kind.biases
        if bias.key is None or keys.flag(bias.key, default=bias.default)
    )


def _dtype(file: ConfigKeys, keys: ConfigKeys, kind: ModelType) -> str:
    names = ("dtype", "torch_dtype")
    holder = keys if keys.get(keys.name_of(*names)) is not None else file
    if kind.dtype and holder.get(holder.name_of(*names)) is None:
        return kind.dtype
    return holder.one_of(*reversed(names), choices=_DTYPES)


def _quantization(keys: ConfigKeys) -> str:
    if keys.get("quantization_config") is None:
        return "none"
    settings = keys.part("quantization_config")
    methods: dict[str, Any] = {
        "fp8": lambda settings: "fp8",
        "fbgemm_fp8": lambda settings: "fp8",
        "mxfp4": lambda settings: "mxfp4",
        "awq": _four_bits,
        "gptq": _four_bits,
        "compressed-tensors": _compressed,
    }
    method = settings.one_of("quant_method", choices=tuple(methods))
    quantization: str = methods[method](settings)
    return quantization


def _four_bits(settings: ConfigKeys) -> str:
    key = settings.name_of("bits", "w_bit")
    if settings.size(key) != 4:
        settings.refuse(key, "4")
    return "int4"


def _compressed(settings: ConfigKeys) -> str:
    groups = settings.part("config_groups")
    found = {_compressed_group(groups.part(name)) for name in groups.data}
    if len(found) != 1:
        settings.refuse("config_groups", "one type for all weights")
    return found.pop()


def _compressed_group(group: ConfigKeys) -> str:
    weights = group.part("weights")
    bits = (weights.size("num_bits"), weights.one_of("type", choices=("float", "int")))
    if bits not in _COMPRESSED:
        weights.refuse("num_bits", "8 of type float, or 4 of type int")
    if bits[0] == 8 and group.get("input_activations") is None:
        group.refuse("input_activations", "8 bits as the weights have")
    return _COMPRESSED[bits]
