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
_SHORT_CHUNK = 128  # tokens in a call, at most: its arithmetic hardly counts
_LONG_CHUNK = 512  # tokens in a call, at least: hardly anything but its arithmetic counts
_LONG_PROMPT = 64  # of a prompt in a long call, at least: a kernel computes whole tiles of them
_LARGEST_STEP = 8192  # tokens


@dataclass(frozen=True)
class RooflineFit:
    """Constants, and by what factor the roofline with them is off: median and 90th percentile.

    what: was measured, in words. arithmetic: of products: bf16 or fp8; else none.
    """

    what: str
    arithmetic: str
    constants: dict[str, float]
    median_error: float
    p90_error: float
    num_rows: int


def fit_roofline(hardware: str, folders: list[Path], model: str | None) -> list[RooflineFit]:
    """All constants that the tables in the folders tell of a GPU of the catalogue.

    Products are fitted by type of arithmetic on all folders; attention on those with tables of the
    layers of a model, where there are any: single kernels are often measured with K/V that the
    cache of the GPU still holds.

    model: whose layers the tables are of. Raises UserError for tables that are missing.
    """
    gpu = catalogue.load_hardware(hardware)
    products = _fit_products(gpu, folders, model)
    if "bf16" not in {fit.arithmetic for fit in products}:
        where = " and ".join(map(str, folders))
        raise UserError(
            f"{where}: no products in 16 bits of at least {_SMALLEST_WEIGHTS:,} weights"
        )
    of_layers = [folder for folder in folders if find_table(folder / "tp1_attention.csv")]
    decodes = _fit_decodes(gpu, of_layers or folders, model)
    chunks = _Chunks(gpu, of_layers or folders, model, products[0].constants["bandwidth"])
    mixed = [_fit_mixed(gpu, of_layers, model)] if of_layers else []
    return [*products, decodes, chunks.short, chunks.long, *mixed]


def _fit_products(hardware: Hardware, folders: list[Path], model: str | None) -> list[RooflineFit]:
    """flop, bandwidth and kernel_s by type of arithmetic, bf16 first, as far as it was measured."""
    rows = pd.concat([tables.products(folder, hardware, model) for folder in folders])
    rows = rows[(rows.n * rows.k >= _SMALLEST_WEIGHTS) & (rows.m <= _LARGEST_STEP)]
    fits = []
    for arithmetic, group in rows.groupby("arithmetic"):
        number_bytes = 1 if arithmetic == "fp8" else 2
        read = group.n * group.k * number_bytes + group.m * (group.n + group.k) * 2
        flop_s = (2 * group.m * group.n * group.k / hardware.peak(str(arithmetic))).to_numpy(float)
        bytes_s = (read / hardware.bandwidth_bytes_per_s).to_numpy(float)
        fits.append(_fit_product(str(arithmetic), flop_s, bytes_s, group.seconds.to_numpy(float)))
    return fits


def _fit_product(
    arithmetic: str, flop_s: Float64Array, bytes_s: Float64Array, seconds: Float64Array
) -> RooflineFit:
    """Of products, from their times at both peaks."""
    return _fit(
        "products",
        lambda p: p[2] + np.maximum(flop_s / p[0], bytes_s / p[1]),
        seconds,
        {"flop": 0.7, "bandwidth": 0.8, "kernel_s": 3e-6},
        arithmetic,
    )


def _fit_decodes(hardware: Hardware, folders: list[Path], model: str | None) -> RooflineFit:
    """attention_bandwidth and attention_s, from calls of decodes alone."""
    rows = pd.concat([tables.decodes(folder, hardware, model) for folder in folders])
    rows = rows[rows.kv_bytes.between(*_KV_BYTES)]
    bytes_s = rows.kv_bytes.to_numpy() / hardware.bandwidth_bytes_per_s
    return _fit(
        "decodes",
        lambda p: p[1] + bytes_s / p[0],
        rows.seconds.to_numpy(),
        {"attention_bandwidth": 0.8, "attention_s": 1e-5},
    )


class _Chunks:
    """Calls of prefill chunks alone, and what they tell.

    short: prefill_attention_s, and attention_key_s where chunks after a context were measured.
    long: attention_flop, with the constants of the short ones.
    bandwidth: share at which rows of chunks are moved, as products are.
    """

    def __init__(
        self, hardware: Hardware, folders: list[Path], model: str | None, bandwidth: float
    ) -> None:
        self._hardware = hardware
        self._bytes_per_s = hardware.bandwidth_bytes_per_s * bandwidth
        rows = pd.concat([tables.prefills(folder, hardware, model) for folder in folders])
        self.short = self._fit_short(rows[rows.tokens <= _SHORT_CHUNK])
        is_long = rows.tokens.between(_LONG_CHUNK, _LARGEST_STEP) & (rows.length >= _LONG_PROMPT)
        self.long = self._fit_long(rows[is_long])

    def _fit_short(self, rows: pd.DataFrame) -> RooflineFit:
        rows_s, context = self._rows_s(rows), rows.before.to_numpy(float)
        start = {"prefill_attention_s": 1e-5}
        if context.any():
            start["attention_key_s"] = 2e-8
        return _fit(
            "short prefill chunks",
            lambda p: p[0] + rows_s + context * p[-1],
            rows.seconds.to_numpy(),
            start,
        )

    def _fit_long(self, rows: pd.DataFrame) -> RooflineFit:
        rows_s, context = self._rows_s(rows), rows.before.to_numpy(float)
        flop_s = rows.flop.to_numpy() / self._hardware.peak("bf16")
        call_s = self.short.constants["prefill_attention_s"]
        key_s = self.short.constants.get("attention_key_s", 0.0)  # none: nothing has a context
        return _fit(
            "long prefill chunks",
            lambda p: call_s + rows_s + np.maximum(flop_s / p[0], context * key_s),
            rows.seconds.to_numpy(),
            {"attention_flop": 0.5},
        )

    def _rows_s(self, rows: pd.DataFrame) -> Float64Array:
        return rows.row_bytes.to_numpy(float) / self._bytes_per_s


def _fit_mixed(hardware: Hardware, folders: list[Path], model: str | None) -> RooflineFit:
    """mixed_attention_bandwidth: what decodes add to calls of a prefill chunk."""
    rows = pd.concat([tables.mixed(folder, hardware, model) for folder in folders])
    rows = rows[rows.kv_bytes.between(*_KV_BYTES)]
    bytes_s = rows.kv_bytes.to_numpy() / hardware.bandwidth_bytes_per_s
    alone_s = rows.seconds_alone.to_numpy()
    return _fit(
        "decodes beside chunks",
        lambda p: alone_s + bytes_s / p[0],
        rows.seconds.to_numpy(),
        {"mixed_attention_bandwidth": 0.5},
    )


def _fit(
    what: str,
    predict: Callable[[Float64Array], Float64Array],
    seconds: Float64Array,
    start: dict[str, float],
    arithmetic: str = "",
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
        what,
        arithmetic,
        dict(zip(start, constants.tolist(), strict=True)),
        float(np.expm1(np.median(errors))),
        float(np.expm1(np.quantile(errors, 0.9))),
        len(seconds),
    )
