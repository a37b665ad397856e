"""Tables of measured operators: read, interpolated, and summed to steps, by hand and by loops."""

import gzip
import itertools
import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import RegularGridInterpolator

from sim import catalogue
from sim.deployment import Deployment
from sim.errors import UserError
from sim.latency.allreduce import NoAllReduce
from sim.latency.build import build_latency
from sim.latency.grid import Grid, Line
from sim.latency.operators import OperatorLatency
from sim.latency.profile import profile_operators
from sim.latency.roofline import RooflineAttention, RooflineProducts
from sim.measured_table import read_table
from sim.scenario.file import load_scenario

SHARES = catalogue.load_efficiency("rtx-4090")


def random_grid(rng: np.random.Generator, *sizes: int) -> Grid:
    axes = [np.cumsum(rng.uniform(0.5, 20, size)) for size in sizes]
    return Grid(axes, rng.uniform(1, 9, sizes))


@pytest.mark.parametrize("sizes", [(2,), (7,), (3, 4), (2, 5, 3), (4, 2, 3, 5)])
def test_grid_is_that_of_scipy(sizes):
    """Inside, on its points, and before them on every axis."""
    rng = np.random.default_rng(len(sizes))
    grid = random_grid(rng, *sizes)
    scipy = RegularGridInterpolator(grid.axes, grid.values, bounds_error=False, fill_value=None)
    for _ in range(100):
        position = [rng.uniform(2 * axis[0] - axis[-1], axis[-1]) for axis in grid.axes]
        assert grid.at(*position) == pytest.approx(float(scipy(position)[0]))


def test_grid_has_its_values_at_its_points():
    grid = random_grid(np.random.default_rng(5), 3, 4, 2)
    for place in itertools.product(range(3), range(4), range(2)):
        position = [axis[i] for axis, i in zip(grid.axes, place, strict=True)]
        assert grid.at(*position) == pytest.approx(grid.values[place])


def test_grid_goes_on_beyond_its_points_but_never_falls():
    """By hand: along the rising row 2 a step, along the falling one level."""
    grid = Grid([np.array([0.0, 1.0]), np.array([0.0, 1.0])], np.array([[1.0, 3.0], [5.0, 4.0]]))
    assert (grid.at(0, 3), grid.at(1, 3), grid.at(3, 0), grid.at(3, 1)) == (7, 4, 13, 6)


def test_rows_of_a_grid_may_come_in_any_order():
    grid = random_grid(np.random.default_rng(6), 3, 4)
    rows = [(x, y, grid.at(x, y)) for x in grid.axes[0] for y in grid.axes[1]]
    random.Random(6).shuffle(rows)
    x, y, values = np.array(rows).T
    assert Grid.from_rows((x, y), values).values == pytest.approx(grid.values)


def holed(text: str) -> Grid:
    """A grid from rows of numbers and dots, at 0, 1, 2, ... along both axes."""
    rows = [
        (i, j, float(cell))
        for i, line in enumerate(text.split("/"))
        for j, cell in enumerate(line.split())
        if cell != "."
    ]
    i, j, values = np.array(rows).T
    return Grid.from_rows((i, j), values)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        # Along the last axis first, where both sides of it are known.
        ("1 . 3 / 9 9 9 / 5 5 5", "1 2 3 / 9 9 9 / 5 5 5"),
        # Along the first where the last has one side only.
        ("1 1 . / 2 2 6 / 3 3 8", "1 1 1 / 2 2 6 / 3 3 8"),
        ("1 1 4 / 2 2 . / 3 3 8", "1 1 4 / 2 2 6 / 3 3 8"),
        ("1 1 4 / . 2 6 / 3 3 8", "1 1 4 / 2 2 6 / 3 3 8"),
        # Outside of both, along the last axis: on as before, but never falling, or the nearest.
        ("1 2 . / 3 4 .  / 5 6 9", "1 2 3 / 3 4 5 / 5 6 9"),
        ("1 2 . . / 4 3 . . / 5 6 9 9", "1 2 3 4 / 4 3 3 3 / 5 6 9 9"),
        (". 2 3 / . 4 5 / 0 6 9", "2 2 3 / 4 4 5 / 0 6 9"),
    ],
)
def test_holes_of_a_grid_by_hand(text, filled):
    assert holed(text).values.tolist() == holed(filled).values.tolist()


