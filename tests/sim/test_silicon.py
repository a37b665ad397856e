"""Step times of measured kernels against the library that has them, asked directly."""

import builtins
import json
import sys

import pytest

from sim.catalogue import load_hardware, load_model
from sim.deployment import Deployment
from sim.errors import UserError
from sim.latency.build import build_latency
from sim.latency.silicon import SYSTEMS, SiliconAttention, SiliconKernels


def deployed(name: str, hardware: str, **changed) -> Deployment:
    return Deployment(model=load_model(name), hardware=load_hardware(hardware), **changed)


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip(
        "aiconfigurator_core.sdk.engine", reason="the extra `silicon` is not installed"
    ).EngineHandle


@pytest.fixture(scope="module")
def llama(library):
    return SiliconKernels(deployed("llama-3.1-8b", "h100-80gb"))


@pytest.fixture(scope="module")
def asked(library, tmp_path_factory):
    """The library's engine of a model described by a config.json as Hugging Face has it."""

    def compiled(
        system: str, tp_size: int = 1, moe_tp_size: int = 1, quantization="bfloat16", **sizes
    ):
        folder = tmp_path_factory.mktemp("model")
        llama = {
            "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 14_336,
            "vocab_size": 128_256,
            "max_position_embeddings": 131_072,
            "torch_dtype": "bfloat16",
        }
        (folder / "config.json").write_text(json.dumps(llama | sizes))
        return library.compile(
            str(folder),
            system,
            "vllm",
            tp_size=tp_size,
            moe_tp_size=moe_tp_size,
            gemm_quant_mode=quantization,
        )

    return compiled


def decode_ms(kernels: SiliconKernels, num_decodes: int, context: int) -> float:
    attention = SiliconAttention(kernels).decode_curve(num_decodes).at(num_decodes * context)
    return 1e3 * (kernels.products_s(num_decodes) + kernels.output_s(num_decodes) + attention)


def prefill_ms(kernels: SiliconKernels, num_tokens: int, context: int = 0) -> float:
    attention = SiliconAttention(kernels).mixed_s(0, 0, [(num_tokens, context)])
    return 1e3 * (kernels.products_s(num_tokens) + kernels.output_s(1) + attention)


@pytest.mark.parametrize(("num_decodes", "context"), [(1, 128), (32, 1024), (200, 4096)])
def test_decodes_take_what_the_library_says_of_a_decode_step(llama, asked, num_decodes, context):
    """Its step attends to one token more, and so measures up to 0.1 % more."""
    step_ms = asked("h100_sxm").decode_step_latency(num_decodes, context, 2)
    assert decode_ms(llama, num_decodes, context) == pytest.approx(step_ms, rel=0.002)


@pytest.mark.parametrize(("num_tokens", "context"), [(512, 0), (2048, 0), (2048, 6144)])
def test_chunk_takes_what_the_library_says_of_a_prefill(llama, asked, num_tokens, context):
    prefill = asked("h100_sxm").predict_prefill_latency(1, num_tokens + context, context)
    assert prefill_ms(llama, num_tokens, context) == pytest.approx(prefill, rel=0.002)


@pytest.mark.parametrize("num_gpus", [2, 4])
def test_all_reduces_are_among_its_operators(asked, num_gpus):
    kernels = SiliconKernels(deployed("llama-3.1-8b", "h100-80gb", tensor_parallel_size=num_gpus))
    step_ms = asked("h100_sxm", tp_size=num_gpus).decode_step_latency(32, 1024, 2)
    assert decode_ms(kernels, 32, 1024) == pytest.approx(step_ms, rel=0.002)


def test_fp8_weights_take_what_the_library_says_of_them(asked):
    kernels = SiliconKernels(deployed("llama-3.1-8b", "h100-80gb", quantization="fp8"))
    step_ms = asked("h100_sxm", quantization="fp8_static").decode_step_latency(32, 1024, 2)
    assert decode_ms(kernels, 32, 1024) == pytest.approx(step_ms, rel=0.002)


def test_experts_take_what_the_library_says_of_them(asked):
    """Qwen3-30B-A3B by its own config.json. In a prefill the library leaves the output out."""
    sizes = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_hidden_layers": 48,
        "hidden_size": 2048,
        "num_key_value_heads": 4,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "vocab_size": 151_936,
    }
    kernels = SiliconKernels(deployed("qwen3-30b-a3b", "h200"))
    step_ms = asked("h200_sxm", **sizes).decode_step_latency(32, 1024, 2)
    assert decode_ms(kernels, 32, 1024) == pytest.approx(step_ms, rel=0.002)


def test_gpus_share_every_expert(asked):
    """Mixtral-8x7B: each of two GPUs has half of all eight experts, not all of four of them."""
    sizes = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "moe_intermediate_size": 14_336,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 32_000,
    }
    two = deployed("mixtral-8x7b", "h200", tensor_parallel_size=2)
    engine = asked("h200_sxm", tp_size=2, moe_tp_size=2, **sizes)
    step_ms = engine.decode_step_latency(8, 1024, 2)
    assert decode_ms(SiliconKernels(two), 8, 1024) == pytest.approx(step_ms, rel=0.002)


