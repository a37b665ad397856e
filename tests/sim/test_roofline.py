"""The roofline of a tiny model on a tiny GPU, in sums worked out by hand, in nanoseconds."""

import random
from dataclasses import replace

import pytest

from sim import catalogue
from sim.catalogue.efficiency import Efficiency
from sim.deployment import Deployment
from sim.latency.allreduce import AllReduce
from sim.latency.build import build_latency
from sim.latency.model import num_pairs
from sim.latency.operators import OperatorLatency
from sim.latency.roofline import num_experts_touched, roofline_operators

# On the tiny GPU (2 GFLOP/s, 2 GB/s): products take 1 ns a FLOP or 1 ns a byte, in fp8 0.5 ns or
# 2 ns. Of attention a chunk takes 2 ns a FLOP, but 100 ns at least for a token of its context and
# layer; a decode 4 ns a byte, beside chunks 8 ns a byte; a call 100 ns, with chunks 150 ns.
# A link moves 1 byte in 1 ns.
SHARES = Efficiency(
    source="made up",
    flop={"bf16": 0.5, "fp8": 0.5, "fp32": 0.5},
    bandwidth={"bf16": 0.5, "fp8": 0.25, "fp32": 0.5},
    attention_flop=0.25,
    attention_bandwidth=0.125,
    mixed_attention_bandwidth=0.0625,
    kernel_s=10e-9,
    attention_key_s=100e-9,
    attention_s=100e-9,
    prefill_attention_s=150e-9,
    allreduce_s=1000e-9,
    allreduce_bandwidth=0.5,
)
EXPERTS = {"num_experts": 4, "num_experts_per_token": 2}
WINDOWS = {"sliding_window": 4, "num_window_layers": 1}


@pytest.fixture
def roofline(new_model, new_gpu):
    """Makes a model of step times: `roofline({"num_experts": 4}, quantization="fp8")`."""

    def make(model=None, gpu=None, shares=SHARES, overhead_s=0.0, per_sequence_s=0.0, **deployed):
        model, gpu = new_model(**model or {}), new_gpu(**gpu or {})
        deployment = Deployment(model=model, hardware=gpu, **deployed)
        operators = roofline_operators(deployment, shares)
        return OperatorLatency(operators, overhead_s=overhead_s, per_sequence_s=per_sequence_s)

    return make


def test_one_decode_is_bound_by_memory(roofline, new_step):
    """One token: a product k x n reads 2kn bytes of weights and moves 2(k + n) of activations.

    qkv 256 + 48, o 128 + 32, gate_up 512 + 80, down 256 + 48, and 10 for each kernel: 1,400 ns a
    layer, 2,800 for two. Output: 1,600 + 216 + 10 = 1,826. Between products: 2 layers x 4 kernels
    = 80, and 2 layers x (8 x 8 + 3 x 16) numbers x 2 bytes = 448. Attention: 2 x 100, and 10 tokens
    x 32 bytes x 4 = 1,280.
    """
    assert roofline().step_time_ns(new_step(1, 10)) == 2_800 + 1_826 + 80 + 448 + 200 + 1_280


def test_four_decodes_are_bound_by_arithmetic(roofline, new_step):
    """Four tokens: a product k x n is 8kn FLOP.

    qkv 1,024, o 512, gate_up 2,048, down 1,024, kernels 40: 4,648 a layer. Output 6,400 + 10.
    Between products 80 + 4 x 448. Attention 200 + 40 tokens x 128.
    """
    by_hand = 2 * 4_648 + 6_410 + 1_872 + 200 + 5_120
    assert roofline().step_time_ns(new_step(4, 40)) == by_hand


def test_prefill_chunk_by_hand(roofline, new_step):
    """4 tokens after 6 others: products of four tokens, but one row of the output.

    Pairs: 7 + 8 + 9 + 10 = 34, of 64 FLOP and 2 ns each. Rows: queries and outputs of 8 heads x 2
    numbers x 2 bytes are 64 bytes, K/V 32: 96 bytes a token.
    """
    attention = 300 + 34 * 128 + 4 * 96
    by_hand = 2 * 4_648 + 1_826 + 1_872 + attention
    assert roofline().step_time_ns(new_step(prefills=[(4, 6)])) == by_hand


def test_mixed_step_by_hand(roofline, new_step):
    """2 decodes over 20 tokens and a chunk of 4 after 6: six tokens, three rows of the output.

    Products, 12kn FLOP: 1,536 + 768 + 3,072 + 1,536 + 40 = 6,952 a layer; output 4,800 + 10.
    Decodes read their K/V at 8 ns a byte, 256 ns a token.
    """
    attention = 300 + 20 * 256 + 34 * 128 + 4 * 96
    by_hand = 2 * 6_952 + 4_810 + 80 + 6 * 448 + attention
    assert roofline().step_time_ns(new_step(2, 20, [(4, 6)])) == by_hand