def test_holes_in_a_plane_are_filled_as_the_plane_goes():
    """Wherever they are but on the edge, for linear interpolation of a plane is exact."""
    rng = random.Random(7)
    for _ in range(20):
        holes = {(rng.randrange(1, 5), rng.randrange(1, 5)) for _ in range(6)}
        rows = [(i, j, 3 * i + 5 * j) for i in range(6) for j in range(6) if (i, j) not in holes]
        i, j, values = np.array(rows, float).T
        grid = Grid.from_rows((i, j), values)
        assert all(grid.at(*hole) == pytest.approx(3 * hole[0] + 5 * hole[1]) for hole in holes)


def test_line_joins_its_points():
    line = Line(np.array([1.0, 3.0, 4.0]), np.array([10.0, 20.0, 10.0]))
    assert [line.at(x) for x in (1, 2, 3, 3.5, 4)] == [10, 15, 20, 15, 10]


def test_line_holds_its_first_value_before_it():
    line = Line(np.array([4.0, 8.0]), np.array([10.0, 20.0]))
    assert line.at(1) == 10


def test_line_goes_on_along_the_least_squares_of_its_last_points():
    """A staircase of 1 a step in two: its last eight points 12 to 19 have the values 6 6 7 7 ... 9.

    Deviations -3.5 to 3.5 times values: 21 over a sum of squares of 42, hence 1/2 a step.
    """
    positions = np.arange(20.0)
    line = Line(positions, positions // 2)
    assert 6 * -3.5 + 6 * -2.5 + 7 * -1.5 + 7 * -0.5 + 8 * 0.5 + 8 * 1.5 + 9 * 2.5 + 9 * 3.5 == 20
    assert line.at(29) == pytest.approx(9 + 10 * 20 / 42)


def test_line_of_one_point_is_level():
    assert Line(np.array([4.0]), np.array([10.0])).at(100) == 10


# Layers of the tiny model, two of them. Microseconds.
DENSE = """\
layer,tokens,time_us
embedding,1,1
embedding,8,1
layernorm,1,1
layernorm,2,1
layernorm,4,2
layernorm,8,2
qkv_proj,1,10
qkv_proj,4,16
qkv_proj,8,24
final_layernorm,1,3
final_layernorm,8,3
o_proj,1,0
gate_up_proj,1,0
down_proj,1,0
"""
PER_SEQUENCE = """\
layer,sequences,time_us
lm_head,1,5
lm_head,4,8
sampler,1,1
sampler,4,1
"""
ATTENTION = """\
prefill_chunk,kv_prefill,n_decode,kv_decode,time_us
0,0,1,16,10
0,0,1,32,20
0,0,2,16,14
0,0,2,32,30
4,0,0,0,8
4,16,0,0,16
4,0,1,16,20
4,0,1,32,24
4,0,2,16,22
4,0,2,32,36
4,16,1,16,28
4,16,1,32,32
4,16,2,16,30
4,16,2,32,44
"""
LAYERS = {
    "tp1_dense.csv": DENSE,
    "tp1_per_sequence.csv": PER_SEQUENCE,
    "tp1_attention.csv": ATTENTION,
}
EXPERTS = {"num_experts": 4, "num_experts_per_token": 2}
MOE = "tokens,activated_experts,time_us\n1,2,10\n2,2,12\n2,4,20\n4,2,14\n4,4,24\n"


@pytest.fixture
def profiled(tmp_path, new_model, new_gpu):
    """Step times from a folder of tables: `profiled({"mlp.csv": "..."}, num_layers=4)`."""

    def make(tables: dict[str, str], tensor_parallel_size: int = 1, **sizes) -> OperatorLatency:
        for name, text in tables.items():
            (tmp_path / name).write_text(text)
        deployment = Deployment(
            model=new_model(**sizes),
            hardware=new_gpu(),
            tensor_parallel_size=tensor_parallel_size,
        )
        profile = profile_operators(tmp_path, deployment, SHARES)
        alone = profile._replace(allreduce=NoAllReduce())
        return OperatorLatency(alone, overhead_s=0.0, per_sequence_s=0.0)

    return make


def test_no_all_reduce_takes_no_time():
    assert NoAllReduce().step_s(1_000) == 0


# Of a step of T tokens: embedding 1, final norm 3, two layers of 2 norms and qkv.
# T = 1: 4 + 2 x (2 + 10) = 28; 2: 4 + 2 x (2 + 12) = 32; 4: 4 + 2 x (4 + 16) = 44;
# 8: 4 + 2 x (4 + 24) = 60. R rows: 1: 6, 2: 7, 3: 8. Attention is twice that of the table.
@pytest.mark.parametrize(
    ("shape", "time_us"),
    [
        ((1, 16, []), 28 + 6 + 2 * 10),
        ((1, 24, []), 28 + 6 + 2 * 15),  # half-way between 16 and 32
        ((1, 48, []), 28 + 6 + 2 * 30),  # goes on beyond 32
        ((1, 8, []), 28 + 6 + 2 * 10),  # below 16 as there
        ((2, 48, []), 32 + 7 + 2 * 22),  # 24 each
        ((3, 48, []), 38 + 8 + 2 * 18),  # three of 16: as far from two as two from one
        ((0, 0, [(4, 0)]), 44 + 6 + 2 * 8),
        ((0, 0, [(4, 8)]), 44 + 6 + 2 * 12),
        ((0, 0, [(2, 0)]), 32 + 6 + 2 * 4),  # half of the chunk: from nothing, 0
        ((2, 32, [(4, 0)]), 52 + 8 + 2 * 22),
        ((1, 24, [(4, 8)]), 48 + 7 + 2 * 26),
        # (2 after 0) and (2 after 6) are 3 + 15 pairs of 4 tokens, as (4 after 2): 10 + 4 x 2.
        ((0, 0, [(2, 0), (2, 6)]), 44 + 7 + 2 * 9),
        # 3 + 3 pairs, 4 fewer than (4 after 0): 8 less 1/4 of what a context of 4 would add, 2.
        ((0, 0, [(2, 0), (2, 0)]), 44 + 7 + 2 * 7.5),
        # 8 tokens of 36 pairs: two chunks of 4 with 18 pairs each, as (4 after 2).
        ((0, 0, [(8, 0)]), 60 + 6 + 2 * 9 * 2),
        # 6 after 0 are 21 pairs: 4 tokens with 14, as (4 after 1): 8.5; and 2 tokens with 7, as
        # (2 after 2), beside one decode of 16: between nothing, 10, and (4 after 2), 21.
        ((1, 16, [(6, 0)]), 56 + 7 + 2 * (8.5 + 15.5)),
    ],
)
def test_step_of_layers_by_hand(profiled, new_step, shape, time_us):
    assert profiled(LAYERS).step_time_ns(new_step(*shape)) == pytest.approx(time_us * 1e3, abs=1)


def test_curve_of_decodes_has_the_values_of_the_table(profiled):
    """At 16 and 32 tokens each, and straight lines between: 28 + 6 + 2 x (10, 15, 20)."""
    latency = profiled(LAYERS)
    times = [latency.decode_times_ns(1, context, 30)[0] for context in (16, 24, 32)]
    assert times == pytest.approx([54_000, 64_000, 74_000], abs=1)


@pytest.mark.parametrize(
    ("shape", "time_us"),
    [
        ((1, 16, []), 28 + 6 + 20 + 2 * 10),  # 2 experts
        ((2, 32, []), 32 + 7 + 28 + 2 * 16),  # 4 (1 - 1/4) = 3 of 4 experts
        # Four tokens touch 4 (1 - 1/16) = 3.75 experts: 14 + 10 x 1.75 / 2.
        ((0, 0, [(4, 0)]), 44 + 6 + 16 + 2 * 22.75),
    ],
)
def test_experts_by_hand(profiled, new_step, shape, time_us):
    latency = profiled(LAYERS | {"tp1_moe.csv": MOE}, **EXPERTS)
    assert latency.step_time_ns(new_step(*shape)) == pytest.approx(time_us * 1e3, abs=1)


def test_operator_that_was_measured_twice_takes_the_mean(profiled, new_step):
    """qkv_proj of one token: 10 and 14 us; two layers of it."""
    twice = LAYERS | {"tp1_dense.csv": DENSE + "qkv_proj,1,14\n"}
    assert profiled(twice).step_time_ns(new_step(1, 16)) == 54_000 + 2 * 2_000


def test_operator_that_was_measured_from_more_tokens_on_takes_as_long_below(profiled, new_step):
    """o_proj from 4 tokens on, 5 us: two layers of it."""
    late = LAYERS | {"tp1_dense.csv": DENSE.replace("o_proj,1,0", "o_proj,4,5\no_proj,8,5")}
    assert profiled(late).step_time_ns(new_step(1, 16)) == 54_000 + 2 * 5_000


def test_tables_are_those_of_the_number_of_gpus(profiled, new_step):
    """One GPU's tables do not matter to two."""
    two = {name.replace("tp1", "tp2"): text for name, text in LAYERS.items()}
    one = {name: text.replace(",16\n", ",99\n") for name, text in LAYERS.items()}
    assert profiled(one | two, tensor_parallel_size=2).step_time_ns(new_step(1, 16)) == 54_000


@pytest.mark.parametrize("layer", ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])
def test_product_that_was_not_measured_is_refused(profiled, layer):
    """It would take no time."""
    lacking = "".join(line for line in DENSE.splitlines(True) if not line.startswith(layer))
    with pytest.raises(UserError, match=rf"tp1_dense\.csv: no rows of layer '{layer}'"):
        profiled(LAYERS | {"tp1_dense.csv": lacking})


