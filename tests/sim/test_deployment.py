"""How a model lies on GPUs: what each holds, and that nothing is lost or held twice unnoticed."""

import re

import pytest

from sim.catalogue import load_hardware, load_model, names
from sim.deployment import Deployment, Matrix
from sim.errors import UserError


def deployed(name: str, **changed) -> Deployment:
    return Deployment(model=load_model(name), hardware=load_hardware("h100-80gb"), **changed)


@pytest.fixture
def tiny(new_model, new_gpu):
    """Deploys the tiny model: `tiny({"num_experts": 4}, tensor_parallel_size=2)`."""

    def make(model=None, **changed):
        return Deployment(model=new_model(**model or {}), hardware=new_gpu(), **changed)

    return make


def shapes(matrices: list[Matrix]) -> list[tuple[str, int, int]]:
    return [(matrix.name, matrix.k, matrix.n) for matrix in matrices]


def num_weights(matrices: list[Matrix]) -> float:
    return sum(matrix.k * matrix.n * matrix.num_layers for matrix in matrices)


def test_matrices_of_one_gpu_are_those_of_the_model(tiny):
    assert shapes(tiny().layer_matrices) == [
        ("qkv_proj", 8, 16),  # 4 heads of 2, and K and V of 2 heads of 2 each
        ("o_proj", 8, 8),
        ("gate_up_proj", 8, 32),
        ("down_proj", 16, 8),
    ]


def test_plain_network_has_no_gate(tiny):
    assert shapes(tiny({"ffn": "plain"}).layer_matrices)[2:] == [
        ("gate_up_proj", 8, 16),
        ("down_proj", 16, 8),
    ]


def test_matrices_of_one_of_two_gpus_are_halves(tiny):
    """What comes in is whole, what goes on between two matrices is cut."""
    two = tiny(tensor_parallel_size=2)
    assert shapes([*two.layer_matrices, two.output_matrix]) == [
        ("qkv_proj", 8, 8),
        ("o_proj", 4, 8),
        ("gate_up_proj", 8, 16),
        ("down_proj", 8, 8),
        ("lm_head", 8, 50),
    ]


def test_experts_are_cut_and_their_router_is_on_every_gpu(tiny):
    two = tiny({"num_experts": 4, "num_experts_per_token": 2}, tensor_parallel_size=2)
    assert shapes(two.layer_matrices)[-1] == ("router", 8, 4)
    assert shapes(two.expert_matrices) == [("gate_up_proj", 8, 16), ("down_proj", 8, 8)]


def test_network_that_does_not_divide_is_rounded_up(tiny):
    two = tiny({"d_ff": 17}, tensor_parallel_size=2)
    assert shapes(two.layer_matrices)[2:] == [("gate_up_proj", 8, 18), ("down_proj", 9, 8)]


def test_vocabulary_that_does_not_divide_is_rounded_up(tiny):
    assert tiny({"vocab_size": 101}, tensor_parallel_size=2).output_matrix.n == 51


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-405b", "opt-175b", "qwen2.5-72b"])
@pytest.mark.parametrize("num_gpus", [1, 2, 4, 8])
def test_shards_add_up_to_the_model(name, num_gpus):
    """No KV head is copied and every size divides: matrices alone, for norms are on every GPU."""
    shard = deployed(name, tensor_parallel_size=num_gpus)
    model = shard.model
    whole = model.attention_parameters + model.ffn_parameters + model.output_parameters
    assert num_gpus * num_weights([*shard.layer_matrices, shard.output_matrix]) == whole


@pytest.mark.parametrize("num_gpus", [1, 2, 4])
def test_shards_of_experts_add_up_to_the_model(num_gpus):
    """Qwen3-30B-A3B with its 4 KV heads; the router is whole on every GPU."""
    shard = deployed("qwen3-30b-a3b", tensor_parallel_size=num_gpus)
    dense = [matrix for matrix in shard.layer_matrices if matrix.name != "router"]
    model = shard.model
    whole = model.attention_parameters + model.ffn_parameters + model.output_parameters
    experts = num_weights(shard.expert_matrices) * model.num_experts
    assert num_gpus * (num_weights([*dense, shard.output_matrix]) + experts) == whole


def test_attention_that_differs_between_layers_is_counted_as_it_is_in_all():
    """DeciLM-7B has 67 KV heads in 32 layers."""
    matrices = deployed("decilm-7b").layer_matrices
    assert num_weights(matrices[:2]) == load_model("decilm-7b").attention_parameters


