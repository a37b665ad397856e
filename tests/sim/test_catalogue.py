"""GPUs and models of the catalogue against data sheets, published totals and sums by hand."""

import re
from dataclasses import replace
from importlib.resources import files
from itertools import chain
from pathlib import Path

import pytest

from engine import Transformer, TransformerConfig
from engine.kv_pool import KVPool
from sim import catalogue
from sim.catalogue import find_model, load_hardware, load_model
from sim.deployment import Deployment
from sim.errors import UserError

GIB = 2**30
ROOT = Path(__file__).parents[2]

# Parameters of the published checkpoints: half of `metadata.total_size` in
# model.safetensors.index.json (all are stored in 16 bits), or Hugging Face's count of the
# safetensors, less embeddings that are stored twice though tied (Qwen3-0.6B 751,632,384 and
# Qwen3-1.7B 2,031,739,904 with 151,936 rows of 1,024 and 2,048). gpt-oss: as Ollama counts them.
PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "opt-13b": 12_853_473_280,
    "qwen1.5-7b": 7_721_324_544,
    "qwen2-7b": 7_615_616_512,
    "qwen2-72b": 72_706_203_648,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 751_632_384 - 151_936 * 1024,
    "qwen3-1.7b": 2_031_739_904 - 151_936 * 2048,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "mistral-7b": 7_241_732_096,
    "mistral-7b-instruct-v0.2": 7_241_732_096,
    "mistral-7b-v0.3": 7_248_023_552,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "yi-34b": 34_388_917_248,
    "phi-3-mini": 3_821_079_552,
    "gemma-7b": 8_537_680_896,
    "gemma-2-9b": 9_241_705_984,
}

# Published totals, and what of them a Model does not count: GPT-J's output has a bias of 50,400
# numbers, BLOOM's embeddings a norm of 4,096 weights and as many biases.
SHORT = {
    "gpt-j-6b": (6_050_882_784, 50_400),
    "bloom-7b1": (7_069_016_064, 2 * 4096),
}

# Rounded totals, in billions: arXiv 2205.01068, table 1; the model cards of DeciLM-7B and
# InternLM-20B; the name of Aquila-7B.
ROUNDED = {
    "opt-6.7b": (6.7, 0.05),
    "opt-66b": (66, 0.5),
    "opt-175b": (175, 0.5),
    "decilm-7b": (7.04, 0.005),
    "internlm-20b": (20, 0.5),
    "aquila-7b": (7, 0.5),
}

# What the cards call active, in billions, and what of a token's way they count: arXiv 2401.04088
# both embeddings, Qwen3's report (arXiv 2505.09388) as well, gpt-oss's card the output alone.
ACTIVE = {
    "mixtral-8x7b": (12.9, 0.05, 2),
    "mixtral-8x22b": (39, 0.5, 2),
    "qwen3-30b-a3b": (3.3, 0.1, 2),
    "qwen3-235b-a22b": (22, 0.5, 2),
    "gpt-oss-20b": (3.61, 0.005, 1),
    "gpt-oss-120b": (5.13, 0.005, 1),
}

# In 16 bits: 2 (K and V) x layers x KV heads x head size x 2 bytes. OPT-13B's is the 800 KB of
# PagedAttention (arXiv 2309.06180, section 3); DeciLM-7B has 67 KV heads in its 32 layers together.
KV_BYTES_PER_TOKEN = {
    "opt-13b": 819_200,
    "llama-2-7b": 2 * 32 * 32 * 128 * 2,
    "llama-2-70b": 2 * 80 * 8 * 128 * 2,
    "llama-3.1-8b": 131_072,
    "decilm-7b": 2 * 67 * 128 * 2,
    "qwen3-0.6b": 2 * 28 * 8 * 128 * 2,
    "qwen3-30b-a3b": 98_304,
    "gpt-oss-120b": 73_728,
    "gemma-2-9b": 2 * 42 * 8 * 256 * 2,
    "gpt-j-6b": 2 * 28 * 16 * 256 * 2,
    "bloom-7b1": 2 * 30 * 32 * 128 * 2,
    "qwen2.5-0.5b": 2 * 24 * 2 * 64 * 2,
}


def deployed(name: str, **changed) -> Deployment:
    return Deployment(model=load_model(name), hardware=load_hardware("h100-80gb"), **changed)


@pytest.mark.parametrize("name", PUBLISHED)
def test_number_of_parameters_is_the_published_one(name):
    assert load_model(name).num_parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", SHORT)
def test_number_of_parameters_is_the_published_one_but_for_what_is_not_counted(name):
    published, not_counted = SHORT[name]
    assert load_model(name).num_parameters == published - not_counted
    assert not_counted < published / 1000