def test_output_projection_that_was_not_measured_is_refused(profiled):
    sampler = PER_SEQUENCE.replace("lm_head", "head")
    with pytest.raises(UserError, match=r"tp1_per_sequence\.csv: no rows of layer 'lm_head'"):
        profiled(LAYERS | {"tp1_per_sequence.csv": sampler})


def about(title: str, dtype: str) -> dict[str, str]:
    return {"tp1_profile.json": json.dumps({"title": title, "dtype": dtype})}


def test_tables_may_say_what_they_are_of(tmp_path, profiled, new_model, new_gpu):
    model = new_model()
    profiled(LAYERS | about(model.title, model.dtype))
    deployment = Deployment(model=model, hardware=new_gpu())
    assert "taken" not in profile_operators(tmp_path, deployment, SHARES).source
    (tmp_path / "tp1_profile.json").unlink()
    assert "taken to be of this model" in profile_operators(tmp_path, deployment, SHARES).source


@pytest.mark.parametrize(("title", "dtype"), [("another", "bfloat16"), ("tiny", "float32")])
def test_tables_of_another_model_or_number_type_are_refused(profiled, new_model, title, dtype):
    expected = f"tables of {title} in {dtype}, expected {new_model().title} in bfloat16"
    with pytest.raises(UserError, match=expected):
        profiled(LAYERS | about(title, dtype))


