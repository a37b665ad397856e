"""What `kvsim profile-gpu` times and writes. Of a time, only the sign is looked at."""

import importlib.util
import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sim.catalogue import load_hardware, load_model
from sim.catalogue.model import Model
from sim.cli import main
from sim.deployment import Deployment
from sim.errors import UserError
from sim.profile_gpu.command import profile_gpu
from sim.profile_gpu.points import AttentionPoint, ExpertPoint, Points, points_for, token_counts
from sim.profile_gpu.shard import shard_of

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed: pip install .[gpu]"
)

TOY = load_model("toy")
EXPERTS = replace(TOY, d_ff=48, num_experts=8, num_experts_per_token=2, qk_norm=True)
PLAIN = replace(
    TOY, ffn="plain", num_learned_positions=64, biases=("qkv", "o", "ffn", "norm"), dtype="float16"
)
TINY = Points(
    tokens=[1, 3],
    sequences=[1, 2],
    attention=[
        AttentionPoint(0, 0, 2, 5),
        AttentionPoint(4, 0, 0, 0),
        AttentionPoint(4, 3, 0, 0),
        AttentionPoint(1, 6, 3, 1),
        AttentionPoint(2, 5, 3, 7),
    ],
    experts=[ExpertPoint(1, 2), ExpertPoint(4, 8)],
)
ENDS = ["embedding", "layernorm", "qkv_proj"]
LAYERS = {
    "gated": [*ENDS, "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj"],
    "plain": [*ENDS, "o_proj", "gate_up_proj", "act_fn", "down_proj"],
    "experts": [*ENDS, "qk_norm", "rotary_emb", "o_proj"],
}