def test_aquila_is_a_llama_with_more_words():
    """Llama-2-7B with 100,008 words, in both embeddings, instead of 32,000."""
    more_words = 2 * (100_008 - 32_000) * 4096
    assert load_model("aquila-7b").num_parameters == PUBLISHED["llama-2-7b"] + more_words


@pytest.mark.parametrize("name", ROUNDED)
def test_number_of_parameters_rounds_to_the_published_one(name):
    billions, error = ROUNDED[name]
    assert load_model(name).num_parameters / 1e9 == pytest.approx(billions, abs=error)


def test_every_model_has_a_published_total():
    assert catalogue.names("models") == sorted([*PUBLISHED, *SHORT, *ROUNDED, "toy"])


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_are_those_of_the_model_card(name):
    billions, error, num_embeddings = ACTIVE[name]
    model = load_model(name)
    active = model.active_parameters + num_embeddings * model.output_parameters
    assert active / 1e9 == pytest.approx(billions, abs=error)


@pytest.mark.parametrize("name", KV_BYTES_PER_TOKEN)
def test_kv_bytes_per_token(name):
    assert deployed(name).kv_bytes_per_token == KV_BYTES_PER_TOKEN[name]


def test_kv_in_fp8_takes_half():
    assert deployed("llama-3.1-8b", kv_cache_dtype="fp8").kv_bytes_per_token == 131_072 / 2


def test_kv_heads_are_copied_where_there_are_more_gpus():
    """Qwen3-30B-A3B has 4 KV heads a layer; 8 GPUs have one each."""
    tp8 = deployed("qwen3-30b-a3b", tensor_parallel_size=8)
    assert tp8.kv_bytes_per_token == 2 * 48 * 1 * 128 * 2


# The matrices of a layer of Llama-3.1-8B: Q and O 4096 x 4096, K and V 4096 x 1024, three of
# 4096 x 14336; beside them two embeddings of 128,256 rows, and 65 norms.
LLAMA_LAYERS = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
LLAMA_EMBEDDINGS = 2 * 128_256 * 4096
LLAMA_NORMS = 65 * 4096


@pytest.mark.parametrize(
    ("changed", "weight_bytes"),
    [
        ({}, 2 * 8_030_261_248),
        ({"dtype": "float32"}, 4 * 8_030_261_248),
        ({"quantization": "fp8"}, LLAMA_LAYERS + 2 * (LLAMA_EMBEDDINGS + LLAMA_NORMS)),
        # Groups of 128 weights: 64 bytes of them, 2 of a scale, half a byte of a zero point.
        (
            {"quantization": "int4"},
            LLAMA_LAYERS / 128 * 66.5 + 2 * (LLAMA_EMBEDDINGS + LLAMA_NORMS),
        ),
        (
            {"tensor_parallel_size": 4},
            2 * ((LLAMA_LAYERS + LLAMA_EMBEDDINGS) / 4 + LLAMA_NORMS),
        ),
    ],
    ids=str,
)
def test_weight_bytes_of_llama_by_hand(changed, weight_bytes):
    assert deployed("llama-3.1-8b", **changed).weight_bytes == weight_bytes


@pytest.mark.parametrize(
    ("name", "weight_bytes"), [("gpt-oss-20b", 13_761_264_768), ("gpt-oss-120b", 65_248_815_744)]
)
def test_weight_bytes_of_mxfp4_are_those_of_the_checkpoint(name, weight_bytes):
    """`metadata.total_size` of openai's model.safetensors.index.json."""
    assert deployed(name).weight_bytes == weight_bytes


def test_opt_multiplies_all_but_embeddings_norms_and_biases():
    """OPT-13B has 40 layers of 12 d_model^2 weights, and an output of 50,272 rows."""
    opt = load_model("opt-13b")
    assert opt.active_parameters == 40 * 12 * 5120**2
    assert opt.output_parameters == 50_272 * 5120


