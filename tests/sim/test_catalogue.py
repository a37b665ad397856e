"""Sizes of the catalogue's models against published totals and the arrays of the toy model."""

import re
from dataclasses import replace
from importlib.resources import files
from itertools import chain

import pytest

from engine import Transformer, TransformerConfig
from engine.kv_pool import KVPool
from sim import catalogue

# Parameters: the sum over the tensors of the published checkpoints. KV bytes per token: 2 (K and V)
# x layers x KV heads x head size x 2 bytes, 2 x 32 x 8 x 128 x 2 and 2 x 40 x 40 x 128 x 2.
PUBLISHED = {"llama-3.1-8b": (8_030_261_248, 131_072), "opt-13b": (12_853_473_280, 819_200)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_number_of_parameters_is_the_published_one(name):
    assert catalogue.model(name).num_parameters == PUBLISHED[name][0]


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_take_two_bytes_a_parameter(name):
    assert catalogue.model(name).weight_bytes == 2 * PUBLISHED[name][0]


@pytest.mark.parametrize("name", PUBLISHED)
def test_kv_bytes_per_token(name):
    assert catalogue.model(name).kv_bytes_per_token == PUBLISHED[name][1]


def test_opt_multiplies_all_but_embeddings_norms_and_biases():
    """OPT-13B has 40 layers of 12 d_model^2 weights, and an output of 50,272 rows."""
    opt = catalogue.model("opt-13b")
    assert opt.num_layer_matrix_parameters == 40 * 12 * 5120**2
    assert opt.num_output_parameters == 50_272 * 5120


def test_attention_flops_count_query_heads_not_kv_heads():
    """Llama-3.1-8B: a multiply and an add for K and for V, 32 layers x 32 heads x 128."""
    assert catalogue.model("llama-3.1-8b").attention_flop_per_pair == 4 * 32 * 32 * 128


@pytest.fixture
def toy_arrays():
    return Transformer(TransformerConfig())


def test_toy_parameters_are_the_arrays_of_the_engine(toy_arrays):
    arrays = [toy_arrays.embedding, toy_arrays.final_norm, *chain(*toy_arrays.layers)]
    assert catalogue.model("toy").num_parameters == sum(array.size for array in arrays)


def test_toy_weight_bytes_are_those_of_the_arrays(toy_arrays):
    arrays = [toy_arrays.embedding, toy_arrays.final_norm, *chain(*toy_arrays.layers)]
    assert catalogue.model("toy").weight_bytes == sum(array.nbytes for array in arrays)


def test_toy_matrices_are_those_of_the_engine(toy_arrays):
    matrices = [array for layer in toy_arrays.layers for array in layer if array.ndim == 2]
    toy = catalogue.model("toy")
    assert toy.num_layer_matrix_parameters == sum(array.size for array in matrices)
    assert toy.num_output_parameters == toy_arrays.output.size


def test_toy_kv_bytes_are_those_of_the_pool():
    config = TransformerConfig()
    pool = KVPool(
        num_layers=config.num_layers,
        num_blocks=3,
        block_size=5,
        num_kv_heads=config.num_kv_heads,
        head_size=config.head_size,
    )
    assert catalogue.model("toy").kv_bytes_per_token * 15 == pool.keys.nbytes + pool.values.nbytes


def test_untied_output_is_counted_once_more():
    tied = catalogue.model("toy")
    untied = replace(tied, tied_embeddings=False)
    assert untied.num_parameters - tied.num_parameters == 257 * 64


@pytest.mark.parametrize(
    ("name", "peak_flop_per_s", "bandwidth_bytes_per_s"),
    [("a100-80gb", 312e12, 2039e9), ("h100-80gb", 989.4e12, 3350e9)],
)
def test_peaks_are_those_of_the_data_sheets(name, peak_flop_per_s, bandwidth_bytes_per_s):
    """NVIDIA's papers on the SXM modules; the H100's has 989.4 TFLOP/s dense, 1,978.9 sparse.

    That is 132 SMs of 4,096 FLOP in a cycle of 1,830 MHz.
    """
    gpu = catalogue.hardware(name)
    assert gpu.peak_flop_per_s == peak_flop_per_s
    assert gpu.bandwidth_bytes_per_s == bandwidth_bytes_per_s
    assert gpu.memory_bytes == 80e9


@pytest.mark.parametrize("name", catalogue.names("models"))
def test_every_model_loads(name):
    model = catalogue.model(name)
    assert model.source
    assert model.ffn in ("gated", "plain")
    assert model.num_heads % model.num_kv_heads == 0
    assert model.weight_bytes > model.kv_bytes_per_token > 0


@pytest.mark.parametrize("name", catalogue.names("hardware"))
def test_every_gpu_loads(name):
    gpu = catalogue.hardware(name)
    assert gpu.title
    assert min(gpu.peak_flop_per_s, gpu.bandwidth_bytes_per_s, gpu.memory_bytes) > 0


@pytest.mark.parametrize("table", ["models", "hardware"])
def test_names_are_those_of_the_sections(table):
    text = files("sim.catalogue").joinpath(f"{table}.toml").read_text("utf-8")
    sections = re.findall(r"""^\["?([^"\]]+)"?\]$""", text, re.MULTILINE)
    assert catalogue.names(table) == sorted(sections)
