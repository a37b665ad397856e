"""Models read from a config.json: their sizes, and a line for each mistake.

The configs are cut down to the keys that matter; their values are those of the published files.
"""

import json

import pytest

from sim import catalogue
from sim.catalogue import load_model
from sim.errors import UserError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_window_layers": 48,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 151936,
}
GEMMA3_TEXT = {
    "model_type": "gemma3_text",
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_hidden_layers": 34,
    "sliding_window": 1024,
    "vocab_size": 262144,
}

# Published configs and the number of parameters of their checkpoints.
PUBLISHED = {
    "llama-3.1-8b": (LLAMA, 8_030_261_248),
    "qwen3-30b-a3b": (QWEN3_MOE, 30_532_122_624),
    "qwen2.5-7b": (
        {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "max_window_layers": 28,
            "num_attention_heads": 28,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "sliding_window": 131072,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_sliding_window": False,
            "vocab_size": 152064,
        },
        7_615_616_512,
    ),
    "qwen3-4b": (
        {
            "model_type": "qwen3",
            "attention_bias": False,
            "head_dim": 128,
            "hidden_size": 2560,
            "intermediate_size": 9728,
            "num_attention_heads": 32,
            "num_hidden_layers": 36,
            "num_key_value_heads": 8,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "vocab_size": 151936,
        },
        4_022_468_096,
    ),
    "mixtral-8x7b": (
        {
            "model_type": "mixtral",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_experts_per_tok": 2,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "num_local_experts": 8,
            "sliding_window": None,
            "torch_dtype": "bfloat16",
            "vocab_size": 32000,
        },
        46_702_792_704,
    ),
    "gpt-oss-20b": (
        {
            "model_type": "gpt_oss",
            "attention_bias": True,
            "head_dim": 64,
            "hidden_size": 2880,
            "intermediate_size": 2880,
            "layer_types": ["sliding_attention", "full_attention"] * 12,
            "num_attention_heads": 64,
            "num_experts_per_tok": 4,
            "num_hidden_layers": 24,
            "num_key_value_heads": 8,
            "num_local_experts": 32,
            "quantization_config": {"quant_method": "mxfp4"},
            "sliding_window": 128,
            "tie_word_embeddings": False,
            "vocab_size": 201088,
        },
        20_914_757_184,
    ),
    "opt-13b": (
        {
            "model_type": "opt",
            "do_layer_norm_before": True,
            "ffn_dim": 20480,
            "hidden_size": 5120,
            "max_position_embeddings": 2048,
            "num_attention_heads": 40,
            "num_hidden_layers": 40,
            "torch_dtype": "float16",
            "vocab_size": 50272,
            "word_embed_proj_dim": 5120,
        },
        12_853_473_280,
    ),
    "phi-3-mini": (
        {
            "model_type": "phi3",
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 32,
            "sliding_window": 2047,
            "torch_dtype": "bfloat16",
            "vocab_size": 32064,
        },
        3_821_079_552,
    ),
    "gemma-2-9b": (
        {
            "model_type": "gemma2",
            "head_dim": 256,
            "hidden_size": 3584,
            "intermediate_size": 14336,
            "num_attention_heads": 16,
            "num_hidden_layers": 42,
            "num_key_value_heads": 8,
            "sliding_window": 4096,
            "torch_dtype": "bfloat16",
            "vocab_size": 256000,
        },
        9_241_705_984,
    ),
    "gemma-3-4b": (
        {"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": GEMMA3_TEXT},
        3_880_099_328,  # without what sees
    ),
    "gpt2": (
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_head": 12,
            "n_inner": None,
            "n_layer": 12,
            "n_positions": 1024,
            "vocab_size": 50257,
        },
        124_439_808,
    ),
    "pythia-6.9b": (
        {
            "model_type": "gpt_neox",
            "hidden_size": 4096,
            "intermediate_size": 16384,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "tie_word_embeddings": False,
            "torch_dtype": "float16",
            "vocab_size": 50432,
        },
        6_857_302_016,
    ),
    "internlm2.5-7b": (
        {
            "model_type": "internlm2",
            "bias": False,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "vocab_size": 92544,
        },
        7_737_708_544,
    ),
}


@pytest.fixture
def write(tmp_path):
    """Writes a config.json, from text or a mapping of keys; returns its path."""

    def write(content) -> str:
        path = tmp_path / "tiny-7b" / "config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return str(path)

    return write


def without(config: dict, key: str) -> dict:
    return {name: value for name, value in config.items() if name != key}


@pytest.mark.parametrize("name", PUBLISHED)
def test_number_of_parameters_is_the_published_one(write, name):
    config, num_parameters = PUBLISHED[name]
    assert load_model(write(config)).num_parameters == num_parameters


