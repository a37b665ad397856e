"""What all kinds of step times have in common, and the two questions they answer set together."""

import random
from pathlib import Path

import numpy as np
import pytest

from sim import catalogue
from sim.deployment import Deployment
from sim.latency.build import build_latency
from sim.latency.linear import LinearLatency
from sim.latency.model import Curve, CurveLatency, Prefills
from sim.latency.operators import OperatorLatency
from sim.latency.profile import profile_operators
from sim.latency.roofline import roofline_operators
from sim.latency.silicon import silicon_operators

ATTENTION_ROWS = [
    f"{chunk},{before},{decodes},{context},{chunk * (4 + before) + decodes * (9 + context) ** 0.5}"
    for chunk in (0, 16, 256)
    for before in ((0, 64, 1024) if chunk else (0,))
    for decodes in (0, 1, 8, 64)
    for context in ((16, 64, 256, 1024) if decodes else (0,))
    if chunk or decodes
]
TABLES = {
    "tp1_dense.csv": [
        "layer,tokens,time_us",
        *(f"{name},1,2" for name in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")),
        *("layernorm,1,2", "layernorm,64,3", "layernorm,99,9"),
    ],
    "tp1_per_sequence.csv": ["layer,sequences,time_us", "lm_head,1,5", "lm_head,64,8"],
    "tp1_attention.csv": ["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", *ATTENTION_ROWS],
}


class Staircase(CurveLatency):
    """Rises at different rates between 0, 100, 1,000 and 50,000 tokens of context."""

    def decode_curve(self, num_decodes: int) -> Curve:
        return Curve.through([0.0, 100.0, 1_000.0, 50_000.0], [1e-3, 1.1e-3, 1.7e-3, 1.9e-3])

    def seconds(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        chunk_tokens = sum(num_tokens for num_tokens, _ in prefills)
        return self.decode_curve(num_decodes).at(decode_context_tokens) + chunk_tokens * 1e-6


def roofline(name: str, gpu: str, overhead_s: float = 0.001, **deployed) -> OperatorLatency:
    hardware = catalogue.load_hardware(gpu)
    deployment = Deployment(model=catalogue.load_model(name), hardware=hardware, **deployed)
    operators = roofline_operators(deployment, catalogue.load_efficiency(gpu))
    return OperatorLatency(operators, overhead_s=overhead_s, per_sequence_s=1e-5)


def profiled(folder: Path) -> OperatorLatency:
    for name, lines in TABLES.items():
        (folder / name).write_text("\n".join(lines))
    hardware = catalogue.load_hardware("rtx-4090")
    deployment = Deployment(model=catalogue.load_model("toy"), hardware=hardware)
    operators = profile_operators(folder, deployment, catalogue.load_efficiency("rtx-4090"))
    return OperatorLatency(operators, overhead_s=0.0, per_sequence_s=0.0)


def silicon() -> OperatorLatency:
    pytest.importorskip("aiconfigurator_core", reason="the extra `silicon` is not installed")
    hardware = catalogue.load_hardware("h100-80gb")
    deployment = Deployment(model=catalogue.load_model("llama-3.1-8b"), hardware=hardware)
    return OperatorLatency(silicon_operators(deployment), overhead_s=0.001, per_sequence_s=0.0)


# Every kind there is, by what is odd about each.
KINDS = {
    "constant": lambda _: LinearLatency(step_s=0.0123456789),
    "linear": lambda _: LinearLatency(
        step_s=1e-3, per_decode_s=1e-5, per_context_token_s=1e-8, per_prefill_token_s=1e-6
    ),
    "knots": lambda _: Staircase(),
    "roofline of llama": lambda _: roofline("llama-3.1-8b", "a100-80gb"),
    "roofline of two GPUs": lambda _: roofline("opt-13b", "h100-80gb", tensor_parallel_size=2),
    "roofline of a toy": lambda _: roofline("toy", "a40", overhead_s=0.0),
    "roofline of windows": lambda _: roofline("mistral-7b", "a100-80gb"),
    "roofline of windows and experts": lambda _: roofline("gpt-oss-20b", "h200"),
    "profile": profiled,
    "silicon": lambda _: silicon(),
}
RISING = [kind for kind in KINDS if kind != "silicon"]  # what was measured also steps downwards


@pytest.fixture(scope="module", params=KINDS)
def latency(request, tmp_path_factory):
    return KINDS[request.param](tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize("num_steps", [1, 2, 24, 25, 400])
def test_a_run_of_decodes_takes_what_its_steps_take(latency, new_step, num_steps):
    """To the nanosecond, for batches and contexts of every magnitude, however many steps there are.

    Up to 24 steps are computed one by one, more of them as an array.
    """
    rng = random.Random(num_steps)
    for _ in range(8):
        num_seqs = round(2 ** rng.uniform(0, 8))
        context = num_seqs * round(2 ** rng.uniform(0, 14)) + rng.randrange(num_seqs)
        times = latency.decode_times_ns(num_seqs, context, num_steps)
        steps = [new_step(num_seqs, context + num_seqs * i) for i in range(num_steps)]
        assert times == [latency.step_time_ns(step) for step in steps]


@pytest.mark.parametrize("num_steps", [3, 24, 30])
@pytest.mark.parametrize("knot", [100, 1_000, 50_000])
def test_a_run_of_decodes_across_a_knot_takes_what_its_steps_take(new_step, knot, num_steps):
    """From every place before it: on it, next to it, and so that only the last step is beyond."""
    staircase = Staircase()
    for context in range(knot - 4 * num_steps, knot + 3):
        times = staircase.decode_times_ns(4, context, num_steps)
        steps = [new_step(4, context + 4 * i) for i in range(num_steps)]
        assert times == [staircase.step_time_ns(step) for step in steps]


def test_a_run_of_decodes_may_be_cut_anywhere(latency):
    whole = latency.decode_times_ns(5, 700, 60)
    assert whole == latency.decode_times_ns(5, 700, 13) + latency.decode_times_ns(5, 765, 47)


def test_steps_on_a_curve_by_hand(new_step):
    """1 ms at 0, 1.1 at 100, 1.7 at 1,000, 1.9 at 50,000 tokens, and beyond as before."""
    contexts = (0, 50, 100, 400, 1_000, 25_500, 50_000, 99_000)
    times = [Staircase().step_time_ns(new_step(2, context)) for context in contexts]
    by_hand = [1.0, 1.05, 1.1, 1.3, 1.7, 1.8, 1.9, 2.1]
    assert times == pytest.approx([round(ms * 1e6) for ms in by_hand], abs=1)


def test_a_curve_goes_through_its_points():
    curve = Curve.through([0.0, 3.0, 10.0], [5.0, 6.0, 2.0])
    assert [curve.at(x) for x in (0, 3, 10)] == pytest.approx([5, 6, 2])


def test_a_curve_is_that_of_numpy_between_its_points():
    rng = np.random.default_rng(1)
    knots = np.concatenate([[0.0], np.sort(rng.uniform(1, 1_000, 20))])
    seconds = rng.uniform(0, 1, 21)
    curve = Curve.through(knots.tolist(), seconds.tolist())
    contexts = rng.uniform(0, knots[-1], 200)
    assert [curve.at(x) for x in contexts] == pytest.approx(np.interp(contexts, knots, seconds))


def test_durations_are_whole_numbers(latency, new_step):
    steps = [new_step(3, 1_000), new_step(3, 1_000, [(10, 5)]), new_step(prefills=[(10, 5)])]
    times = [latency.step_time_ns(step) for step in steps]
    runs = [latency.decode_times_ns(3, 1_000, n) for n in (2, 99)]
    assert {type(time) for time in [*times, *runs[0], *runs[1]]} == {int}


class Instant(CurveLatency):
    """Takes no time."""

    def decode_curve(self, num_decodes: int) -> Curve:
        return Curve.line(0.0, 1e-15)

    def seconds(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        return 0.0


def test_no_step_is_shorter_than_a_nanosecond(new_step):
    """Else the clock would stand still, however fast the hardware."""
    times = [Instant().step_time_ns(step) for step in (new_step(1, 1), new_step(1, 1, [(1, 0)]))]
    assert times == [1, 1]


@pytest.mark.parametrize("num_steps", [3, 50])
def test_no_step_of_a_run_is_shorter_than_a_nanosecond(num_steps):
    assert Instant().decode_times_ns(1, 1, num_steps) == [1] * num_steps


def test_time_beyond_int64_is_refused():
    """292 years of nanoseconds; each step of the array adds to a clock of int64."""
    with pytest.raises(OverflowError, match="int64"):
        LinearLatency(step_s=1e10).decode_times_ns(1, 1, 100)


@pytest.mark.parametrize("kind", RISING)
def test_more_context_never_takes_less_time(kind, tmp_path):
    latency = KINDS[kind](tmp_path)
    times = latency.decode_times_ns(16, 16, 2_000)
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "constant"])
def test_far_more_context_takes_more_time(kind, new_step, tmp_path):
    latency = KINDS[kind](tmp_path)
    assert latency.step_time_ns(new_step(16, 1_000_000)) > latency.step_time_ns(new_step(16, 1_000))


@pytest.mark.parametrize("kind", RISING)
def test_longer_chunks_never_take_less_time(kind, new_step, tmp_path):
    latency = KINDS[kind](tmp_path)
    times = [latency.step_time_ns(new_step(prefills=[(n, 100)])) for n in range(1, 2_000, 7)]
    assert times == sorted(times)


def test_answers_do_not_depend_on_what_was_asked_before(tmp_path, new_step):
    """Curves are kept by batch size."""
    asked, fresh = profiled(tmp_path), profiled(tmp_path)
    for num_seqs in (1, 9, 2):
        asked.decode_times_ns(num_seqs, 500, 40)
    assert asked.step_time_ns(new_step(2, 600)) == fresh.step_time_ns(new_step(2, 600))


def test_constant_is_the_same_for_every_shape(new_scenario, new_step):
    latency = build_latency(new_scenario(latency={"kind": "constant", "step_time_s": 0.25})).latency
    shapes = [(1, 1, []), (7, 90_000, []), (3, 500, [(512, 0), (16, 4096)])]
    assert [latency.step_time_ns(new_step(*shape)) for shape in shapes] == [250_000_000] * 3


def test_linear_by_hand(new_step):
    """1 ms + 3 decodes x 10 us + 5,000 of context x 10 ns + 150 of prefill x 1 us = 1.23 ms."""
    latency = LinearLatency(
        step_s=1e-3, per_decode_s=1e-5, per_context_token_s=1e-8, per_prefill_token_s=1e-6
    )
    step = new_step(3, 5_000, [(100, 0), (50, 200)])
    assert latency.step_time_ns(step) == 1_000_000 + 30_000 + 50_000 + 150_000


def test_linear_costs_of_chunks_and_doublings_by_hand(new_step):
    """1 ms + 7 decodes x 10 us + 3 doublings x 20 us + 2 chunks x 50 us + 36 + 3 pairs x 1 us."""
    latency = LinearLatency(
        step_s=1e-3,
        per_decode_s=1e-5,
        per_decode_doubling_s=2e-5,
        per_prefill_s=5e-5,
        per_prefill_pair_s=1e-6,
    )
    step = new_step(7, 5_000, [(3, 10), (2, 0)])
    assert latency.step_time_ns(step) == 1_000_000 + 70_000 + 60_000 + 100_000 + 39_000
    assert latency.decode_times_ns(3, 5_000, 2) == [1_000_000 + 30_000 + 40_000] * 2


def test_linear_counts_what_is_left_out_as_nothing(new_scenario, new_step):
    spec = {"kind": "linear", "step_s": 0.002, "per_decode_s": 0.001}
    latency = build_latency(new_scenario(latency=spec)).latency
    assert latency.step_time_ns(new_step(4, 999, [(100, 0)])) == 6_000_000


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        (
            {"latency": "roofline"},
            (
                "roofline with products at 77%",
                "Llama-3.1-8B on 1 x a100-80gb",
                "bfloat16 weights",
                "A100",
                "1 ms a step",
            ),
        ),
        (
            {
                "latency": {"kind": "roofline", "constants": "common", "per_sequence_s": 2e-5},
                "deployment": {"tensor_parallel_size": 2, "quantization": "fp8"},
            },
            ("on 2 x", "fp8 weights, bfloat16 KV", "medians", "0.02 ms a sequence"),
        ),
        ({"latency": {"kind": "constant", "step_time_s": 1}}, ("constant",)),
    ],
)
def test_description_says_where_the_times_come_from(new_scenario, changed, parts):
    text = build_latency(new_scenario(**changed)).source
    assert [part for part in parts if part not in text] == []


def test_description_of_tables_says_what_they_lack(new_scenario, tmp_path):
    columns = "input_layernorm attn_pre_proj attn_rope attn_post_proj post_attention_layernorm"
    columns += " mlp_up_proj mlp_act mlp_down_proj add"
    names = [f"{name}_ms" for name in columns.split()]
    text = ",".join(["tp", "num_tokens", *names]) + "\n1,1" + ",1" * len(names) + "\n"
    (tmp_path / "mlp.csv").write_text(text)
    spec = {"kind": "profile", "folder": str(tmp_path)}
    described = build_latency(new_scenario(latency=spec)).source
    assert f"tables of {tmp_path.name}" in described
    assert "roofline for attention and the output projection" in described
