"""Constants of a roofline, fitted: known ones come out again, and the catalogue's from its data."""

import re
import tomllib
from importlib.resources import files
from statistics import median

import numpy as np
import pytest

from sim.catalogue import common_efficiency, load_efficiency, load_hardware, load_model
from sim.deployment import Deployment
from sim.errors import UserError
from sim.fit_roofline.command import print_efficiency, toml_values
from sim.fit_roofline.fit import RooflineFit, fit_roofline
from sim.latency.model import num_pairs

GPU = load_hardware("h100-80gb")
BF16, FP8 = GPU.peak("bf16"), GPU.peak("fp8")
BANDWIDTH = GPU.bandwidth_bytes_per_s


def seconds_of_product(m: int, n: int, k: int, number_bytes: int) -> float:
    """60 % of the arithmetic in bf16, 50 % in fp8; 80 and 70 % of the bandwidth; 5 us a kernel."""
    flop_share, share = (0.6, 0.8) if number_bytes == 2 else (0.5, 0.7)
    peak = BF16 if number_bytes == 2 else FP8
    flop_s = 2 * m * n * k / (peak * flop_share)
    bytes_s = (n * k * number_bytes + 2 * m * (n + k)) / (BANDWIDTH * share)
    return 5e-6 + max(flop_s, bytes_s)


def kernel_tables(noise=lambda: 1.0) -> dict[str, str]:
    """Kernels with the constants above; 90 % of the bandwidth and 10 us for decodes, 40 % of the
    arithmetic for prompts, whose rows are moved as products are, and 6 us."""
    gemm = ["gemm_dtype,n,k,m,latency_ms"]
    for kind, number_bytes in (("bfloat16", 2), ("fp8", 1)):
        for m in (1, 8, 64, 512, 1024, 4096):
            for n, k in ((2048, 4096), (8192, 4096), (8192, 8192)):
                seconds = seconds_of_product(m, n, k, number_bytes) * noise()
                gemm.append(f"{kind},{n},{k},{m},{seconds * 1e3}")
    decodes = ["num_heads,num_key_value_heads,batch_size,kv_len,latency_ms"]
    prompts = ["num_heads,num_key_value_heads,batch_size,isl,latency_ms"]
    for batch in (4, 16, 64):
        for length in (1024, 2048, 4096):
            kv_bytes = 2 * 8 * 128 * 2 * batch * length
            seconds = (10e-6 + kv_bytes / (BANDWIDTH * 0.9)) * noise()
            decodes.append(f"32,8,{batch},{length},{seconds * 1e3}")
    for length in (1, 2, 4, 8, 512, 1024, 2048, 8192):
        flop = 4 * 32 * 128 * num_pairs(length, 0)
        row_bytes = 2 * 2 * 128 * (32 + 8) * length
        seconds = (6e-6 + flop / (BF16 * 0.4) + row_bytes / (BANDWIDTH * 0.8)) * noise()
        prompts.append(f"32,8,1,{length},{seconds * 1e3}")
    tables = {"gemm": gemm, "decode_attention": decodes, "prefill_attention": prompts}
    return {f"{name}.csv": "\n".join(lines) for name, lines in tables.items()}


def layer_tables() -> dict[str, str]:
    """Layers of Llama-3.1-8B with the same constants; decodes beside chunks read at 30 %.

    A chunk takes 20 ns at least for each token of its context.
    """
    deployment = Deployment(model=load_model("llama-3.1-8b"), hardware=GPU)
    dense = ["layer,tokens,time_us", "layernorm,1,3", "layernorm,4096,9"]
    for matrix in deployment.layer_matrices:
        for m in (1, 8, 64, 512, 1024, 4096):
            time_us = seconds_of_product(m, matrix.n, matrix.k, 2) * 1e6
            dense.append(f"{matrix.name},{m},{time_us}")
    attention = ["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"]
    for chunk in (0, 4, 8, 512, 2048):
        for before in (0, 1024, 4096) if chunk else (0,):
            flop = 4 * 32 * 128 * num_pairs(chunk, before)
            rows = 2 * 2 * 128 * (32 + 8) * chunk
            chunk_s = 6e-6 + max(flop / (BF16 * 0.4), before * 20e-9) + rows / (BANDWIDTH * 0.8)
            if chunk:
                attention.append(f"{chunk},{before},0,0,{chunk_s * 1e6}")
            for batch in (16, 64):
                for context in (1024, 4096):
                    kv_s = 2 * 8 * 128 * 2 * batch * context / BANDWIDTH
                    seconds = chunk_s + kv_s / 0.3 if chunk else 10e-6 + kv_s / 0.9
                    attention.append(f"{chunk},{before},{batch},{context},{seconds * 1e6}")
    return {"tp1_dense.csv": "\n".join(dense), "tp1_attention.csv": "\n".join(attention)}


