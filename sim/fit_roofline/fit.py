"""Fits the constants of a roofline of one GPU on measured operators."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sim import catalogue
from sim.catalogue.hardware import Hardware
from sim.deployment import Deployment
from sim.errors import UserError
from sim.latency.grid import Float64Array
from sim.measured_table import find_table, read_table

_SMALLEST_WEIGHTS = 2**22  # numbers in a matrix: smaller ones are of no model that is served
_KV_BYTES = (3e7, 3e9)  # of one attention call: less stays in the L2 cache of a GPU between repeats
_PREFILL_TOKENS = 512  # in a call, at least: fewer hardly count
_PREFILL_LENGTH = 64  # of a chunk, at least: a kernel computes whole tiles of them
_LARGEST_STEP = 8192  # tokens


@dataclass(frozen=True)
class Fit:
    """Constants, and by what factor the roofline with them is off: median and 90th percentile."""

    constants: dict[str, float]
    median_error: float
    p90_error: float
    num_rows: int


def fit_efficiency(hardware: str, folders: list[Path], model: str | None) -> dict[str, Fit]:
    """All constants that the tables in the folders tell of a GPU of the catalogue.

    Products are fitted by type of arithmetic on all folders; attention on those with tables of the
    layers of a model, where there are any: single kernels are often measured with K/V that the
    cache of the GPU still holds.

    model: whose layers the tables are of. Raises UserError for tables that are missing.
    """
    gpu = catalogue.load_hardware(hardware)
    fits = {f"products, {kind}": fit for kind, fit in _fit_products(gpu, folders, model).items()}
    if "products, bf16" not in fits:
        where = " and ".join(map(str, folders))
        raise UserError(
            f"{where}: no products in 16 bits of at least {_SMALLEST_WEIGHTS:,} weights"
        )
    of_layers = [folder for folder in folders if find_table(folder / "tp1_attention.csv")]
    bandwidth = fits["products, bf16"].constants["bandwidth"]
    fits["decodes"] = _fit_decodes(gpu, of_layers or folders, model)
    kernel_s = fits["decodes"].constants["attention_s"]
    fits["prefill chunks"] = _fit_prefills(gpu, of_layers or folders, model, bandwidth, kernel_s)
    if of_layers:
        fits["decodes beside chunks"] = _fit_mixed(gpu, of_layers, model)
    return fits


def _fit_products(hardware: Hardware, folders: list[Path], model: str | None) -> dict[str, Fit]:
    """flop, bandwidth and kernel_s by type of arithmetic, as far as it was measured."""
    rows = pd.concat([_products(folder, hardware, model) for folder in folders])
    rows = rows[(rows.n * rows.k >= _SMALLEST_WEIGHTS) & (rows.m <= _LARGEST_STEP)]
    fits = {}
    for arithmetic, group in rows.groupby("arithmetic"):
        number_bytes = 1 if arithmetic == "fp8" else 2
        read = group.n * group.k * number_bytes + group.m * (group.n + group.k) * 2
        fits[str(arithmetic)] = _fit_roofline(
            (2 * group.m * group.n * group.k / hardware.peak(str(arithmetic))).to_numpy(float),
            (read / hardware.bandwidth_bytes_per_s).to_numpy(float),
            group.seconds.to_numpy(float),
        )
    return fits


def _fit_roofline(flop_s: Float64Array, bytes_s: Float64Array, seconds: Float64Array) -> Fit:
    """Of products, from their times at both peaks."""
    return _fit(
        lambda p: p[2] + np.maximum(flop_s / p[0], bytes_s / p[1]),
        seconds,
        {"flop": 0.7, "bandwidth": 0.8, "kernel_s": 3e-6},
    )


def _fit_decodes(hardware: Hardware, folders: list[Path], model: str | None) -> Fit:
    """attention_bandwidth and attention_s, from calls of decodes alone."""
    rows = pd.concat([_decodes(folder, hardware, model) for folder in folders])
    rows = rows[rows.kv_bytes.between(*_KV_BYTES)]
    bytes_s = rows.kv_bytes.to_numpy() / hardware.bandwidth_bytes_per_s
    return _fit(
        lambda p: p[1] + bytes_s / p[0],
        rows.seconds.to_numpy(),
        {"attention_bandwidth": 0.8, "attention_s": 1e-5},
    )


def _fit_prefills(
    hardware: Hardware, folders: list[Path], model: str | None, bandwidth: float, kernel_s: float
) -> Fit:
    """attention_flop, from calls of prefill chunks alone.

    As in the roofline, their rows are moved at `bandwidth` and a call costs kernel_s besides.
    """
    rows = pd.concat([_prefills(folder, hardware, model) for folder in folders])
    rows = rows[rows.tokens.between(_PREFILL_TOKENS, _LARGEST_STEP)]
    rows = rows[rows.length >= _PREFILL_LENGTH]
    rows_s = rows.row_bytes.to_numpy() / (hardware.bandwidth_bytes_per_s * bandwidth)
    flop_s = rows.flop.to_numpy() / hardware.peak("bf16")
    return _fit(
        lambda p: kernel_s + rows_s + flop_s / p[0],
        rows.seconds.to_numpy(),
        {"attention_flop": 0.5},
    )


def _fit_mixed(hardware: Hardware, folders: list[Path], model: str | None) -> Fit:
    """mixed_attention_bandwidth: what decodes add to calls of a prefill chunk."""
    rows = pd.concat([_mixed(folder, hardware, model) for folder in folders])
    rows = rows[rows.kv_bytes.between(*_KV_BYTES)]
    bytes_s = rows.kv_bytes.to_numpy() / hardware.bandwidth_bytes_per_s
    alone_s = rows.seconds_alone.to_numpy()
    return _fit(
        lambda p: alone_s + bytes_s / p[0],
        rows.seconds.to_numpy(),
        {"mixed_attention_bandwidth": 0.5},
    )


def _fit(
    predict: Callable[[Float64Array], Float64Array],
    seconds: Float64Array,
    start: dict[str, float],
) -> Fit:
    """Constants for which the logarithms of prediction and measurement differ least.

    Large differences count less than their square (soft l1), for every table has its outliers.
    """
    from scipy.optimize import least_squares  # slow to import

    if not len(seconds):
        raise UserError(f"no rows that tell {' and '.join(start)}; see docs/latency.md")
    first = np.array(list(start.values()))
    result = least_squares(
        lambda factors: np.log(predict(first * np.exp(factors)) / seconds),
        np.zeros(len(first)),
        loss="soft_l1",
        f_scale=0.1,
    )
    constants = first * np.exp(result.x)
    errors = np.abs(np.log(predict(constants) / seconds))
    return Fit(
        dict(zip(start, constants.tolist(), strict=True)),
        float(np.expm1(np.median(errors))),
        float(np.expm1(np.quantile(errors, 0.9))),
        len(seconds),
    )


def _products(folder: Path, hardware: Hardware, model: str | None) -> pd.DataFrame:
    """Measured products: m, n, k, arithmetic, seconds."""
    if find_table(folder / "gemm.csv"):
        sizes = ("n", "k", "m", "latency_ms")
        table = read_table(folder / "gemm.csv", ("gemm_dtype", *sizes), positive=sizes)
        arithmetic = table.gemm_dtype.map({"bfloat16": "bf16", "fp8": "fp8"})
        return table.assign(arithmetic=arithmetic, seconds=table.latency_ms / 1e3)
    if not find_table(folder / "tp1_dense.csv"):
        raise UserError(f"{folder}: no tables of products; expected gemm.csv or tp1_dense.csv")
    deployment = _deployment(folder, hardware, model)
    dense = read_table(
        folder / "tp1_dense.csv", ("layer", "tokens", "time_us"), positive=("time_us",)
    )
    shapes = {matrix.name: (matrix.n, matrix.k) for matrix in deployment.layer_matrices}
    dense = dense[dense.layer.isin(shapes.keys())]
    n, k = np.array([shapes[layer] for layer in dense.layer]).T
    return pd.DataFrame(
        {"m": dense.tokens, "n": n, "k": k, "arithmetic": "bf16", "seconds": dense.time_us / 1e6}
    )


def _decodes(folder: Path, hardware: Hardware, model: str | None) -> pd.DataFrame:
    """Measured attention of decodes: kv_bytes, seconds."""
    if find_table(folder / "decode_attention.csv"):
        names = ("num_key_value_heads", "batch_size", "kv_len", "latency_ms")
        table = read_table(folder / "decode_attention.csv", names, positive=names[-1:])
        numbers = 2 * table.num_key_value_heads * _HEAD_SIZE * table.batch_size * table.kv_len
        return pd.DataFrame({"kv_bytes": numbers * 2, "seconds": table.latency_ms / 1e3})
    table = _attention(folder)
    table = table[table.prefill_chunk == 0]
    kv_bytes = table.n_decode * table.kv_decode
    kv_bytes = kv_bytes * _layer_kv_bytes(_deployment(folder, hardware, model))
    return pd.DataFrame({"kv_bytes": kv_bytes, "seconds": table.time_us / 1e6})


_HEAD_SIZE = 128  # of the tables of single kernels


def _prefills(folder: Path, hardware: Hardware, model: str | None) -> pd.DataFrame:
    """Measured attention of chunks: tokens, flop, row_bytes, seconds."""
    if find_table(folder / "prefill_attention.csv"):
        names = ("num_heads", "num_key_value_heads", "batch_size", "isl", "latency_ms")
        table = read_table(folder / "prefill_attention.csv", names, positive=names[-1:])
        rows = pd.DataFrame({"tokens": table.batch_size * table.isl, "length": table.isl})
        rows["before"], rows["seconds"] = 0, table.latency_ms / 1e3
        rows["width"] = _HEAD_SIZE * table.num_heads
        rows["kv_width"] = _HEAD_SIZE * table.num_key_value_heads
    else:
        sizes = _deployment(folder, hardware, model).model
        table = _attention(folder)
        table = table[table.n_decode == 0]
        rows = pd.DataFrame({"tokens": table.prefill_chunk, "length": table.prefill_chunk})
        rows["before"], rows["seconds"] = table.kv_prefill, table.time_us / 1e6
        rows["width"] = sizes.num_heads * sizes.head_size
        rows["kv_width"] = sizes.num_kv_heads * sizes.head_size
    rows["flop"] = 4 * rows.width * rows.tokens * (rows.before + (rows.length + 1) / 2)
    rows["row_bytes"] = 4 * (rows.width + rows.kv_width) * rows.tokens
    return rows


def _mixed(folder: Path, hardware: Hardware, model: str | None) -> pd.DataFrame:
    """Measured attention of a chunk beside decodes: kv_bytes of these, seconds, seconds_alone."""
    table = _attention(folder)
    chunks = table[table.n_decode == 0].drop(columns=["n_decode", "kv_decode"])
    mixed = table[(table.n_decode > 0) & (table.prefill_chunk > 0)]
    both = mixed.merge(chunks, on=["prefill_chunk", "kv_prefill"], suffixes=("", "_alone"))
    kv_bytes = both.n_decode * both.kv_decode
    return pd.DataFrame(
        {
            "kv_bytes": kv_bytes * _layer_kv_bytes(_deployment(folder, hardware, model)),
            "seconds": both.time_us / 1e6,
            "seconds_alone": both.time_us_alone / 1e6,
        }
    )


def _attention(folder: Path) -> pd.DataFrame:
    names = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
    return read_table(folder / "tp1_attention.csv", names, positive=names[-1:])


def _deployment(folder: Path, hardware: Hardware, model: str | None) -> Deployment:
    if model is None:
        raise UserError(f"{folder}: its tables are of the layers of a model; name it with --model")
    return Deployment(model=catalogue.load_model(model), hardware=hardware)


def _layer_kv_bytes(deployment: Deployment) -> float:
    return deployment.kv_bytes_per_token / deployment.model.num_layers