@pytest.mark.parametrize("name", sorted(PUBLISHED.keys() & set(catalogue.names("models"))))
def test_sizes_are_those_of_the_catalogue(write, name):
    """Two who read the same file: a person into the catalogue, and the reader."""
    assert sizes(load_model(write(PUBLISHED[name][0]))) == sizes(load_model(name))


def sizes(model) -> dict:
    return {k: v for k, v in vars(model).items() if k not in ("title", "source", "hf_ids")}


def test_model_is_called_by_its_folder(write):
    assert load_model(write(LLAMA)).title == "tiny-7b"


def test_head_size_need_not_be_a_share_of_the_width(write):
    assert load_model(write(LLAMA | {"head_dim": 64})).head_size == 64


def test_without_kv_heads_there_are_as_many_as_heads(write):
    assert load_model(write(without(LLAMA, "num_key_value_heads"))).num_kv_heads == 32


def test_type_decides_what_is_left_out(write):
    """Mistral's KV heads, if nothing is said, are 8 by its type; null is as many as heads."""
    mistral = without(LLAMA, "num_key_value_heads") | {"model_type": "mistral"}
    assert load_model(write(mistral)).num_kv_heads == 8
    assert load_model(write(mistral | {"num_key_value_heads": None})).num_kv_heads == 32


@pytest.mark.parametrize(
    ("key", "names"), [("attention_bias", ("qkv", "o")), ("mlp_bias", ("ffn",))]
)
def test_biases_of_a_llama(write, key, names):
    assert load_model(write(LLAMA | {key: True})).biases == names


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_dtype_by_its_old_name_and_its_new(write, key):
    assert load_model(write(without(LLAMA, "torch_dtype") | {key: "float16"})).dtype == "float16"


MISTRAL = LLAMA | {"model_type": "mistral"}
QWEN2 = LLAMA | {"model_type": "qwen2", "sliding_window": 512, "max_window_layers": 24}


@pytest.mark.parametrize(
    ("config", "num_layers", "window"),
    [
        (LLAMA | {"sliding_window": 512}, 0, 0),
        (MISTRAL, 32, 4096),
        (MISTRAL | {"sliding_window": 512}, 32, 512),
        (MISTRAL | {"sliding_window": None}, 0, 0),
        (QWEN2, 0, 0),
        (QWEN2 | {"use_sliding_window": True}, 8, 512),
        (PUBLISHED["gpt-oss-20b"][0], 12, 128),
        (without(PUBLISHED["gpt-oss-20b"][0], "layer_types"), 12, 128),
        (PUBLISHED["gemma-2-9b"][0], 21, 4096),
        (PUBLISHED["gemma-3-4b"][0], 34 - 5, 1024),
        (PUBLISHED["phi-3-mini"][0], 32, 2047),
    ],
)
def test_layers_with_a_window(write, config, num_layers, window):
    model = load_model(write(config))
    assert (model.num_window_layers, model.sliding_window) == (num_layers, window)