def test_each_of_two_chunks_counts_with_its_own_context(roofline, new_step):
    """(4 after 6) and (3 after 0): pairs 34 and 1 + 2 + 3; seven tokens, two rows of the output.

    Products, 14kn FLOP: 8,064 + 40 a layer; output 3,200 + 10.
    """
    attention = 300 + 40 * 128 + 7 * 96
    by_hand = 2 * 8_104 + 3_210 + 80 + 7 * 448 + attention
    assert roofline().step_time_ns(new_step(prefills=[(4, 6), (3, 0)])) == by_hand


def test_chunk_behind_a_long_context_takes_the_way_through_it(roofline, new_step):
    """A token after 99: 100 pairs of 128 ns, 99 keys of 2 x 100 ns. After 199, 100 keys more."""
    near, far = (
        roofline().step_time_ns(new_step(prefills=[(1, context)])) for context in (99, 199)
    )
    products = 2 * 1_400 + 1_826 + 80 + 448
    assert (near, far) == (products + 300 + 99 * 200 + 96, near + 100 * 200)


def test_chunks_go_through_their_contexts_at_the_same_time(roofline, new_step):
    """199 keys take 39,800 ns, the 300 pairs of both 38,400. 400 pairs take 51,200 ns."""
    pairs_300, pairs_400 = (
        roofline().step_time_ns(new_step(prefills=[(1, 199), (1, context)]))
        for context in (99, 199)
    )
    assert pairs_400 - pairs_300 == 51_200 - 39_800


def test_decodes_with_little_arithmetic_to_spare_are_bound_by_it(roofline, new_step):
    """Reading 32 bytes at 0.5 ns takes less than 64 FLOP at 1 ns: 64 ns a token, not 16."""
    shares = replace(SHARES, attention_bandwidth=1.0)
    near, far = (roofline(shares=shares).step_time_ns(new_step(1, n)) for n in (10, 1_010))
    assert far - near == 64_000


def test_experts_of_one_token_by_hand(roofline, new_step):
    """2 of 4 experts: their weights are read, and each computes the token.

    gate_up: 2 x 512 bytes of weights and 2 rows x 80; down: 2 x 256 and 2 x 48; both are less than
    their 1,024 FLOP and more than their 512. Router 8 x 4: 64 + 24 bytes. qkv 314 and o 170 as
    without experts. Between products: 2 x (64 + 3 x 16 x 2) x 2 bytes.
    """
    layer = 314 + 170 + (88 + 10) + (1_184 + 10) + (608 + 10)
    by_hand = 2 * layer + 1_826 + 80 + 640 + 200 + 1_280
    assert roofline(EXPERTS).step_time_ns(new_step(1, 10)) == by_hand


def test_experts_of_two_tokens_by_hand(roofline, new_step):
    """Two tokens touch 4 x (1 - 1/2 x 1/2) = 3 experts, in 4 rows.

    gate_up: 2,048 FLOP over 3 x 512 + 4 x 80 bytes; down: 1,024 FLOP over 3 x 256 + 4 x 48 bytes.
    qkv 512 FLOP, o 256, router 128; output 3,200.
    """
    layer = 522 + 266 + 138 + 2_058 + 1_034
    by_hand = 2 * layer + 3_210 + 80 + 2 * 640 + 200 + 2_560
    assert roofline(EXPERTS).step_time_ns(new_step(2, 20)) == by_hand


@pytest.mark.parametrize(("num_experts", "per_token", "num_tokens"), [(8, 2, 3), (16, 4, 9)])
def test_experts_touched_are_those_of_random_choices(num_experts, per_token, num_tokens):
    """Mean of 20,000 draws: a draw deviates by less than 2, their mean by less than 0.015."""
    rng = random.Random(1)
    experts = range(num_experts)
    drawn = sum(
        len({expert for _ in range(num_tokens) for expert in rng.sample(experts, per_token)})
        for _ in range(20_000)
    )
    expected = num_experts_touched(num_experts, per_token, num_tokens)
    assert drawn / 20_000 == pytest.approx(expected, abs=0.06)


def test_window_bounds_the_context_of_a_decode(roofline, new_step):
    """One of two layers sees 4 tokens of the 10: 7 x 128 ns on average, 3 x 128 less than else."""
    full, windowed = (roofline(model).step_time_ns(new_step(1, 10)) for model in ({}, WINDOWS))
    assert full - windowed == 3 * 128