@pytest.fixture
def one_thread():
    """Threads that wait for one another make tiny products slow on a busy machine."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[gpu]")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(before)


@pytest.fixture
def bench(one_thread):
    from sim.profile_gpu.measure import Bench
    from sim.profile_gpu.tensors import Tensors
    from sim.profile_gpu.timing import CpuTimer

    torch = one_thread
    torch.manual_seed(0)
    done = []
    bench = Bench(Tensors("cpu", torch.float32), CpuTimer(), lambda: done.append(1))
    bench.done = done
    return bench


def test_tokens_are_dense_where_products_are_small():
    counts = token_counts(2048)
    assert counts[:16] == list(range(1, 17))
    assert counts[16:28] == list(range(20, 65, 4))
    assert counts[28:56] == list(range(80, 513, 16))
    assert counts[56:58] == [576, 640]
    assert counts[-1] == 2048
    assert token_counts(4096)[-3:] == [3584, 3840, 4096]
    assert token_counts(70) == [*counts[:28], 70]
    assert token_counts(1) == [1]


def test_grid_holds_pure_and_mixed_batches():
    points = points_for(TOY, 2048)
    assert points.sequences == token_counts(256)
    assert points.experts == []
    assert len(set(points.attention)) == len(points.attention) == 9 * 11 + 8 * 12 + 8 * 7 * 5 * 6
    for point in [(0, 0, 256, 16384), (16, 0, 0, 0), (2048, 16384, 0, 0), (512, 64, 16, 1024)]:
        assert AttentionPoint(*point) in points.attention


def test_grid_of_short_steps_has_no_prompts():
    assert {point.prefill_chunk for point in points_for(TOY, 15).attention} == {0}


def test_experts_are_activated_by_as_many_as_the_tokens_allow():
    model = replace(EXPERTS, num_experts=12, num_experts_per_token=2)
    points = points_for(model, 8).experts
    assert points == [
        (1, 2),
        *((2, n) for n in (2, 4)),
        *((4, n) for n in (2, 4, 8)),
        *((8, n) for n in (2, 4, 8, 12)),
    ]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_shard_has_the_sizes_of_the_deployment(tp):
    model = load_model("llama-3.1-8b")
    shard = shard_of(model, tp, "bfloat16")
    deployment = Deployment(
        model=model, hardware=load_hardware("h100-80gb"), tensor_parallel_size=tp
    )
    assert [*shard.matrices.values()] == [*deployment.layer_matrices, deployment.output_matrix]
    assert (shard.num_heads, shard.num_kv_heads) == (32 // tp, 8 // tp)
    heads = shard.num_heads + 2 * shard.num_kv_heads
    assert shard.matrices["qkv_proj"].n == heads * model.head_size


def test_kv_heads_are_copied_where_there_are_too_few():
    assert shard_of(TOY, 4, "float32").num_kv_heads == 1


@pytest.mark.parametrize(
    ("model", "tp", "part"),
    [
        (TOY, 3, "--tp 3"),
        (replace(TOY, num_heads=24, num_kv_heads=4), 3, "4 KV heads"),
        (replace(TOY, quantization="fp8"), 1, "fp8"),
        (replace(TOY, num_kv_heads_total=3), 1, "different KV heads"),
    ],
)
def test_what_cannot_be_timed_is_a_mistake(model, tp, part):
    with pytest.raises(UserError, match=part):
        shard_of(model, tp, "float32")


def attention_by_hand(batch, group):
    """Attention of a batch in float64, one query of one head after the other."""
    query = batch.query.numpy().astype(float)
    keys, values = (pool.numpy().astype(float) for pool in (batch.keys, batch.values))
    block_size = keys.shape[1]
    output, row = np.empty_like(query), 0
    for sequence, (num_queries, num_kv) in enumerate(batch.point.sequences):
        slots = [
            (int(batch.block_table[sequence, position // block_size]), position % block_size)
            for position in range(num_kv)
        ]
        for place in range(num_queries):
            seen = slots[: num_kv - num_queries + place + 1]
            for head in range(query.shape[1]):
                K = np.array([keys[slot][head // group] for slot in seen])
                V = np.array([values[slot][head // group] for slot in seen])
                scores = K @ query[row, head] / np.sqrt(query.shape[2])
                weights = np.exp(scores - scores.max())
                output[row, head] = weights @ V / weights.sum()
            row += 1
    return output


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("point", TINY.attention)
def test_timed_attention_is_attention(bench, point, tp):
    """Of every copy, with grouped heads, and so is what kernels are compared with."""
    from sim.profile_gpu.attention import attend_densely, choose_attention
    from sim.profile_gpu.kv_pool import KvPool

    shard = shard_of(TOY, tp, "float32")
    group = shard.num_heads // shard.num_kv_heads
    kernel = choose_attention(shard, bench.tensors, bench.timer)
    pool = KvPool(shard, bench.tensors, num_blocks=60, block_size=1, is_scattered=False)
    batches = pool.batches(point, 2)
    assert len(batches) == 2
    for batch in batches:
        expected = attention_by_hand(batch, group)
        np.testing.assert_allclose(kernel.attend(batch), expected, rtol=1e-4, atol=1e-5)
    scattered = KvPool(shard, bench.tensors, num_blocks=30, block_size=4, is_scattered=True)
    for batch in scattered.batches(point, 2):
        expected = attention_by_hand(batch, group)
        np.testing.assert_allclose(attend_densely(batch), expected, rtol=1e-4, atol=1e-5)


def test_copies_attend_to_other_blocks(bench):
    from sim.profile_gpu.kv_pool import KvPool

    shard = shard_of(TOY, 1, "float32")
    pool = KvPool(shard, bench.tensors, num_blocks=20, block_size=4, is_scattered=True)
    batches = pool.batches(AttentionPoint(0, 0, 2, 9), 64)
    used = [block for batch in batches for block in batch.block_table.flatten().tolist()]
    assert len(batches) == 3
    assert len(set(used)) == len(used) == 18
    assert pool.batches(AttentionPoint(0, 0, 2, 44), 64) == []


@pytest.mark.parametrize("name", ["torch_grouped", "torch_loop"])
@pytest.mark.parametrize("ffn", ["gated", "plain"])
@pytest.mark.parametrize("copy", [0, 1])
def test_timed_experts_are_the_experts(bench, name, ffn, copy):
    from sim.profile_gpu import experts
    from sim.profile_gpu.tensors import assert_equal

    shard = shard_of(replace(EXPERTS, ffn=ffn), 2, "float32")
    layer = experts.expert_layer(shard, bench.tensors)
    assert layer.down.shape == (8, 64, 24)
    ids = experts.chosen_experts(shard, ExpertPoint(5, 4), copy)
    assert sorted(set(ids.flatten().tolist())) == list(range(4 * copy, 4 * copy + 4))
    assert all(len(set(row)) == 2 for row in ids.tolist())
    hidden, weights = bench.tensors.normal(5, 64), bench.tensors.normal(5, 2)
    output = getattr(experts, name)().bind(layer, ids)(hidden, weights)
    assert_equal(output, experts.compute_densely(layer, ids, hidden, weights))


@pytest.mark.parametrize(
    ("model", "kind"), [(TOY, "gated"), (PLAIN, "plain"), (EXPERTS, "experts")]
)
def test_every_point_has_a_time(bench, model: Model, kind):
    from sim.profile_gpu.measure import measure_shard, num_points

    points = TINY if model.num_experts else replace(TINY, experts=[])
    shard = shard_of(model, 2, "float32")
    profile = measure_shard(shard, points, bench)
    tables = profile.tables
    dense = [(layer, n) for layer in [*LAYERS[kind], "final_layernorm"] for n in points.tokens]
    assert [(*row,) for row in tables["dense"][["layer", "tokens"]].to_numpy()] == dense
    per_sequence = [(layer, n) for layer in ("lm_head", "sampler") for n in points.sequences]
    rows = tables["per_sequence"][["layer", "sequences"]].to_numpy()
    assert [(*row,) for row in rows] == per_sequence
    assert [
        *tables["attention"].drop(columns="time_us").itertuples(index=False)
    ] == points.attention
    if points.experts:
        assert [*tables["moe"].drop(columns="time_us").itertuples(index=False)] == points.experts
    assert all((table["time_us"] > 0).all() for table in tables.values())
    assert set(profile.left_out.values()) == {0}
    total = sum(len(table) for table in tables.values())
    assert len(bench.done) == total == num_points(shard, bench.tensors, points)


def test_points_without_memory_are_left_out_and_counted(bench, one_thread, monkeypatch):
    """A KV cache that is too small for a point, and an operator without memory for its outputs."""
    from sim.profile_gpu.measure import measure_shard
    from sim.profile_gpu.tensors import Tensors

    def no_memory(*_: object) -> None:
        raise one_thread.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(Tensors, "pool_bytes", 8 * 2 * 2 * 16 * 4)  # 8 tokens
    monkeypatch.setattr("sim.profile_gpu.layers._greedy", no_memory)
    profile = measure_shard(shard_of(TOY, 1, "float32"), replace(TINY, experts=[]), bench)
    assert profile.left_out == {"dense": 0, "per_sequence": 2, "attention": 3}
    kept = [*profile.tables["attention"].drop(columns="time_us").itertuples(index=False)]
    assert kept == [AttentionPoint(4, 0, 0, 0), AttentionPoint(4, 3, 0, 0)]


def test_other_errors_are_not_taken_for_want_of_memory(one_thread):
    from sim.profile_gpu.tensors import unless_out_of_memory

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        unless_out_of_memory(lambda: one_thread.ones(2, 3) @ one_thread.ones(2, 3))


def test_kernels_that_fail_are_passed_over(one_thread, capsys):
    from sim.profile_gpu.tensors import first_that_works

    def missing() -> str:
        raise ModuleNotFoundError

    def unfit() -> str:
        raise RuntimeError("no kernel image\nfor this device")

    def wrong() -> str:
        return "wrong"

    def right() -> str:
        return "right"

    def try_out(kernel: str) -> None:
        assert kernel == "right", "differs"

    assert first_that_works("x", [missing, unfit, wrong, right], try_out) == "right"
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "x: unfit does not work here: no kernel image for this device"
    assert len(told) == 2
    with pytest.raises(UserError, match="x: no kernel"):
        first_that_works("x", [missing, wrong], try_out)


def test_command_writes_the_tables(one_thread, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sim.profile_gpu.command.points_for", lambda *_: replace(TINY, experts=[]))
    out = tmp_path / "new" / "toy"
    args = ["profile-gpu", "toy", "--device", "cpu", "--tp", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["kvsim", *args])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    columns = {
        "tp2_dense.csv": ["layer", "tokens", "time_us"],
        "tp2_per_sequence.csv": ["layer", "sequences", "time_us"],
        "tp2_attention.csv": [*AttentionPoint._fields, "time_us"],
    }
    assert sorted(path.name for path in out.iterdir()) == sorted([*columns, "tp2_profile.json"])
    for name, expected in columns.items():
        assert pd.read_csv(out / name).columns.tolist() == expected
    about = json.loads((out / "tp2_profile.json").read_text("utf-8"))
    assert (about["model"], about["device"], about["dtype"]) == ("toy", "cpu", "float32")
    assert "scaled_dot_product_attention" in about["kernels"]["attention"]
    assert f"written to {out}" in capsys.readouterr().err


def test_interrupted_command_keeps_nothing(one_thread, tmp_path, monkeypatch, capsys):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sim.profile_gpu.timing.CpuTimer.time_us", interrupt)
    args = ["profile-gpu", "toy", "--device", "cpu", "--out", str(tmp_path / "toy")]
    monkeypatch.setattr(sys, "argv", ["kvsim", *args])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert "nothing was kept" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def profile_toy(out, model="toy", device="cpu"):
    profile_gpu(model, out, device=device, tensor_parallel_size=1, max_tokens=2)


def test_missing_torch_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match=r"torch cannot be imported.*pip install 'kvsim\[gpu\]'"):
        profile_toy(tmp_path / "toy")
    assert [*tmp_path.iterdir()] == []


def test_missing_gpu_is_told(one_thread, tmp_path, monkeypatch):
    monkeypatch.setattr(one_thread.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="--device cuda: torch sees no such GPU"):
        profile_toy(tmp_path / "toy", device="cuda")


def test_unknown_model_and_existing_folder_are_mistakes(tmp_path):
    with pytest.raises(UserError, match="got 'nonsense', expected the path of"):
        profile_toy(tmp_path / "toy", model="nonsense")
    with pytest.raises(UserError, match="exists already"):
        profile_toy(tmp_path)
