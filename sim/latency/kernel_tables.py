"""Measured kernels of a GPU for round sizes, from which those of a model are interpolated.

docs/profiles.md has the columns: gemm.csv, decode_attention.csv, prefill_attention.csv.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from sim.catalogue.efficiency import Efficiency
from sim.catalogue.model import DTYPES
from sim.deployment import Deployment, Matrix
from sim.errors import UserError
from sim.latency.grid import Grid, Line, check_axes
from sim.latency.model import Curve, Prefills
from sim.latency.roofline import RooflineProducts
from sim.measured_table import read_table

_DTYPES = {"bf16": ("bfloat16", 16), "fp8": ("fp8", 8)}  # arithmetic -> as the table calls it
HEAD_SIZE, _KV_BITS = 128, 16  # of the attention tables


class KernelProducts(RooflineProducts):
    """See Products. Products with the weights are measured, all else is that of the roofline."""

    def __init__(self, folder: Path, deployment: Deployment, efficiency: Efficiency) -> None:
        super().__init__(deployment, efficiency)
        sizes = ("n", "k", "m", "latency_ms")
        table = read_table(
            folder / "gemm.csv", ("gemm_dtype", *sizes), text=("gemm_dtype",), positive=sizes
        )
        self._lines: dict[Matrix, Line] = {}  # seconds by tokens
        for matrix in [*deployment.layer_matrices, deployment.output_matrix]:
            dtype, bits = _DTYPES.get(matrix.arithmetic, ("", 0))
            rows = table[table.gemm_dtype == dtype]
            if rows.empty or matrix.bits != bits:
                raise UserError(
                    f"{folder / 'gemm.csv'}: no rows of products in {matrix.arithmetic} with "
                    f"weights of {matrix.bits:.3g} bits"
                )
            self._lines[matrix] = _line_of(matrix, rows, folder / "gemm.csv")

    def product_s(self, matrix: Matrix, num_tokens: int) -> float:
        """See RooflineProducts."""
        return self._lines[matrix].at(num_tokens)


def _line_of(matrix: Matrix, rows: pd.DataFrame, path: Path) -> Line:
    """Seconds of a product by its tokens.

    Times of two sizes differ by a power of their ratio: logarithms are interpolated, over n, k and
    m, and continued beyond the table.
    """
    logs = [np.log2(rows[name].to_numpy(float)) for name in ("n", "k", "m")]
    grid = Grid.from_rows(logs, np.log2(rows["latency_ms"].to_numpy(float) / 1e3))
    check_axes(grid, path, ("n", "k", "m"))
    tokens = 2 ** grid.axes[2]
    n, k = np.log2(matrix.n), np.log2(matrix.k)
    return Line(tokens, np.array([2 ** grid.at(n, k, m) for m in grid.axes[2]]))


class KernelAttention:
    """See Attention. Decodes and chunks were measured apart.

    Beside chunks, decodes are slower by the ratio of the GPU's two bandwidths, see Efficiency. A
    chunk after a context takes its share of a prompt whose queries attend to as much on average,
    but not less time than without the context.
    """

    def __init__(self, folder: Path, deployment: Deployment, efficiency: Efficiency) -> None:
        model = deployment.model
        if model.head_size != HEAD_SIZE or model.num_window_layers:
            raise UserError(
                f"{folder}: its attention is of heads of {HEAD_SIZE} that see the whole context, "
                f"{model.title} has others"
            )
        if DTYPES[deployment.kv_dtype] != _KV_BITS:
            raise UserError(
                f"{folder}: its attention is over K/V of {_KV_BITS} bits, "
                f"got deployment.kv_cache_dtype: {deployment.kv_dtype}"
            )
        heads = model.num_heads // deployment.tensor_parallel_size
        kv_heads = round(deployment.kv_heads / model.num_layers)
        self._num_layers = model.num_layers
        self._decodes = _grid(folder / "decode_attention.csv", heads, kv_heads, "kv_len")
        self._prompts = _grid(folder / "prefill_attention.csv", heads, kv_heads, "isl")
        self._slowdown = efficiency.attention_bandwidth / efficiency.mixed_attention_bandwidth

    def decode_curve(self, num_decodes: int) -> Curve:
        """See Attention."""
        contexts = self._decodes.axes[1].tolist()
        seconds = [
            self._num_layers * self._decodes.at(num_decodes, context) for context in contexts
        ]
        knots = [0.0, *(num_decodes * context for context in contexts[1:])]
        return Curve.through(knots, seconds)

    def mixed_s(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """See Attention."""
        seconds = 0.0
        if num_decodes:
            context = decode_context_tokens / num_decodes
            seconds = self._decodes.at(num_decodes, context) * self._slowdown
        for num_tokens, before in prefills:
            length = num_tokens + 2 * before
            seconds += max(self._prompt_s(length) * num_tokens / length, self._prompt_s(num_tokens))
        return self._num_layers * seconds

    def _prompt_s(self, length: int) -> float:
        """Of a prompt alone; beyond the longest that was measured as the square of its length."""
        longest = float(self._prompts.axes[1][-1])
        return self._prompts.at(1, min(length, longest)) * max(length / longest, 1) ** 2


def _grid(path: Path, heads: int, kv_heads: int, length: str) -> Grid:
    """Seconds over batch size and length, of a kernel with so many heads."""
    names = ("num_heads", "num_key_value_heads", "batch_size", length, "latency_ms")
    table = read_table(path, names)
    rows = table[(table.num_heads == heads) & (table.num_key_value_heads == kv_heads)]
    if rows.empty:
        raise UserError(f"{path}: no rows of {heads} heads over {kv_heads} KV heads")
    columns = [rows[name].to_numpy(float) for name in ("batch_size", length)]
    grid = Grid.from_rows(columns, rows["latency_ms"].to_numpy(float) / 1e3)
    check_axes(grid, path, ("batch_size", length))
    return grid