@pytest.fixture
def fitted(tmp_path):
    """Fits tables: `fitted({"gemm.csv": "..."}, {"tp1_dense.csv": "..."})`, a folder each."""

    def fit(*tables: dict[str, str], model: str | None = None) -> dict[str, RooflineFit]:
        """By what was measured."""
        folders = []
        for number, texts in enumerate(tables):
            folder = tmp_path / f"tables-{number}"
            folder.mkdir()
            for name, text in texts.items():
                (folder / name).write_text(text)
            folders.append(folder)
        fits = fit_roofline("h100-80gb", folders, model)
        return {", ".join(filter(None, (fit.what, fit.arithmetic))): fit for fit in fits}

    return fit


PRODUCTS = {
    "products, bf16": {"flop": 0.6, "bandwidth": 0.8, "kernel_s": 5e-6},
    "products, fp8": {"flop": 0.5, "bandwidth": 0.7, "kernel_s": 5e-6},
}
ATTENTION = {
    "decodes": {"attention_bandwidth": 0.9, "attention_s": 10e-6},
    "short prefill chunks": {"prefill_attention_s": 6e-6},
    "long prefill chunks": {"attention_flop": 0.4},
}
CONTEXTS = {
    "short prefill chunks": {"prefill_attention_s": 6e-6, "attention_key_s": 20e-9},
}
MIXED = {"decodes beside chunks": {"mixed_attention_bandwidth": 0.3}}


def constants(fits: dict[str, RooflineFit]) -> dict[str, dict[str, float]]:
    return {name: fit.constants for name, fit in fits.items()}


def approximately(expected: dict[str, dict[str, float]], rel: float) -> dict:
    return {name: pytest.approx(values, rel=rel) for name, values in expected.items()}


def test_constants_of_kernels_are_recovered(fitted):
    assert constants(fitted(kernel_tables())) == approximately(PRODUCTS | ATTENTION, 1e-3)


def test_constants_of_layers_are_recovered(fitted):
    products = {"products, bf16": PRODUCTS["products, bf16"]}
    found = constants(fitted(layer_tables(), model="llama-3.1-8b"))
    assert found == approximately(products | ATTENTION | CONTEXTS | MIXED, 1e-3)


def test_constants_of_both_are_recovered(fitted):
    found = constants(fitted(kernel_tables(), layer_tables(), model="llama-3.1-8b"))
    assert found == approximately(PRODUCTS | ATTENTION | CONTEXTS | MIXED, 1e-3)


def test_attention_of_layers_wins_over_that_of_kernels(fitted):
    """Single kernels ten times as fast as memory: their K/V lay in a cache."""
    kernels = kernel_tables()
    header, *rows = kernels["decode_attention.csv"].splitlines()
    cached = [f"{row.rpartition(',')[0]},{float(row.rpartition(',')[2]) / 10}" for row in rows]
    kernels["decode_attention.csv"] = "\n".join([header, *cached])
    fits = fitted(kernels, layer_tables(), model="llama-3.1-8b")
    assert fits["decodes"].constants == pytest.approx(ATTENTION["decodes"], rel=1e-3)


def test_constants_are_recovered_under_noise(fitted):
    """Times off by 5 % (a standard deviation of their logarithm); constants to 10 %."""
    rng = np.random.default_rng(1)
    fits = fitted(kernel_tables(noise=lambda: np.exp(rng.normal(0, 0.05))))
    assert constants(fits) == approximately(PRODUCTS | ATTENTION, 0.1)


def test_errors_are_those_of_the_noise(fitted):
    """Half of a normal distribution are within 0.6745 deviations, nine tenths within 1.645."""
    rng = np.random.default_rng(2)
    fit = fitted(kernel_tables(noise=lambda: np.exp(rng.normal(0, 0.05))))["products, bf16"]
    assert fit.num_rows == 18
    assert fit.median_error == pytest.approx(0.05 * 0.6745, rel=0.5)
    assert fit.p90_error == pytest.approx(0.05 * 1.645, rel=0.5)


