"""Fits the constants of a roofline of one GPU on measured operators."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sim import catalogue
from sim.catalogue.hardware import Hardware
from sim.errors import UserError
from sim.fit_roofline import tables
from sim.latency.model import Float64Array
from sim.measured_table import find_table

_SMALLEST_WEIGHTS = 2**22  # numbers in a matrix: smaller ones are of no model that is served
_KV_BYTES = (3e7, 3e9)  # of one attention call: less stays in the L2 cache of a GPU between repeats
_PREFILL_TOKENS = 512  # in a call, at least: fewer hardly count
_PREFILL_LENGTH = 64  # of a chunk, at least: a kernel computes whole tiles of them
_LARGEST_STEP = 8192  # tokens


@dataclass(frozen=True)
class RooflineFit:
    """Constants, and by what factor the roofline with them is off: median and 90th percentile."""

    constants: dict[str, float]
    median_error: float
    p90_error: float
    num_rows: int


def fit_efficiency(hardware: str, folders: list[Path], model: str | None) -> dict[str, RooflineFit]:
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


def _fit_products(
    hardware: Hardware, folders: list[Path], model: str | None
) -> dict[str, RooflineFit]:
    """flop, bandwidth and kernel_s by type of arithmetic, as far as it was measured."""
    rows = pd.concat([tables.products(folder, hardware, model) for folder in folders])
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


def _fit_roofline(
    flop_s: Float64Array, bytes_s: Float64Array, seconds: Float64Array
) -> RooflineFit:
    """Of products, from their times at both peaks."""
    return _fit(
        lambda p: p[2] + np.maximum(flop_s / p[0], bytes_s / p[1]),
        seconds,
        {"flop": 0.7, "bandwidth": 0.8, "kernel_s": 3e-6},
    )


def _fit_decodes(hardware: Hardware, folders: list[Path], model: str | None) -> RooflineFit:
    """attention_bandwidth and attention_s, from calls of decodes alone."""
    rows = pd.concat([tables.decodes(folder, hardware, model) for folder in folders])
    rows = rows[rows.kv_bytes.between(*_KV_BYTES)]
    bytes_s = rows.kv_bytes.to_numpy() / hardware.bandwidth_bytes_per_s
    return _fit(
        lambda p: p[1] + bytes_s / p[0],
        rows.seconds.to_numpy(),
        {"attention_bandwidth": 0.8, "attention_s": 1e-5},
    )


def _fit_prefills(
    hardware: Hardware, folders: list[Path], model: str | None, bandwidth: float, kernel_s: float
) -> RooflineFit:
    """attention_flop, from calls of prefill chunks alone.

    As in the roofline, their rows are moved at `bandwidth` and a call costs kernel_s besides.
    """
    rows = pd.concat([tables.prefills(folder, hardware, model) for folder in folders])
    rows = rows[rows.tokens.between(_PREFILL_TOKENS, _LARGEST_STEP)]
    rows = rows[rows.length >= _PREFILL_LENGTH]
    rows_s = rows.row_bytes.to_numpy() / (hardware.bandwidth_bytes_per_s * bandwidth)
    flop_s = rows.flop.to_numpy() / hardware.peak("bf16")
    return _fit(
        lambda p: kernel_s + rows_s + flop_s / p[0],
        rows.seconds.to_numpy(),
        {"attention_flop": 0.5},
    )


def _fit_mixed(hardware: Hardware, folders: list[Path], model: str | None) -> RooflineFit:
    """mixed_attention_bandwidth: what decodes add to calls of a prefill chunk."""
    rows = pd.concat([tables.mixed(folder, hardware, model) for folder in folders])
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
) -> RooflineFit:
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
    return RooflineFit(
        dict(zip(start, constants.tolist(), strict=True)),
        float(np.expm1(np.median(errors))),
        float(np.expm1(np.quantile(errors, 0.9))),
        len(seconds),
    )