def test_broken_description_of_tables_is_one_line(profiled):
    with pytest.raises(UserError, match=r"tp1_profile\.json: not as `kvsim profile-gpu` writes"):
        profiled(LAYERS | {"tp1_profile.json": "[]"})


def test_compressed_table_is_read_the_same(tmp_path):
    (tmp_path / "plain.csv").write_text(DENSE)
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(DENSE.encode()))
    columns = ("layer", "tokens", "time_us")
    plain = read_table(tmp_path / "plain.csv", columns, text=("layer",))
    pd.testing.assert_frame_equal(
        plain, read_table(tmp_path / "packed.csv", columns, text=("layer",))
    )


def test_plain_table_is_taken_before_a_compressed_one(tmp_path):
    (tmp_path / "a.csv").write_text("tokens\n1\n")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"tokens\n2\n"))
    assert read_table(tmp_path / "a.csv", ("tokens",)).tokens.tolist() == [1]


def test_text_stays_as_it_is(tmp_path):
    """Version 0.20 is not 0.2."""
    (tmp_path / "a.csv").write_text("backend_version\n0.20\n")
    assert (
        read_table(
            tmp_path / "a.csv", ("backend_version",), text=("backend_version",)
        ).backend_version.item()
        == "0.20"
    )


def test_optional_column_may_be_missing_or_have_empty_cells(tmp_path):
    (tmp_path / "a.csv").write_text("tokens,more\n1,\n2,5\n")
    table = read_table(tmp_path / "a.csv", ("tokens",), optional=("more", "most"))
    assert list(table) == ["tokens", "more"]
    assert table.more.isna().tolist() == [True, False]