def test_exact_tables_leave_no_error(fitted):
    assert all(fit.p90_error < 1e-3 for fit in fitted(kernel_tables()).values())


def test_an_outlier_hardly_counts(fitted):
    """One product of 18 that took three times as long; constants within 10 %."""
    tables = kernel_tables()
    lines = tables["gemm.csv"].splitlines()
    row, _, time_ms = lines[9].rpartition(",")
    lines[9] = f"{row},{float(time_ms) * 3}"
    fit = fitted(tables | {"gemm.csv": "\n".join(lines)})["products, bf16"]
    assert fit.constants == pytest.approx(PRODUCTS["products, bf16"], rel=0.1)


def test_layers_without_the_name_of_their_model_are_refused(fitted):
    with pytest.raises(UserError, match="of the layers of a model; name it with --model"):
        fitted(layer_tables())


@pytest.mark.parametrize("missing", ["decode_attention.csv", "prefill_attention.csv"])
def test_table_of_kernels_that_is_missing_is_one_line(fitted, missing):
    tables = kernel_tables()
    del tables[missing]
    with pytest.raises(UserError):
        fitted(tables)


def test_tables_of_small_matrices_alone_are_refused(fitted):
    """Nothing is left to fit on: smaller ones are of no model that is served."""
    gemm = "gemm_dtype,n,k,m,latency_ms\nbfloat16,1024,1024,1,0.1\n"
    with pytest.raises(UserError, match="tables-0: no products in 16 bits"):
        fitted(kernel_tables() | {"gemm.csv": gemm})


def test_tables_of_short_contexts_alone_are_refused(fitted):
    """A GPU's cache may hold them."""
    header = kernel_tables()["decode_attention.csv"].partition("\n")[0]
    with pytest.raises(UserError, match="no rows that tell attention_bandwidth and attention_s"):
        fitted(kernel_tables() | {"decode_attention.csv": f"{header}\n32,8,1,16,0.01\n"})


def test_time_of_nothing_is_refused(fitted):
    """There is no logarithm of it."""
    gemm = kernel_tables()["gemm.csv"] + "\nbfloat16,8192,8192,1,0\n"
    with pytest.raises(UserError, match=r"gemm\.csv, column 'latency_ms', line 38: got 0, expe"):
        fitted(kernel_tables() | {"gemm.csv": gemm})


def test_unknown_gpu_is_one_line(tmp_path):
    with pytest.raises(UserError, match="got 'tpu', expected a GPU of the catalogue: rtx-3090, "):
        print_efficiency("tpu", [tmp_path], None)


def test_command_prints_an_entry_that_is_toml(kvsim):
    folder = kvsim.folder / "mine"
    folder.mkdir()
    for name, text in kernel_tables().items():
        (folder / name).write_text(text)
    done = kvsim("fit-roofline", "h100-80gb", "mine")
    assert tomllib.loads(done.stdout)["measured"]["h100-80gb"] == {
        "source": "fitted on mine",
        "flop": {"bf16": 0.6, "fp8": 0.5},
        "bandwidth": {"bf16": 0.8, "fp8": 0.7},
        "kernel_s": 5e-6,
        "attention_bandwidth": 0.9,
        "attention_s": 1e-5,
        "prefill_attention_s": 6e-6,
        "attention_flop": 0.4,
    }


def test_command_says_how_far_off_every_fit_is(kvsim):
    """One of the nine decodes reads only 17 MB, which a cache may hold."""
    folder = kvsim.folder / "mine"
    folder.mkdir()
    for name, text in kernel_tables().items():
        (folder / name).write_text(text)
    comments = re.findall("^# .*", kvsim("fit-roofline", "h100-80gb", "mine").stdout, re.MULTILINE)
    assert comments == [
        f"# {name}: off by 0% in the median, 0% at the 90th percentile of {num_rows} rows"
        for name, num_rows in (
            ("products, bf16", 18),
            ("products, fp8", 18),
            ("decodes", 8),
            ("short prefill chunks", 4),
            ("long prefill chunks", 4),
        )
    ]


# The catalogue's own.

CATALOGUE = tomllib.loads(files("sim.catalogue").joinpath("efficiency.toml").read_text("utf-8"))
FITTED_ON = {
    "a100-80gb": (["a100-80gb-ops"], None),
    "h100-80gb": (["h100-ops"], None),
    "rtx-pro-6000": (["rtxpro6000-ops", "rtxpro6000-llama-3.1-8b"], "llama-3.1-8b"),
    "rtx-4090": (["rtx4090-llama-3.1-8b"], "llama-3.1-8b"),
}


