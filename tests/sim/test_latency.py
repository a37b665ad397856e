"""Step times by hand, and the two questions a model answers set against each other."""

import random
from functools import partial

import numpy as np
import pytest

from engine.scheduler import Step
from sim import catalogue
from sim.build import build_latency
from sim.catalogue import Hardware
from sim.latency.linear import LinearLatency
from sim.latency.roofline import RooflineLatency

Shape = tuple[int, int, list[tuple[int, int]]]  # decodes, their contexts, (tokens, before) chunks


def step_of(num_decodes: int = 0, context: int = 0, prefills: list | None = None) -> Step:
    step = Step(0)
    step.add_decodes(num_decodes, context)
    step.prefills += prefills or []
    return step


LINEAR = LinearLatency(
    step_s=1e-3, per_decode_s=1e-5, per_context_token_s=1e-8, per_prefill_token_s=1e-6
)

ASSUMED = {"flop_efficiency": 0.7, "bandwidth_efficiency": 0.85, "overhead_s": 0.001}


def roofline(model: str, gpu: str = "a100-80gb", **changed: float) -> RooflineLatency:
    return RooflineLatency(catalogue.model(model), catalogue.hardware(gpu), **(ASSUMED | changed))


def weak_gpu() -> RooflineLatency:
    """So little arithmetic that decodes, too, are bound by it."""
    gpu = Hardware(title="weak", peak_flop_per_s=1e10, memory_bytes=1e9, bandwidth_bytes_per_s=1e12)
    return RooflineLatency(catalogue.model("toy"), gpu, **ASSUMED)


# Every kind there is, and the roofline on either side of its ridge.
MODELS = {
    "constant": lambda: LinearLatency(step_s=0.0123456789),
    "linear": lambda: LINEAR,
    "linear with doublings": lambda: LinearLatency(
        step_s=1e-3, per_decode_s=1e-5, per_decode_doubling_s=3e-5, per_context_token_s=1e-8
    ),
    "roofline of llama": partial(roofline, "llama-3.1-8b"),
    "roofline of opt": partial(roofline, "opt-13b", "h100-80gb"),
    "roofline of toy": partial(roofline, "toy", overhead_s=0.0),
    "roofline of a weak GPU": weak_gpu,
}


@pytest.fixture(params=MODELS)
def latency(request):
    return MODELS[request.param]()


def test_constant_is_the_same_for_every_shape(new_scenario):
    spec = {"kind": "constant", "step_time_s": 0.25}
    latency = build_latency(new_scenario(latency=spec))
    shapes: list[Shape] = [(1, 1, []), (7, 90_000, []), (3, 500, [(512, 0), (16, 4096)])]
    assert [latency.step_time_ns(step_of(*shape)) for shape in shapes] == [250_000_000] * 3


def test_linear_by_hand():
    """1 ms + 3 decodes x 10 us + 5,000 of context x 10 ns + 150 of prefill x 1 us = 1.23 ms."""
    step = step_of(3, 5_000, [(100, 0), (50, 200)])
    assert LINEAR.step_time_ns(step) == 1_000_000 + 30_000 + 50_000 + 150_000


def test_linear_costs_of_chunks_and_doublings_by_hand():
    """1 ms + 7 decodes x 10 us + 3 doublings x 20 us + 2 chunks x 50 us + 36 + 3 pairs x 1 us."""
    latency = LinearLatency(
        step_s=1e-3,
        per_decode_s=1e-5,
        per_decode_doubling_s=2e-5,
        per_prefill_s=5e-5,
        per_prefill_pair_s=1e-6,
    )
    step = step_of(7, 5_000, [(3, 10), (2, 0)])
    assert latency.step_time_ns(step) == 1_000_000 + 70_000 + 60_000 + 100_000 + 39_000
    assert latency.decode_times_ns(3, 5_000, 2) == [1_000_000 + 30_000 + 40_000] * 2