BROKEN = {
    "missing": (None, "no such file"),
    "empty": ("", "No columns"),
    "only a header": ("tokens,time_us\n", "no rows"),
    "another header": (
        "token,time_us\n1,2\n",
        "no column 'tokens', expected columns tokens, time_us",
    ),
    "text": ("tokens,time_us\n1,2\n2,fast\n", "column 'time_us', line 3: got 'fast', expected"),
    "negative": ("tokens,time_us\n-1,2\n", "column 'tokens', line 2: got -1"),
    "empty cell": ("tokens,time_us\n1,2\n2,\n", "column 'time_us', line 3: got nothing, expected"),
    "nameless": (
        "layer,tokens,time_us\n,1,2\n",
        "column 'layer', line 2: got nothing, expected text",
    ),
    # As spreadsheets end lines; pandas would take the first column for names of rows.
    "commas at the ends": ("tokens,time_us\n1,2,\n", "line 2: more cells than the header has"),
    "infinite": ("tokens,time_us\n1,inf\n", "column 'time_us', line 2: got inf"),
    "too many cells": ("tokens,time_us\n1,2\n1,2,3,4\n", "line 3"),
    "open quote": ('tokens,time_us\n1,"2\n', "EOF inside string"),
    "not text": (b"tokens,time_us\n\xff\xfe,1\n", "utf-8"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_table_is_one_line_that_names_the_place(tmp_path, what):
    content, message = BROKEN[what]
    path = tmp_path / "t.csv"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as caught:
        read_table(path, ("layer", "tokens", "time_us")[what != "nameless" :], text=("layer",))
    text = str(caught.value)
    assert text.startswith(str(path))
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize("how", ["cut short", "damaged", "not compressed"])
def test_broken_compressed_table_is_one_line(tmp_path, how):
    packed = bytearray(gzip.compress(DENSE.encode()))
    if how == "damaged":
        packed[30:40] = bytes(10)
    content = {"cut short": packed[:-20], "damaged": packed, "not compressed": DENSE.encode()}
    (tmp_path / "t.csv.gz").write_bytes(content[how])
    with pytest.raises(UserError, match=r"t\.csv\.gz: .+"):
        read_table(tmp_path / "t.csv", ("tokens", "time_us"))


def test_folder_without_tables_is_one_line_that_says_what_was_expected(profiled, tmp_path):
    with pytest.raises(
        UserError, match=r"no tables of tensor parallelism 1; expected tp1_dense\.csv"
    ) as caught:
        profiled({})
    assert str(caught.value).startswith(str(tmp_path))


def test_tables_of_another_number_of_gpus_do_not_do(profiled):
    with pytest.raises(
        UserError, match=r"no tables of tensor parallelism 2; expected tp2_dense\.csv"
    ):
        profiled(LAYERS, tensor_parallel_size=2)


@pytest.mark.parametrize("missing", ["tp1_per_sequence.csv", "tp1_attention.csv"])
def test_table_of_layers_that_is_missing_is_named(profiled, missing):
    with pytest.raises(UserError, match=rf"{missing}: no such file"):
        profiled({name: text for name, text in LAYERS.items() if name != missing})


def test_table_of_experts_that_is_missing_is_named(profiled):
    with pytest.raises(UserError, match=r"tp1_moe.csv: no such file"):
        profiled(LAYERS, **EXPERTS)


@pytest.mark.parametrize(
    ("name", "text", "column"),
    [
        ("tp1_attention.csv", "4,0,0,0,8\n4,16,0,0,16\n", "n_decode"),
        ("tp1_attention.csv", "0,0,1,16,10\n0,0,2,16,14\n", "prefill_chunk"),
        ("tp1_moe.csv", "1,2,10\n2,2,12\n", "activated_experts"),
    ],
)
def test_table_that_does_not_vary_in_a_column_is_refused(profiled, name, text, column):
    """One point on an axis says nothing of how times change along it."""
    header = (LAYERS | {"tp1_moe.csv": MOE})[name].partition("\n")[0]
    tables = LAYERS | {"tp1_moe.csv": MOE, name: f"{header}\n{text}"}
    with pytest.raises(UserError, match=rf"{name}.*{column}"):
        profiled(tables, **EXPERTS)


def test_linear_layers_by_hand(profiled, new_step, new_model, new_gpu):
    """Nine operators a layer, the residual's addition twice; two layers, milliseconds.

    At 1 token 1 + ... + 8 + 2 x 9 = 54, at 3 tokens twice that: at 2 tokens 81. Attention and
    output projection are the roofline's.
    """
    latency = profiled({"mlp.csv": mlp_text({1: {1: 1, 3: 2}, 2: {1: 50}})})
    deployment = Deployment(model=new_model(), hardware=new_gpu())
    roofline = RooflineProducts(deployment, SHARES).product_s(deployment.output_matrix, 2)
    roofline += RooflineAttention(deployment, SHARES).decode_curve(2).at(40)
    by_hand = 2 * 81e-3 + roofline
    assert latency.step_time_ns(new_step(2, 40)) == pytest.approx(by_hand * 1e9, abs=1)


MLP_COLUMNS = (
    "input_layernorm_ms,attn_pre_proj_ms,attn_rope_ms,attn_post_proj_ms,"
    "post_attention_layernorm_ms,mlp_up_proj_ms,mlp_act_ms,mlp_down_proj_ms,add_ms"
)


def mlp_text(times: dict[int, dict[int, float]]) -> str:
    """A table in which the operators of one token take 1 to 9 ms, times a factor by tp, tokens."""
    rows = [
        ",".join(map(str, [tp, num_tokens, *(factor * column for column in range(1, 10))]))
        for tp, factors in times.items()
        for num_tokens, factor in factors.items()
    ]
    return "\n".join([f"tp,num_tokens,{MLP_COLUMNS}", *rows])


def test_linear_layers_of_another_number_of_gpus_do_not_do(profiled):
    with pytest.raises(UserError, match=r"mlp\.csv: no rows of tp 4"):
        profiled({"mlp.csv": mlp_text({1: {1: 1}, 2: {1: 1}})}, tensor_parallel_size=4)


# Kernels of round sizes, made so that interpolation is exact: products take n x k x m picoseconds
# (a power of each), decodes 1 + batch x context / 1000 us, a prompt of L tokens L x L / 1000 us.
GEMM = "gemm_dtype,n,k,m,latency_ms\n" + "".join(
    f"{kind},{n},{k},{m},{n * k * m * 1e-9 * factor}\n"
    for kind, factor in (("bfloat16", 1), ("fp8", 0.5))
    for n in (64, 512, 1024)
    for k in (128, 256)
    for m in (1, 16, 64)
)
DECODES = "num_heads,num_key_value_heads,batch_size,kv_len,latency_ms\n" + "".join(
    f"{heads},1,{batch},{kv_len},{(1 + batch * kv_len / 1000) * heads / 2 * 1e-3}\n"
    for heads in (2, 4)
    for batch in (1, 8)
    for kv_len in (2, 16, 256)
)
PROMPTS = "num_heads,num_key_value_heads,batch_size,isl,latency_ms\n" + "".join(
    f"{heads},1,{batch},{isl},{batch * isl * isl * 1e-6 * heads / 2}\n"
    for heads in (2, 4)
    for batch in (1, 2)
    for isl in (1, 16, 32, 48)
)
KERNELS = {
    "gemm.csv": GEMM,
    "decode_attention.csv": DECODES,
    "prefill_attention.csv": PROMPTS,
}
WIDE = {"num_heads": 2, "num_kv_heads": 1, "head_size": 128}
# qkv 8 x 512, o 256 x 8, gate_up 8 x 32, down 16 x 8 and output 8 x 100.
WIDE_WEIGHTS = 2 * (8 * 512 + 256 * 8 + 8 * 32 + 16 * 8)


def between_s(num_tokens: int) -> float:
    """The roofline's norms, rotations and activations of the tiny model."""
    num_bytes = 2 * num_tokens * (8 * 8 + 3 * 16) * 2
    return 2 * 4 * SHARES.kernel_s + num_bytes / (2e9 * SHARES.bandwidth["bf16"])


@pytest.mark.parametrize(
    ("shape", "num_tokens", "num_rows", "attention_us"),
    [
        ((1, 16, []), 1, 1, 1 + 0.016),
        ((4, 400, []), 4, 4, 1 + 0.4),  # between all points
        ((8, 8_000, []), 8, 8, 1 + 8.0),  # contexts beyond the table
        ((0, 0, [(32, 0)]), 32, 1, 1.024),
        ((0, 0, [(100, 0)]), 100, 1, 10.0),  # beyond the table as the square: 48 take 2.304
        ((0, 0, [(8, 4)]), 8, 1, 0.256 * 8 / 16),  # half of a prompt of 16
        ((0, 0, [(8, 4), (16, 8)]), 24, 2, 0.256 / 2 + 1.024 / 2),
    ],
)
def test_kernels_of_round_sizes_by_hand(
    profiled, new_step, shape, num_tokens, num_rows, attention_us
):
    """A picosecond a weight and token, and the attention of two layers."""
    latency = profiled(KERNELS, **WIDE)
    products = (WIDE_WEIGHTS * num_tokens + 800 * num_rows) * 1e-12
    by_hand = products + between_s(num_tokens) + 2 * attention_us * 1e-6
    assert latency.step_time_ns(new_step(*shape)) == pytest.approx(by_hand * 1e9, abs=1)


def test_chunk_after_a_context_takes_no_less_than_without(profiled, new_step):
    """Prompts of any length take 1 ms: so does half of one."""
    level = "".join(f"2,1,{batch},{isl},1\n" for batch in (1, 2) for isl in (1, 16, 32, 48))
    table = {"prefill_attention.csv": PROMPTS.splitlines(True)[0] + level}
    latency = profiled(KERNELS | table, **WIDE)
    alone, after = (latency.step_time_ns(new_step(prefills=[(8, n)])) for n in (0, 4))
    assert alone == after > 2e6


def test_kernels_over_keys_of_16_bits_do_not_do_for_fp8(tmp_path, profiled, new_model, new_gpu):
    profiled(KERNELS, **WIDE)
    deployment = Deployment(model=new_model(**WIDE), hardware=new_gpu(), kv_cache_dtype="fp8")
    with pytest.raises(UserError, match=r"K/V of 16 bits, got deployment\.kv_cache_dtype: fp8"):
        profile_operators(tmp_path, deployment, SHARES)


def test_decodes_beside_chunks_are_slowed_by_the_ratio_of_the_bandwidths(profiled, new_step):
    """Those of the RTX 4090."""
    latency = profiled(KERNELS, **WIDE)
    chunk, both = new_step(prefills=[(32, 0)]), new_step(4, 400, [(32, 0)])
    added_us = (latency.step_time_ns(both) - latency.step_time_ns(chunk)) / 1e3
    slowdown = SHARES.attention_bandwidth / SHARES.mixed_attention_bandwidth
    products_us = 4 * (WIDE_WEIGHTS + 800) * 1e-6 + (between_s(36) - between_s(32)) * 1e6
    assert added_us == pytest.approx(products_us + 2 * 1.4 * slowdown, abs=2e-3)


def test_kernels_are_those_of_a_gpu_s_share_of_the_heads(profiled, new_step):
    """Two GPUs of 4 heads over 2: each has the kernel of 2 heads over 1, and half the products."""
    sizes = WIDE | {"num_heads": 4, "num_kv_heads": 2}
    latency = profiled(KERNELS, tensor_parallel_size=2, **sizes)
    weights = 2 * (8 * 512 + 256 * 8 + 8 * 16 + 8 * 8) + 8 * 50
    num_bytes = 2 * (8 * 8 + 3 * 8) * 2
    between = 8 * SHARES.kernel_s + num_bytes / (2e9 * SHARES.bandwidth["bf16"])
    by_hand = weights * 1e-12 + between + 2 * 1.016e-6
    assert latency.step_time_ns(new_step(1, 16)) == pytest.approx(by_hand * 1e9, abs=1)


@pytest.mark.parametrize(
    ("name", "change", "sizes", "message"),
    [
        ("gemm.csv", ("bfloat16", "int8"), {}, "no rows of products in bf16"),
        ("decode_attention.csv", ("2,1,", "2,2,"), {}, "no rows of 2 heads over 1 KV heads"),
        ("prefill_attention.csv", ("2,1,", "2,2,"), {}, "no rows of 2 heads over 1 KV heads"),
        ("decode_attention.csv", None, {}, "no such file"),
        ("prefill_attention.csv", None, {}, "no such file"),
        ("", ("", ""), {"head_size": 64}, "attention is of heads of 128"),
        ("", ("", ""), {"sliding_window": 4, "num_window_layers": 1}, "see the whole context"),
    ],
)
def test_kernels_that_do_not_fit_the_model_are_refused(profiled, name, change, sizes, message):
    tables = dict(KERNELS)
    if change is None:
        del tables[name]
    elif name:
        tables[name] = tables[name].replace(*change)
    with pytest.raises(UserError, match=message) as caught:
        profiled(tables, **WIDE | sizes)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_product_that_took_no_time_is_refused(profiled):
    """There is no logarithm of it to interpolate."""
    tables = KERNELS | {"gemm.csv": GEMM.replace(f",{64 * 128 * 16 * 1e-9}\n", ",0\n")}
    with pytest.raises(UserError, match=r"gemm\.csv.*latency_ms"):
        profiled(tables, **WIDE)


# Recorded tables.


@pytest.fixture
def recorded(data_dir, new_scenario):
    """Step times of a folder of `profiles`, without any cost of the host."""

    def make(folder: str, model: str, hardware: str, num_gpus: int = 1):
        path = data_dir / "profiles" / folder
        return build_latency(
            new_scenario(
                model=model,
                hardware=hardware,
                deployment={"tensor_parallel_size": num_gpus},
                latency={"kind": "profile", "folder": str(path), "overhead_s": 0},
            )
        ).latency

    return make


LLAMA_4090 = ("rtx4090-llama-3.1-8b", "llama-3.1-8b", "rtx-4090")
LLAMA_6000 = ("rtxpro6000-llama-3.1-8b", "llama-3.1-8b", "rtx-pro-6000")
QWEN_6000 = ("rtxpro6000-qwen3-30b-a3b", "qwen3-30b-a3b", "rtx-pro-6000")


@pytest.mark.parametrize(
    ("profile", "num_decodes", "context", "time_ms"),
    [
        (LLAMA_4090, 1, 1024, 16.7),
        (LLAMA_4090, 32, 1024, 23.9),
        (LLAMA_4090, 64, 2048, 38.4),
        (LLAMA_6000, 1, 1024, 11.3),
        (LLAMA_6000, 32, 1024, 15.0),
        (LLAMA_6000, 128, 1024, 25.2),
    ],
)
def test_pure_decodes_take_what_the_readme_says(
    recorded, data_dir, profile, num_decodes, context, time_ms
):
    """ "Pure decode costs about 16.7 ms for 1 sequence of 1024, ...", to the digit that it has.

    Its formula has two norms a layer, its sums only one: 32 of them are taken off.
    """
    dense = pd.read_csv(data_dir / "profiles" / profile[0] / "tp1_dense.csv")
    norm_us = dense[(dense.layer == "layernorm") & (dense.tokens == num_decodes)].time_us.item()
    time_ns = recorded(*profile).decode_times_ns(num_decodes, num_decodes * context, 1)[0]
    assert time_ns / 1e6 - 32 * norm_us / 1e3 == pytest.approx(time_ms, abs=0.05)


@pytest.mark.parametrize(("folder", "model", "hardware"), [LLAMA_4090, LLAMA_6000, QWEN_6000])
def test_attention_of_single_chunks_is_that_of_the_table(data_dir, folder, model, hardware):
    """Of 300 random rows that were measured, with and without decodes beside the chunk."""
    deployment = Deployment(
        model=catalogue.load_model(model), hardware=catalogue.load_hardware(hardware)
    )
    path = data_dir / "profiles" / folder
    attention = profile_operators(path, deployment, SHARES).attention
    table = pd.read_csv(next(path.glob("tp1_attention.csv*")))
    rows = table[table.prefill_chunk > 0].sample(300, random_state=1)
    for row in rows.itertuples():
        chunk = (int(row.prefill_chunk), int(row.kv_prefill))
        seconds = attention.mixed_s(row.n_decode, row.n_decode * row.kv_decode, [chunk])
        assert seconds == pytest.approx(deployment.model.num_layers * row.time_us / 1e6)


@pytest.mark.parametrize(
    ("profile", "num_gpus"),
    [
        (LLAMA_6000, 2),
        (("a100-80gb-llama-3-8b", "llama-3-8b", "a100-80gb"), 4),
        (("a100-80gb-llama-2-7b", "llama-2-7b", "a100-80gb"), 1),
        (("h100-llama-2-7b", "llama-2-7b", "h100-80gb"), 2),
        (("a100-80gb-ops", "llama-3.1-8b", "a100-80gb"), 2),
        (("h100-ops", "qwen3-30b-a3b", "h100-80gb"), 1),
        (("rtxpro6000-ops", "llama-3.1-8b", "rtx-pro-6000"), 1),
        (QWEN_6000, 1),
    ],
)
def test_recorded_tables_agree_with_the_roofline_to_a_factor_of_two(
    recorded, new_scenario, new_step, profile, num_gpus
):
    """Decodes, a chunk, and both: who mistakes a unit or counts a layer twice is further off."""
    _, model, hardware = profile
    roofline = build_latency(
        new_scenario(
            model=model,
            hardware=hardware,
            deployment={"tensor_parallel_size": num_gpus},
            latency={"kind": "roofline", "overhead_s": 0},
        )
    ).latency
    measured = recorded(*profile, num_gpus)
    steps = [
        new_step(32, 32_768),
        new_step(prefills=[(1024, 1024)]),
        new_step(8, 9_000, [(512, 0)]),
    ]
    ratios = [measured.step_time_ns(step) / roofline.step_time_ns(step) for step in steps]
    assert all(0.5 < ratio < 2 for ratio in ratios), ratios


def test_folder_of_a_scenario_is_relative_to_its_file(kvsim):
    """Where the command is called does not matter."""
    path = kvsim.folder / "small.yaml"
    text = path.read_text().replace(
        "{kind: constant, step_time_s: 0.01}", "{kind: profile, folder: tables}"
    )
    path.write_text(text)
    assert Path(load_scenario(path).latency.folder) == kvsim.folder / "tables"