MEASURED = CATALOGUE["measured"]


def test_every_entry_of_the_catalogue_is_fitted_here():
    assert set(MEASURED) == set(FITTED_ON)


@pytest.mark.parametrize("hardware", FITTED_ON)
def test_catalogue_has_what_the_command_prints(data_dir, hardware):
    """All but the source, which says more of where the data are from, and all-reduces."""
    folders, model = FITTED_ON[hardware]
    fits = fit_roofline(hardware, [data_dir / "profiles" / name for name in folders], model)
    lines = [f"{key} = {value}" for key, value in toml_values(fits).items()]
    printed = tomllib.loads("\n".join(lines))
    other = ("source", "allreduce_bandwidth")
    assert printed == {k: v for k, v in MEASURED[hardware].items() if k not in other}


@pytest.mark.parametrize("key", ["flop", "bandwidth"])
@pytest.mark.parametrize("arithmetic", ["bf16", "fp8"])
def test_common_shares_of_products_are_medians(key, arithmetic):
    """Of those that have it."""
    shares = [MEASURED[gpu][key].get(arithmetic) for gpu in FITTED_ON]
    expected = median(share for share in shares if share is not None)
    assert getattr(common_efficiency("mi300x"), key)[arithmetic] == expected


@pytest.mark.parametrize(
    "key",
    [
        "kernel_s",
        "attention_flop",
        "attention_bandwidth",
        "attention_s",
        "prefill_attention_s",
        "attention_key_s",
        "mixed_attention_bandwidth",
        "allreduce_bandwidth",
    ],
)
def test_common_constants_are_medians(key):
    expected = median(MEASURED[gpu][key] for gpu in FITTED_ON if key in MEASURED[gpu])
    assert getattr(common_efficiency("mi300x"), key) == expected


def test_common_constants_of_a_gpu_leave_out_its_own():
    """Mixed attention was measured on two: each has that of the other."""
    for gpu, other in (("rtx-4090", "rtx-pro-6000"), ("rtx-pro-6000", "rtx-4090")):
        expected = MEASURED[other]["mixed_attention_bandwidth"]
        assert common_efficiency(gpu).mixed_attention_bandwidth == expected


def test_gpu_has_the_common_constants_where_it_has_none_of_its_own():
    """The A100 was not measured in fp8, nor with decodes beside chunks."""
    a100, common = load_efficiency("a100-80gb"), common_efficiency("a100-80gb")
    assert a100.flop == {"bf16": MEASURED["a100-80gb"]["flop"]["bf16"], "fp8": common.flop["fp8"]}
    assert a100.mixed_attention_bandwidth == common.mixed_attention_bandwidth


def test_gpu_that_was_not_measured_has_the_common_constants():
    assert load_efficiency("mi300x") == common_efficiency("mi300x")


def test_gpu_of_a_measured_processor_has_all_but_what_its_memory_reaches():
    """The H200 has the H100's processor and links, but other memory."""
    h200, h100 = load_efficiency("h200"), load_efficiency("h100-80gb")
    common = common_efficiency("h200")
    assert (h200.flop, h200.kernel_s) == (h100.flop, h100.kernel_s)
    assert h200.allreduce_bandwidth == h100.allreduce_bandwidth
    assert (h200.bandwidth, h200.attention_bandwidth) == (
        common.bandwidth,
        common.attention_bandwidth,
    )


def test_gpu_of_a_measured_processor_with_other_links_has_the_common_share_of_them():
    """The H100 NVL has PCIe and bridges in place of NVLink switches."""
    nvl = load_efficiency("h100-nvl")
    assert nvl.allreduce_bandwidth == common_efficiency("h100-nvl").allreduce_bandwidth


def test_fp32_reaches_what_bf16_does():
    h100 = load_efficiency("h100-80gb")
    assert h100.flop_share("fp32") == h100.flop["bf16"]
    assert h100.bandwidth_share("fp32") == h100.bandwidth["bf16"]


def test_one_share_replaces_all_of_its_kind():
    changed = load_efficiency("h100-80gb").with_flop(0.5).with_bandwidth(0.25)
    assert {changed.attention_flop, *changed.flop.values()} == {0.5}
    bandwidths = {changed.attention_bandwidth, changed.mixed_attention_bandwidth}
    assert {*bandwidths, *changed.bandwidth.values()} == {0.25}