def test_curve_of_decodes_goes_through_what_the_library_says(llama, asked):
    """Attention, its fourth operator, at 16, 128 and 131,072 tokens of context each."""
    curve, engine = SiliconAttention(llama).decode_curve(7), asked("h100_sxm")
    for context in (16, 128, 131_072):
        ((name, milliseconds, *_),) = engine.evaluate_generation_ops([3], batch_size=7, s=context)
        assert name == "generation_attention"
        assert curve.at(7 * context) == pytest.approx(milliseconds / 1e3)


def test_mixed_step_adds_up_the_attention_of_decodes_and_chunks(llama):
    """The library knows no kernel that does both."""
    attention = SiliconAttention(llama)
    both = attention.mixed_s(16, 16_000, [(512, 0), (256, 1024)])
    apart = attention.mixed_s(0, 0, [(512, 0)]) + attention.mixed_s(0, 0, [(256, 1024)])
    assert both == pytest.approx(apart + attention.decode_curve(16).at(16_000))


def test_answers_do_not_depend_on_what_was_asked_before(llama):
    """Those of a shape are kept."""
    fresh = SiliconKernels(deployed("llama-3.1-8b", "h100-80gb"))
    for num_tokens in (5, 6, 5):
        llama.products_s(num_tokens)
        llama.chunk_attention_s(num_tokens, 100)
    assert llama.products_s(5) == fresh.products_s(5)
    assert llama.chunk_attention_s(5, 100) == fresh.chunk_attention_s(5, 100)


def test_answers_of_two_deployments_are_kept_apart(llama):
    other = SiliconKernels(deployed("llama-3.2-1b", "h100-80gb"))
    assert other.products_s(5) < llama.products_s(5) / 2


def test_host_costs_come_on_top(library, new_scenario, new_step):
    """1 ms a step and 0.1 ms for each of three decodes."""
    spec = {"kind": "silicon", "overhead_s": 0}
    without = build_latency(new_scenario(latency=spec)).latency
    spec = {"kind": "silicon", "overhead_s": 0.001, "per_sequence_s": 1e-4}
    with_host = build_latency(new_scenario(latency=spec)).latency
    step = new_step(3, 3_000)
    assert with_host.step_time_ns(step) - without.step_time_ns(step) == 1_300_000


@pytest.mark.slow
def test_every_gpu_it_is_said_to_know_is_known(library):
    for hardware, system in SYSTEMS.items():
        kernels = SiliconKernels(deployed("llama-3.1-8b", hardware))
        assert 0 < decode_ms(kernels, 1, 128) < 100, system


@pytest.mark.parametrize(
    ("name", "hardware", "changed", "words"),
    [
        ("llama-3.1-8b", "rtx-4090", {}, "GeForce RTX 4090"),
        ("llama-3.1-8b", "h100-80gb", {"dtype": "float32"}, "float32 KV"),
        ("gpt-oss-20b", "h100-80gb", {}, "mxfp4 weights"),
        ("llama-3.1-8b", "h100-80gb", {"quantization": "int4"}, "int4 weights"),
        ("opt-13b", "h100-80gb", {}, "gated network"),
        ("mistral-7b", "h100-80gb", {}, "full attention"),
        ("decilm-7b", "h100-80gb", {}, "all alike"),
        # What only the library's tables tell, when they are asked.
        ("llama-3.1-8b", "a100-80gb", {"quantization": "fp8"}, "A100"),
        ("toy", "h100-80gb", {"dtype": "float16"}, "kvsim toy transformer"),
    ],
)
def test_what_it_does_not_cover_is_one_line(library, name, hardware, changed, words):
    with pytest.raises(UserError, match="silicon does not cover") as caught:
        SiliconKernels(deployed(name, hardware, **changed))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_library_is_one_line_that_names_the_extra(monkeypatch):
    """As where `pip install kvsim` was all."""
    whole_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("aiconfigurator_core"):
            raise ImportError(name)
        return whole_import(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("aiconfigurator_core")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError) as caught:
        SiliconKernels(deployed("llama-3.1-8b", "h100-80gb"))
    (line,) = str(caught.value).splitlines()
    assert "latency.kind: silicon" in line
    assert "pip install 'kvsim[silicon]'" in line
    assert "it covers a100-80gb, h100-80gb" in line


@pytest.mark.parametrize("gpu", ["h100-80gb", "b200"])
def test_experts_in_fp8_take_less_time_than_in_16_bits(library, gpu):
    """16 tokens touch most experts, so that reading their weights is what takes the time."""
    fp8, plain = (
        SiliconKernels(deployed("mixtral-8x7b", gpu, quantization=weights)).products_s(16)
        for weights in ("fp8", "none")
    )
    assert 0.5 * plain < fp8 < 0.8 * plain