@pytest.mark.parametrize(
    ("num_gpus", "heads_of_each"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1), (32, 1)]
)
def test_kv_heads_are_shared_and_then_copied(num_gpus, heads_of_each):
    """Llama-3.1-8B has 8; K and V of a token are 2 x 32 layers x 128 numbers x 2 bytes a head."""
    shard = deployed("llama-3.1-8b", tensor_parallel_size=num_gpus)
    assert shard.kv_bytes_per_token == 2 * 32 * heads_of_each * 128 * 2
    assert shard.layer_matrices[0].n == 128 * (32 // num_gpus + 2 * heads_of_each)


def test_flop_of_attention_are_shared():
    """4 per head dimension, of 32 layers with 8 of the 32 heads."""
    assert deployed("llama-3.1-8b", tensor_parallel_size=4).attention_flop_per_pair == (
        4 * 32 * 8 * 128
    )


@pytest.mark.parametrize(
    ("changed", "weight_bytes"),
    [
        # 2 layers x (128 + 64 + 256 + 128) weights, 800 of the output, 800 of the embedding, and 5
        # norms of 8.
        ({}, 2 * (1_152 + 800 + 800 + 40)),
        ({"dtype": "float32"}, 4 * (1_152 + 800 + 800 + 40)),
        ({"quantization": "fp8"}, 1_152 + 2 * (800 + 800 + 40)),
        ({"quantization": "int4"}, 1_152 * (64 + 2 + 0.5) / 128 + 2 * (800 + 800 + 40)),
        ({"tensor_parallel_size": 2}, 2 * ((1_152 + 800 + 800) / 2 + 40)),
        # 4 heads need 4 KV heads, of 2: qkv 8 x (2 + 4) where a quarter would have been 8 x 4.
        ({"tensor_parallel_size": 4}, 2 * ((1_152 + 800 + 800) / 4 + 2 * 8 * 2 + 40)),
    ],
    ids=str,
)
def test_weight_bytes_by_hand(tiny, changed, weight_bytes):
    assert tiny(**changed).weight_bytes == weight_bytes


def test_weight_bytes_of_tied_embeddings_count_them_once(tiny):
    assert tiny({"tied_embeddings": True}).weight_bytes == 2 * (1_152 + 800 + 40)


def test_weight_bytes_of_experts_count_them_all(tiny):
    """Two layers of 4 networks of 384 weights, routers of 32; attention 192."""
    experts = tiny({"num_experts": 4, "num_experts_per_token": 1})
    assert experts.weight_bytes == 2 * (2 * (4 * 384 + 32 + 192) + 800 + 800 + 40)


def test_mxfp4_is_for_the_weights_of_experts_alone(tiny):
    """Blocks of 32 numbers of 4 bits share one of 8."""
    sizes = {"num_experts": 4, "num_experts_per_token": 1}
    all_16_bits = tiny(sizes).weight_bytes
    saved = 2 * 4 * 384 * (2 - (16 + 1) / 32)
    assert tiny(sizes, quantization="mxfp4").weight_bytes == all_16_bits - saved
    with pytest.raises(UserError, match="got mxfp4, which is of experts, but tiny has none"):
        tiny(quantization="mxfp4")


def test_gpu_without_fp8_multiplies_fp8_weights_in_16_bits():
    fp8 = Deployment(
        model=load_model("llama-3.1-8b"), hardware=load_hardware("a100-80gb"), quantization="fp8"
    )
    assert (fp8.arithmetic, fp8.layer_matrices[0].bits) == ("bf16", 8)
    assert deployed("llama-3.1-8b", quantization="fp8").arithmetic == "fp8"


@pytest.mark.parametrize("name", names("models"))
def test_weight_bytes_of_one_gpu_are_those_of_all_parameters(name):
    """In 16 bits; quantized ones and their scales are in test_catalogue.py."""
    weight_bytes = deployed(name, dtype="bfloat16", quantization="none").weight_bytes
    assert weight_bytes == pytest.approx(2 * load_model(name).num_parameters, rel=1e-12)


def test_what_is_not_said_is_as_published():
    gpt = deployed("gpt-oss-20b")
    assert (gpt.activation_dtype, gpt.weights, gpt.kv_dtype) == ("bfloat16", "mxfp4", "bfloat16")


def test_kv_cache_is_of_the_activations_unless_it_is_said():
    llama = deployed("llama-3.1-8b", dtype="float32")
    assert llama.kv_dtype == "float32"
    assert deployed("llama-3.1-8b", dtype="float32", kv_cache_dtype="fp8").kv_dtype == "fp8"


@pytest.mark.parametrize(
    ("changed", "arithmetic"),
    [
        ({}, "bf16"),
        ({"dtype": "float16"}, "bf16"),
        ({"dtype": "float32"}, "fp32"),
        ({"quantization": "fp8"}, "fp8"),
        ({"quantization": "int4"}, "bf16"),
    ],
    ids=str,
)
def test_arithmetic_is_that_of_the_wider_operand_but_for_fp8(changed, arithmetic):
    assert deployed("llama-3.1-8b", **changed).arithmetic == arithmetic


def test_output_is_never_quantized():
    output = deployed("llama-3.1-8b", quantization="fp8").output_matrix
    assert (output.bits, output.arithmetic) == (16, "bf16")


@pytest.mark.parametrize(
    ("name", "num_gpus", "heads"),
    [
        ("llama-3.1-8b", 3, "32 attention heads"),
        ("llama-3.1-8b", 64, "32 attention heads"),
        ("qwen2.5-7b", 8, "28 attention heads"),
        # Heads that divide over KV heads that do not, as vLLM refuses them.
        ("mixtral-8x22b", 3, "8 KV heads"),
        ("qwen2.5-7b", 7, "4 KV heads"),
    ],
)
def test_gpus_that_cannot_share_the_heads_are_refused(name, num_gpus, heads):
    title = re.escape(load_model(name).title)
    message = rf"deployment\.tensor_parallel_size: got {num_gpus}, .*{heads} of {title}"
    with pytest.raises(UserError, match=message):
        deployed(name, tensor_parallel_size=num_gpus)


def test_refused_number_of_gpus_of_a_scenario_is_one_line(kvsim):
    done = kvsim(
        "run",
        "small.yaml",
        "--set",
        "latency=roofline",
        "--set",
        "deployment.tensor_parallel_size=3",
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "deployment.tensor_parallel_size: got 3" in line