def test_linear_counts_what_is_left_out_as_nothing(new_scenario):
    spec = {"kind": "linear", "step_s": 0.002, "per_decode_s": 0.001}
    latency = build_latency(new_scenario(latency=spec))
    assert latency.step_time_ns(step_of(4, 999, [(100, 0)])) == 6_000_000


# Llama-3.1-8B on an A100 at 70 % of 312 TFLOP/s and 85 % of 2,039 GB/s, from the published sizes:
# 32 layers, d_model 4096, 32 query and 8 KV heads of 128, d_ff 14,336, 128,256 rows of output.
FLOP_PER_S = 0.7 * 312e12
BYTES_PER_S = 0.85 * 2039e9
LAYER_WEIGHTS = 32 * (
    4096 * 4096  # q
    + 2 * 4096 * 1024  # k, v
    + 4096 * 4096  # o
    + 3 * 4096 * 14_336  # gate, up, down
)
OUTPUT_WEIGHTS = 4096 * 128_256
WEIGHT_BYTES = 2 * (LAYER_WEIGHTS + OUTPUT_WEIGHTS)
KV_BYTES = 2 * 32 * 8 * 128 * 2  # of a token: K and V, layers, heads, size, bytes
FLOP_PER_PAIR = 4 * 32 * 32 * 128  # two products, each a multiply and an add


def test_roofline_of_a_decode_step_by_hand():
    """Four decodes with 4,000 tokens of context read 15.0 GB of weights and 0.52 GB of KV.

    15,009,316,864 bytes / 1,733.15 GB/s = 8.660 ms, 524,288,000 / 1,733.15 GB/s = 0.303 ms, and
    1 ms besides; the arithmetic, 60 and 2.1 GFLOP, would take 0.3 ms.
    """
    assert WEIGHT_BYTES == 15_009_316_864
    seconds = WEIGHT_BYTES / BYTES_PER_S + 4_000 * KV_BYTES / BYTES_PER_S + 0.001
    time_ns = roofline("llama-3.1-8b").step_time_ns(step_of(4, 4_000))
    assert time_ns == pytest.approx(9_962_643, abs=1)
    assert time_ns == pytest.approx(seconds * 1e9, abs=1)


def test_roofline_of_a_prefill_by_hand():
    """2,048 tokens after 1,024 others: 28.59 TFLOP of matrices and 2.2 TFLOP of attention.

    Token k of the chunk looks at 1,024 + k: 2,048 x 1,024 + 2,048 x 2,049 / 2 = 4,195,328 pairs.
    One row is sampled from. Reading weights and 3,072 tokens of KV would take 8.7 and 0.2 ms.
    """
    matrices_flop = 2 * LAYER_WEIGHTS * 2048 + 2 * OUTPUT_WEIGHTS
    attention_flop = 4_195_328 * FLOP_PER_PAIR
    seconds = matrices_flop / FLOP_PER_S + attention_flop / FLOP_PER_S + 0.001
    time_ns = roofline("llama-3.1-8b").step_time_ns(step_of(prefills=[(2048, 1024)]))
    assert time_ns == pytest.approx(141_970_298, abs=1)
    assert time_ns == pytest.approx(seconds * 1e9, abs=1)


def test_roofline_of_a_mixed_step_reads_the_weights_once():
    """8 decodes (9,000 of context) beside a chunk of 100 tokens after 20: memory bounds both."""
    flop = 2 * LAYER_WEIGHTS * 108 + 2 * OUTPUT_WEIGHTS * 9
    assert flop / FLOP_PER_S < WEIGHT_BYTES / BYTES_PER_S
    seconds = WEIGHT_BYTES / BYTES_PER_S + (9_000 + 120) * KV_BYTES / BYTES_PER_S + 0.001
    time_ns = roofline("llama-3.1-8b").step_time_ns(step_of(8, 9_000, [(100, 20)]))
    assert time_ns == pytest.approx(seconds * 1e9, abs=1)