def test_context_within_the_window_costs_as_without_one(roofline, new_step):
    step = new_step(3, 12)
    assert roofline(WINDOWS).step_time_ns(step) == roofline().step_time_ns(step)


def test_window_bounds_the_context_of_decodes_beside_chunks(roofline, new_step):
    """Two decodes of 10 each, of which one of two layers sees 4: 14 x 256 ns, not 20 x 256."""
    windowed, full = (
        roofline(model).step_time_ns(new_step(2, 20, [(1, 0)])) for model in (WINDOWS, {})
    )
    assert full - windowed == 6 * 256


def test_window_bounds_the_pairs_of_a_chunk(roofline, new_step):
    """4 tokens after 6 attend to 4 each in one of two layers: (34 + 16) / 2 = 25 pairs, not 34."""
    full, windowed = (
        roofline(model).step_time_ns(new_step(prefills=[(4, 6)])) for model in ({}, WINDOWS)
    )
    assert full - windowed == 9 * 128


@pytest.mark.parametrize("window", [None, 1, 5, 12, 100])
def test_pairs_are_those_of_a_loop_over_queries_and_keys(window):
    for num_tokens in range(1, 12):
        for context in range(15):
            pairs = sum(
                key <= query and (window is None or query - key < window)
                for query in range(context, context + num_tokens)
                for key in range(query + 1)
            )
            assert num_pairs(num_tokens, context, window) == pairs


def test_fp8_weights_are_read_and_multiplied_in_fp8(roofline, new_step):
    """Weights of 1 byte, activations of 2, both at 2 ns a byte; the output stays in 16 bits.

    qkv 128 + 48, o 64 + 32, gate_up 256 + 80, down 128 + 48 bytes: 784, twice that in ns, and 40.
    """
    by_hand = 2 * (2 * 784 + 40) + 1_826 + 80 + 448 + 200 + 1_280
    assert roofline(quantization="fp8").step_time_ns(new_step(1, 10)) == by_hand


def test_fp8_arithmetic_is_twice_as_fast(roofline, new_step):
    """1,000 tokens: 2kn FLOP each at 0.5 ns, half of the 2 x 576 x 2 ns a token of 16 bits."""
    times = [
        roofline(quantization=quantization, gpu={"bandwidth_bytes_per_s": 1e15}).step_time_ns(
            new_step(prefills=[(1_000, 0)])
        )
        for quantization in ("none", "fp8")
    ]
    assert times[0] - times[1] == pytest.approx(1_000 * 2 * 576 * 2 / 2, abs=1)


def test_gpu_without_fp8_gains_no_arithmetic_by_it(roofline, new_step):
    gpu = {"peak_flop_per_s": {"bf16": 2e9, "fp32": 1e9}, "bandwidth_bytes_per_s": 1e15}
    times = [
        roofline(quantization=quantization, gpu=gpu).step_time_ns(new_step(prefills=[(1_000, 0)]))
        for quantization in ("none", "fp8")
    ]
    assert times[0] == pytest.approx(times[1], abs=1)


def test_int4_weights_are_read_in_4_bits_with_their_scales(roofline, new_step):
    """4 + 20 / 128 bits: qkv 66.5 bytes + 48, o 33.25 + 32, gate_up 133 + 80, down 66.5 + 48.

    The GPU has arithmetic in plenty; the output reads 16 bits a weight.
    """
    gpu = {"peak_flop_per_s": {"bf16": 1e15, "fp32": 1e15}}
    layer = 114.5 + 65.25 + 213 + 114.5 + 40
    by_hand = 2 * layer + 1_826 + 80 + 448 + 200 + 1_280
    time_ns = roofline(gpu=gpu, quantization="int4").step_time_ns(new_step(1, 10))
    assert time_ns == pytest.approx(by_hand, abs=1)


def test_kv_in_fp8_halves_what_a_decode_reads(roofline, new_step):
    near, far = (
        roofline(kv_cache_dtype="fp8").step_time_ns(new_step(1, context)) for context in (0, 100)
    )
    assert far - near == 100 * 16 * 4


def test_float32_doubles_every_byte(roofline, new_step):
    """And the tiny GPU has half the arithmetic for it: bytes, 2 times the 16 bits', still bound.

    Every number of `test_one_decode_is_bound_by_memory` but the 10 ns of 17 kernels and the 200 of
    attention is a count of bytes.
    """
    kernels = 17 * 10 + 200
    half = 2_800 + 1_826 + 80 + 448 + 200 + 1_280 - kernels
    assert roofline(dtype="float32").step_time_ns(new_step(1, 10)) == 2 * half + kernels


