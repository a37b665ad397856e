"""What tables of measured operators say of products and attention, whichever form they have."""

from pathlib import Path

import numpy as np
import pandas as pd

from sim import catalogue
from sim.catalogue.hardware import Hardware
from sim.deployment import Deployment
from sim.errors import UserError
from sim.latency.kernel_tables import HEAD_SIZE
from sim.measured_table import find_table, read_table


def products(folder: Path, hardware: Hardware, model: str | None) -> pd.DataFrame:
    """Measured products: m, n, k, arithmetic, seconds."""
    if find_table(folder / "gemm.csv"):
        sizes = ("n", "k", "m", "latency_ms")
        table = read_table(
            folder / "gemm.csv", ("gemm_dtype", *sizes), text=("gemm_dtype",), positive=sizes
        )
        arithmetic = table.gemm_dtype.map({"bfloat16": "bf16", "fp8": "fp8"})
        return table.assign(arithmetic=arithmetic, seconds=table.latency_ms / 1e3)
    if not find_table(folder / "tp1_dense.csv"):
        raise UserError(f"{folder}: no tables of products; expected gemm.csv or tp1_dense.csv")
    deployment = _deployment(folder, hardware, model)
    dense = read_table(
        folder / "tp1_dense.csv",
        ("layer", "tokens", "time_us"),
        text=("layer",),
        positive=("time_us",),
    )
    shapes = {matrix.name: (matrix.n, matrix.k) for matrix in deployment.layer_matrices}
    dense = dense[dense.layer.isin(shapes.keys())]
    n, k = np.array([shapes[layer] for layer in dense.layer]).T
    return pd.DataFrame(
        {"m": dense.tokens, "n": n, "k": k, "arithmetic": "bf16", "seconds": dense.time_us / 1e6}
    )


def decodes(folder: Path, hardware: Hardware, model: str | None) -> pd.DataFrame:
    """Measured attention of decodes: kv_bytes, seconds."""
    if find_table(folder / "decode_attention.csv"):
        names = ("num_key_value_heads", "batch_size", "kv_len", "latency_ms")
        table = read_table(folder / "decode_attention.csv", names, positive=names[-1:])
        numbers = 2 * table.num_key_value_heads * HEAD_SIZE * table.batch_size * table.kv_len
        return pd.DataFrame({"kv_bytes": numbers * 2, "seconds": table.latency_ms / 1e3})
    table = _attention(folder)
    table = table[table.prefill_chunk == 0]
    kv_bytes = table.n_decode * table.kv_decode
    kv_bytes = kv_bytes * _layer_kv_bytes(_deployment(folder, hardware, model))
    return pd.DataFrame({"kv_bytes": kv_bytes, "seconds": table.time_us / 1e6})


def prefills(folder: Path, hardware: Hardware, model: str | None) -> pd.DataFrame:
    """Measured attention of chunks: tokens, flop, row_bytes, seconds."""
    if find_table(folder / "prefill_attention.csv"):
        names = ("num_heads", "num_key_value_heads", "batch_size", "isl", "latency_ms")
        table = read_table(folder / "prefill_attention.csv", names, positive=names[-1:])
        rows = pd.DataFrame({"tokens": table.batch_size * table.isl, "length": table.isl})
        rows["before"], rows["seconds"] = 0, table.latency_ms / 1e3
        rows["width"] = HEAD_SIZE * table.num_heads
        rows["kv_width"] = HEAD_SIZE * table.num_key_value_heads
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


def mixed(folder: Path, hardware: Hardware, model: str | None) -> pd.DataFrame:
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