def compressed(num_bits: int, kind: str, activations: dict | None = None) -> dict:
    group = {"weights": {"num_bits": num_bits, "type": kind}, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


FP8 = compressed(8, "float", {"num_bits": 8, "type": "float"})


@pytest.mark.parametrize(
    ("settings", "quantization"),
    [
        (None, "none"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4"),
        (FP8, "fp8"),
        (compressed(4, "int"), "int4"),
    ],
    ids=str,
)
def test_quantization(write, settings, quantization):
    assert load_model(write(LLAMA | {"quantization_config": settings})).quantization == quantization


MISTAKES = [
    ("not json", ["not JSON"]),
    ('{"hidden_size": NaN}', ["not JSON", "NaN"]),
    ("[1, 2]", ["[1, 2]", "mapping"]),
    ("[" * 100_000, ["not JSON"]),
    (without(LLAMA, "model_type"), ["model_type", "missing", "llama"]),
    (LLAMA | {"model_type": "llama9"}, ["model_type", '"llama9"', "qwen3_moe"]),
    (LLAMA | {"model_type": ["llama"]}, ["model_type", '["llama"]']),
    (without(LLAMA, "hidden_size"), ["hidden_size", "missing", "whole number"]),
    (without(LLAMA, "intermediate_size"), ["intermediate_size", "missing"]),
    (without(LLAMA, "torch_dtype"), ["torch_dtype", "missing", "bfloat16"]),
    (LLAMA | {"torch_dtype": "int8"}, ["torch_dtype", '"int8"', "bfloat16"]),
    (LLAMA | {"vocab_size": "many"}, ["vocab_size", '"many"', "whole number"]),
    (LLAMA | {"vocab_size": 0}, ["vocab_size", "0", "from 1"]),
    (LLAMA | {"vocab_size": -1}, ["vocab_size", "-1", "from 1"]),
    (LLAMA | {"vocab_size": 1.5}, ["vocab_size", "1.5", "whole number"]),
    (LLAMA | {"vocab_size": True}, ["vocab_size", "true", "whole number"]),
    (LLAMA | {"num_hidden_layers": 10**400}, ["num_hidden_layers", "10,000,000"]),
    (LLAMA | {"tie_word_embeddings": "no"}, ["tie_word_embeddings", '"no"', "true or false"]),
    (LLAMA | {"num_key_value_heads": 5}, ["num_key_value_heads", "5", "divisor", "32"]),
    (LLAMA | {"num_attention_heads": 24}, ["num_attention_heads", "24", "divisor", "4096"]),
    (QWEN3_MOE | {"num_experts_per_tok": 129}, ["num_experts_per_tok", "129", "128"]),
    (without(QWEN3_MOE, "num_experts"), ["num_experts", "missing"]),
    (MISTRAL | {"sliding_window": 0}, ["sliding_window", "0"]),
    (LLAMA | {"layer_types": ["full_attention"]}, ["layer_types", "32"]),
    (LLAMA | {"layer_types": ["linear_attention"] * 32}, ["layer_types", "sliding_attention"]),
    ({"text_config": [], **LLAMA}, ["text_config", "[]", "mapping"]),
    ({"text_config": without(GEMMA3_TEXT, "hidden_size")}, ["text_config: hidden_size", "missing"]),
]
NOT_DESCRIBED = {
    "is_encoder_decoder": True,
    "kv_lora_rank": 512,
    "n_shared_experts": 1,
    "shared_expert_intermediate_size": 5632,
    "first_k_dense_replace": 3,
    "mlp_only_layers": [0],
    "decoder_sparse_step": 2,
    "mamba_d_state": 256,
    "linear_num_value_heads": 32,
    "do_layer_norm_before": False,
    "word_embed_proj_dim": 512,
    "block_configs": [{}],
}


@pytest.mark.parametrize(
    ("content", "parts"), MISTAKES, ids=[" ".join(parts) for _, parts in MISTAKES]
)
def test_mistake_is_a_line_with_file_key_and_value(write, content, parts):
    assert_line_names(write(content), parts)


@pytest.mark.parametrize("key", NOT_DESCRIBED)
def test_what_cannot_be_described_is_refused_by_its_key(write, key):
    """Also in a type of model that is not known."""
    config = LLAMA | {"model_type": "deepseek_v9", key: NOT_DESCRIBED[key]}
    assert_line_names(write(config), [f"{key}: got"])


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ("fp8", ["quantization_config", '"fp8"', "mapping"]),
        ({"bits": 4}, ["quant_method", "missing", "awq"]),
        ({"quant_method": "bitsandbytes"}, ["quant_method", "bitsandbytes", "gptq"]),
        ({"quant_method": "gptq", "bits": 8}, ["bits", "8", "4"]),
        (compressed(8, "int"), ["group_0: weights: num_bits", "8"]),
        (compressed(8, "float"), ["group_0: input_activations", "null"]),
        (
            {**FP8, "config_groups": {**FP8["config_groups"], "b": {"weights": None}}},
            ["config_groups: b: weights", "null"],
        ),
        ({**FP8, "config_groups": {}}, ["config_groups", "{}"]),
    ],
    ids=str,
)
def test_unknown_quantization_is_refused(write, settings, parts):
    path = write(LLAMA | {"quantization_config": settings})
    assert_line_names(path, ["quantization_config", *parts])


def assert_line_names(path: str, parts: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        load_model(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    assert [part for part in parts if part not in line] == []
    assert len(line) < len(path) + 500


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.json: no such file"):
        load_model(str(tmp_path / "nowhere.json"))


def test_text_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "latin.json"
    path.write_bytes(b'{"model_type": "\xe9"}')
    assert_line_names(str(path), ["not JSON"])


@pytest.mark.parametrize("key", sorted(QWEN3_MOE))
@pytest.mark.parametrize("value", [None, -1, 0, 1.5, "x", [], {}, True], ids=repr)
def test_whatever_stands_there_it_is_a_model_or_one_line(write, key, value):
    try:
        model = load_model(write(QWEN3_MOE | {key: value}))
    except UserError as error:
        assert f": {key}: " in str(error)
        return
    assert model.num_parameters > 0