def test_flop_per_token_of_a_dense_model_by_hand():
    """Llama-3.1-8B: 2 per weight; for each token a multiply and an add with K, and with V."""
    matrices = 2 * (LLAMA_LAYERS + LLAMA_EMBEDDINGS // 2)
    attention = 4 * 32 * 32 * 128 * 1000
    assert load_model("llama-3.1-8b").flop_per_token(1000) == matrices + attention


def test_flop_per_token_of_experts_by_hand():
    """Mixtral-8x7B: 2 of 8 experts, and a router of 8 rows."""
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 8 * 4096 + 2 * 3 * 4096 * 14336
    assert load_model("mixtral-8x7b").flop_per_token(0) == 2 * (32 * layer + 32_000 * 4096)


@pytest.fixture
def toy_arrays():
    return Transformer(TransformerConfig())


def test_toy_parameters_are_the_arrays_of_the_engine(toy_arrays):
    arrays = [toy_arrays.embedding, toy_arrays.final_norm, *chain(*toy_arrays.layers)]
    assert load_model("toy").num_parameters == sum(array.size for array in arrays)


def test_toy_weight_bytes_are_those_of_the_arrays(toy_arrays):
    arrays = [toy_arrays.embedding, toy_arrays.final_norm, *chain(*toy_arrays.layers)]
    assert deployed("toy").weight_bytes == sum(array.nbytes for array in arrays)


def test_toy_matrices_are_those_of_the_engine(toy_arrays):
    matrices = [array for layer in toy_arrays.layers for array in layer if array.ndim == 2]
    toy = load_model("toy")
    assert toy.active_parameters == sum(array.size for array in matrices)
    assert toy.output_parameters == toy_arrays.output.size


def test_toy_kv_bytes_are_those_of_the_pool():
    config = TransformerConfig()
    pool = KVPool(
        num_layers=config.num_layers,
        num_blocks=3,
        block_size=5,
        num_kv_heads=config.num_kv_heads,
        head_size=config.head_size,
    )
    assert deployed("toy").kv_bytes_per_token * 15 == pool.keys.nbytes + pool.values.nbytes


def test_untied_output_is_counted_once_more():
    tied = load_model("toy")
    untied = replace(tied, tied_embeddings=False)
    assert untied.num_parameters - tied.num_parameters == 257 * 64


@pytest.mark.parametrize("name", catalogue.names("models"))
def test_every_model_is_whole(name):
    model = load_model(name)
    assert model.source
    assert model.ffn in ("gated", "plain")
    assert model.num_heads % model.num_kv_heads == 0
    assert model.num_window_layers <= model.num_layers
    assert bool(model.sliding_window) == bool(model.num_window_layers)
    assert model.num_experts_per_token <= model.num_experts


# Dense peaks in TFLOP/s (bf16, fp8, fp32) and GB/s: NVIDIA's and AMD's data sheets; of T4 and V100,
# which have no bf16, that of fp16.
SHEETS = {
    "t4": (65, None, 8.1, 320),
    "v100-32gb": (125, None, 15.7, 900),
    "rtx-3090": (71, None, 35.6, 936),
    "rtx-5090": (209.5, 419, 104.8, 1792),
    "rtx-a6000": (154.8, None, 38.7, 768),
    "rtx-6000-ada": (364.2, 728.5, 91.1, 960),
    "a10": (125, None, 31.2, 600),
    "a30": (165, None, 10.3, 933),
    "l20": (119.5, 239, 59.8, 864),
    "a100-80gb-pcie": (312, None, 19.5, 1935),
    "h100-pcie": (756, 1513, 51.2, 2039),
    "h100-nvl": (1671 / 2, 3341 / 2, 60, 3900),
    "h20": (148, 296, 44, 4000),
    "gh200": (989.4, 1978.9, 66.9, 4000),
    "b300": (36_000 / 8 / 2, 72_000 / 8 / 2, 600 / 8, 8000),
    "mi250": (362.1 / 2, None, 90.5 / 2, 3276.8 / 2),  # one die of two
    "mi325x": (1307.4, 2614.9, 163.4, 6000),
    "rtx-4090": (165.2, 330.3, 82.6, 1008),
    "a10g": (70, None, 35, 600),
    "l4": (242 / 2, 485 / 2, 30.3, 300),
    "l40s": (362.05, 733, 91.6, 864),
    "a40": (149.7, None, 37.4, 696),
    "a100-40gb": (312, None, 19.5, 1555),
    "a100-80gb": (312, None, 19.5, 2039),
    "h100-80gb": (989.4, 1978.9, 66.9, 3350),
    "h200": (989.4, 1978.9, 66.9, 4800),
    "mi300x": (1307.4, 2614.9, 163.4, 5300),
    # The sheet says "up to 8 TB/s"; the driver of the 180 GB module has 7,680 bits x 2 x 3,996 MHz.
    "b200": (2250, 4500, 75, 7670),
    # 188 SMs at 2,430 MHz, of which each does 1,024 FLOP of bf16 in a cycle.
    "rtx-pro-6000": (467.8, 935.6, 117, 1597),
}


@pytest.mark.parametrize("name", SHEETS)
def test_peaks_are_those_of_the_data_sheets(name):
    gpu, peaks = load_hardware(name), gpu_peaks(name)
    assert gpu.peak_flop_per_s == pytest.approx(peaks)
    assert gpu.bandwidth_bytes_per_s == pytest.approx(SHEETS[name][-1] * 1e9)


def gpu_peaks(name: str) -> dict[str, float]:
    *tflops, _ = SHEETS[name]
    pairs = zip(("bf16", "fp8", "fp32"), tflops, strict=True)
    return {arithmetic: peak * 1e12 for arithmetic, peak in pairs if peak}


@pytest.mark.parametrize(
    ("name", "total_gib"),
    [
        ("t4", 14.75),
        ("v100-32gb", 31.74),
        ("rtx-3090", 23.69),
        ("rtx-4090", 23.52),
        ("rtx-5090", 31.37),
        ("rtx-a6000", 47.54),
        ("rtx-6000-ada", 47.48),
        ("rtx-pro-6000", 94.97),
        ("a10", 21.99),
        ("a30", 23.60),
        ("a100-80gb", 79.25),
        ("a100-80gb-pcie", 79.25),
        ("h100-80gb", 79.19),
        ("h100-pcie", 79.11),
        ("h100-nvl", 93.09),
        ("h20", 95.00),
        ("gh200", 94.50),
        ("h200", 139.80),
        ("b200", 178.36),
        ("b300", 267.69),
        ("mi250", 63.98),
        ("mi300x", 191.98),
        ("mi325x", 255.98),
    ],
)
def test_memory_is_what_pytorch_says_when_it_is_full(name, total_gib):
    """ "GPU 0 has a total capacity of 79.25 GiB", in the issues of vLLM, PyTorch and others."""
    assert load_hardware(name).memory_bytes / GIB == pytest.approx(total_gib, abs=0.005)


def test_gpu_without_fp8_computes_in_bf16():
    assert load_hardware("a100-80gb").peak("fp8") == 312e12


@pytest.mark.parametrize("name", catalogue.names("hardware"))
def test_every_gpu_is_whole(name):
    gpu = load_hardware(name)
    assert gpu.title
    assert gpu.source
    assert {"bf16", "fp32"} <= set(gpu.peak_flop_per_s) <= {"bf16", "fp8", "fp32"}
    assert 14 * GIB < gpu.memory_bytes < 288 * GIB
    assert 16e9 <= gpu.interconnect_bytes_per_s < gpu.bandwidth_bytes_per_s


@pytest.mark.parametrize("table", ["models", "hardware"])
def test_names_are_those_of_the_sections(table):
    text = files("sim.catalogue").joinpath(f"{table}.toml").read_text("utf-8")
    sections = re.findall(r"""^\["?([^"\]]+)"?\]$""", text, re.MULTILINE)
    assert catalogue.names(table) == sorted(sections)


@pytest.mark.parametrize("table", ["models", "hardware"])
def test_every_name_is_documented(table):
    text = (ROOT / "docs" / "catalogue.md").read_text("utf-8")
    assert [name for name in catalogue.names(table) if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("META-LLAMA/llama-3.1-8b", "llama-3.1-8b"),
        ("Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("TheBloke/Llama-2-7B-Chat-AWQ", "llama-2-7b"),
        ("huggyllama/llama-7b", "llama-2-7b"),  # the first LLaMA has the same sizes
        ("llama-13b", "llama-2-13b"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-instruct-v0.2"),
        ("TheBloke/Mistral-7B-Instruct-v0.2-AWQ", "mistral-7b-instruct-v0.2"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("Qwen/Qwen1.5-7B-Chat", "qwen1.5-7b"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"),
        ("EleutherAI/gpt-j-6B", "gpt-j-6b"),
        ("bigscience/bloomz-7b1", "bloom-7b1"),
        ("BAAI/AquilaChat-7B", "aquila-7b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "qwen3-30b-a3b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
    ],
)
def test_model_is_found_by_its_id(name, key):
    assert find_model(name) == key


def test_no_id_stands_for_two_models():
    ids = [i.lower() for name in catalogue.names("models") for i in load_model(name).hf_ids]
    assert len(ids) == len(set(ids))


def test_unknown_id_names_models_like_it():
    with pytest.raises(UserError, match=r"'org/Lama-3\.1-8B-FP8'.*llama-3\.1-8b"):
        find_model("org/Lama-3.1-8B-FP8")


@pytest.mark.parametrize("name", ["", "/", "-hf", "completely different"])
def test_id_like_no_other_is_refused(name):
    with pytest.raises(UserError, match=re.escape(repr(name))):
        find_model(name)


@pytest.mark.parametrize(
    "name",
    [
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",  # an output of its own
        "mistralai/Mixtral-8x22B-Instruct-v0.1",  # more words
    ],
)
def test_same_family_of_other_sizes_is_not_taken_for_it(name):
    with pytest.raises(UserError):
        find_model(name)