def test_roofline_of_two_chunks_counts_each_with_its_own_context():
    """300 tokens after none and 200 after 1,000: pairs 300 x 301 / 2, and 200,000 + 200 x 201 / 2.

    Both halves are bound by arithmetic: 500 tokens are past the ridge of the matrices.
    """
    pairs = 45_150 + 220_100
    matrices_s = (2 * LAYER_WEIGHTS * 500 + 2 * OUTPUT_WEIGHTS * 2) / FLOP_PER_S
    attention_s = pairs * FLOP_PER_PAIR / FLOP_PER_S
    assert matrices_s > WEIGHT_BYTES / BYTES_PER_S
    assert attention_s > 1_500 * KV_BYTES / BYTES_PER_S
    time_ns = roofline("llama-3.1-8b").step_time_ns(step_of(prefills=[(300, 0), (200, 1000)]))
    assert time_ns == pytest.approx((matrices_s + attention_s + 0.001) * 1e9, abs=1)


@pytest.mark.parametrize("seed", range(5))
def test_a_run_of_decodes_takes_what_its_steps_take(latency, seed):
    """To the nanosecond, for batches and contexts of every magnitude."""
    rng = random.Random(seed)
    for _ in range(20):
        num_seqs = round(2 ** rng.uniform(0, 10))
        context = num_seqs * round(2 ** rng.uniform(0, 17)) + rng.randrange(num_seqs)
        num_steps = rng.choice([1, 2, 37])
        times = latency.decode_times_ns(num_seqs, context, num_steps)
        steps = [step_of(num_seqs, context + num_seqs * i) for i in range(num_steps)]
        assert times == [latency.step_time_ns(step) for step in steps]


def test_durations_are_whole_numbers(latency):
    assert isinstance(latency.step_time_ns(step_of(3, 1_000)), int)
    assert {type(t) for n in (2, 99) for t in latency.decode_times_ns(3, 1_000, n)} == {int}


def test_no_step_is_shorter_than_a_nanosecond():
    """Else the clock would stand still, however fast the hardware."""
    gpu = Hardware(title="", peak_flop_per_s=1e30, memory_bytes=1e9, bandwidth_bytes_per_s=1e30)
    no_time = ASSUMED | {"overhead_s": 0.0}
    for latency in (
        LinearLatency(step_s=1e-12),
        RooflineLatency(catalogue.model("toy"), gpu, **no_time),
    ):
        assert latency.step_time_ns(step_of(1, 1)) == 1
        assert latency.decode_times_ns(1, 1, 3) == [1, 1, 1]


def test_more_context_never_takes_less_time(latency):
    times = latency.decode_times_ns(16, 16, 2_000)
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize("name", [name for name in MODELS if name != "constant"])
def test_far_more_context_takes_more_time(name):
    latency = MODELS[name]()
    assert latency.step_time_ns(step_of(16, 1_000_000)) > latency.step_time_ns(step_of(16, 1_000))


def test_longer_chunks_never_take_less_time(latency):
    times = [latency.step_time_ns(step_of(prefills=[(n, 100)])) for n in range(1, 2_000, 7)]
    assert times == sorted(times)


def test_roofline_is_that_of_the_model_and_hardware(new_scenario):
    """Four decodes are bound by memory, and the H100 reads 3,350 GB/s, the A100 2,039.

    Weights of OPT-13B besides the embedding of positions, norms and biases, and KV of 100 tokens.
    """
    latency = {"kind": "roofline", "overhead_s": 0}
    a100, h100 = (
        build_latency(new_scenario(model="opt-13b", hardware=gpu, latency=latency)).step_time_ns(
            step_of(4, 100)
        )
        for gpu in ("a100-80gb", "h100-80gb")
    )
    read_bytes = 2 * (40 * 12 * 5120**2 + 50_272 * 5120) + 100 * 819_200
    assert a100 == pytest.approx(read_bytes / (0.85 * 2039e9) * 1e9, abs=1)
    assert h100 == pytest.approx(read_bytes / (0.85 * 3350e9) * 1e9, abs=1)