def test_two_gpus_share_a_decode_and_add_up_their_parts(roofline, new_step):
    """Each has half of every matrix: qkv 8 x 8, o 4 x 8, gate_up 8 x 16, down 8 x 8.

    Bytes 128 + 32, 64 + 24, 256 + 48, 128 + 32, and 40: 752 a layer. Output 8 x 50: 800 + 116 + 10.
    Between products: 2 x (8 x 8 + 3 x 8) x 2 bytes, for the norms are on both. Attention: half the
    K/V, 64 ns a token. Four all-reduces: 1,000 ns and 2 x 1/2 x 16 bytes each.
    """
    by_hand = 2 * 752 + 926 + 80 + 352 + 200 + 640 + 4 * (1_000 + 16)
    assert roofline(tensor_parallel_size=2).step_time_ns(new_step(1, 10)) == by_hand


def test_ring_of_four_moves_three_halves_of_a_message(new_model, new_gpu):
    """2 x 3/4 of 10 tokens x 16 bytes = 240 bytes, four times, at 1 ns."""
    deployment = Deployment(model=new_model(), hardware=new_gpu(), tensor_parallel_size=4)
    assert AllReduce(deployment, SHARES).step_s(10) == pytest.approx(4 * (1_000 + 240) * 1e-9)


def test_single_gpu_reduces_nothing(new_model, new_gpu):
    deployment = Deployment(model=new_model(), hardware=new_gpu())
    assert AllReduce(deployment, SHARES).step_s(1_000) == 0


def test_host_costs_come_for_the_step_and_for_each_sequence(roofline, new_step):
    """2 decodes and 3 chunks: 1 ms and 5 x 0.1 ms more than on a host that costs nothing."""
    step = new_step(2, 20, [(4, 6), (3, 0), (1, 9)])
    with_host = roofline(overhead_s=1e-3, per_sequence_s=1e-4).step_time_ns(step)
    assert with_host - roofline().step_time_ns(step) == 1_500_000


def test_scenario_without_constants_has_those_of_its_gpu(new_scenario, new_step):
    """Llama-3.1-8B on an RTX 4090, 4 decodes over 4,000 tokens, and the H100's on an H100.

    Memory bounds the products. Bytes: 2 a weight, and of the four rows 2 x (k + n) each.
    """
    for gpu in ("rtx-4090", "h100-80gb"):
        scenario = new_scenario(hardware=gpu, latency={"kind": "roofline", "overhead_s": 0})
        shares, bytes_per_s = catalogue.load_efficiency(gpu), catalogue.load_hardware(gpu)
        bandwidth = bytes_per_s.bandwidth_bytes_per_s
        shapes = [(4096, 6144), (4096, 4096), (4096, 28_672), (14_336, 4096)] * 32
        shapes.append((4096, 128_256))
        products = sum(2 * k * n + 4 * 2 * (k + n) for k, n in shapes)
        between = 4 * 32 * (8 * 4096 + 3 * 14_336) * 2
        seconds = (
            (products + between) / (bandwidth * shares.bandwidth["bf16"])
            + (len(shapes) + 4 * 32) * shares.kernel_s
            + 4_000 * 131_072 / (bandwidth * shares.attention_bandwidth)
            + 32 * shares.attention_s
        )
        time_ns = build_latency(scenario).latency.step_time_ns(new_step(4, 4_000))
        assert time_ns == pytest.approx(seconds * 1e9, abs=1)


def test_common_constants_are_those_of_a_gpu_that_was_not_measured(new_scenario, new_step):
    """The A40 has no entry of its own."""
    times = [
        build_latency(
            new_scenario(hardware="a40", latency={"kind": "roofline", "constants": constants})
        ).latency.step_time_ns(new_step(4, 4_000, [(100, 0)]))
        for constants in ("gpu", "common")
    ]
    assert times[0] == times[1]


def test_common_constants_differ_from_those_of_a_measured_gpu(new_scenario, new_step):
    times = [
        build_latency(
            new_scenario(latency={"kind": "roofline", "constants": constants})
        ).latency.step_time_ns(new_step(4, 4_000))
        for constants in ("gpu", "common")
    ]
    assert times[0] != times[1]


@pytest.mark.parametrize(
    ("key", "step"),
    [
        ("flop_efficiency", (0, 0, [(4_000, 0)])),
        ("bandwidth_efficiency", (64, 1_000_000, [])),
    ],
)
def test_one_share_in_a_scenario_holds_for_every_operator(new_scenario, new_step, key, step):
    """Twice the share halves the time that a step so bound takes, to a few percent of the rest."""
    times = [
        build_latency(
            new_scenario(latency={"kind": "roofline", "overhead_s": 0, key: share})
        ).latency.step_time_ns(new_step(*step))
        for share in (0.01, 0.02)
    ]
    assert times[0] / times[1] == pytest.approx(2, rel=0.05)
