"""Measured operators of a model's own layers: tables as `kvsim profile-gpu` writes them.

docs/profiles.md has the columns; LLMServingSim's profiles have the same, after a renaming.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from sim.catalogue.efficiency import Efficiency
from sim.deployment import Deployment
from sim.errors import UserError
from sim.latency.grid import Grid, Line, check_axes
from sim.latency.model import Curve, Float64Array, Prefills, num_pairs
from sim.latency.roofline import RooflineProducts, num_experts_touched
from sim.measured_table import read_table

_ONCE_A_STEP = ("embedding", "final_layernorm")
_TWICE_A_LAYER = ("layernorm",)  # listed once, it comes before attention and before the ffn


class LayerProducts:
    """See Products. Every operator of a layer was measured over the tokens of a step."""

    def __init__(self, folder: Path, deployment: Deployment) -> None:
        num_gpus, model = deployment.tensor_parallel_size, deployment.model
        path = folder / f"tp{num_gpus}_dense.csv"
        dense = read_table(path, ("layer", "tokens", "time_us"), text=("layer",))
        matrices = [matrix.name for matrix in deployment.layer_matrices if matrix.name != "router"]
        _expect_layers(path, dense, matrices)
        self._layers = _operators(dense, "tokens", lambda name: _uses(name, model.num_layers))
        path = folder / f"tp{num_gpus}_per_sequence.csv"
        per_row = read_table(path, ("layer", "sequences", "time_us"), text=("layer",))
        _expect_layers(path, per_row, [deployment.output_matrix.name])
        self._rows = _operators(per_row, "sequences", lambda _: 1)
        self._model = model
        self._experts: Grid | None = None
        if model.num_experts:
            names = ("tokens", "activated_experts", "time_us")
            path = folder / f"tp{num_gpus}_moe.csv"
            table = read_table(path, names)
            tokens, experts, time_us = (table[name].to_numpy(float) for name in names)
            self._experts = Grid.from_rows((tokens, experts), time_us / 1e6 * model.num_layers)
            check_axes(self._experts, path, names[:2])

    def layers_s(self, num_tokens: int) -> float:
        """See Products."""
        seconds = _sum_at(self._layers, num_tokens)
        if self._experts:
            model = self._model
            num_touched = num_experts_touched(
                model.num_experts, model.num_experts_per_token, num_tokens
            )
            seconds += self._experts.at(num_tokens, num_touched)
        return seconds

    def rows_s(self, num_rows: int) -> float:
        """See Products."""
        return _sum_at(self._rows, num_rows)


def _expect_layers(path: Path, table: pd.DataFrame, names: list[str]) -> None:
    """Raise UserError where a product of the model was not measured."""
    for name in names:
        if name not in table.layer.unique():
            raise UserError(f"{path}: no rows of layer {name!r}")


def _operators(table: pd.DataFrame, over: str, num_uses: Callable[[str], int]) -> list[Line]:
    """Seconds that each operator takes in a step, over its own points."""
    lines = []
    for name, rows in table.groupby("layer"):
        times = rows.groupby(over)["time_us"].mean()  # of repeats
        seconds = times.to_numpy(float) * num_uses(str(name)) / 1e6
        lines.append(Line(times.index.to_numpy(float), seconds))
    return lines


def _sum_at(lines: list[Line], position: float) -> float:
    return sum(line.at(position) for line in lines)


def _uses(layer: str, num_layers: int) -> int:
    """How often a step runs an operator."""
    if layer in _ONCE_A_STEP:
        return 1
    return 2 * num_layers if layer in _TWICE_A_LAYER else num_layers


class LayerAttention:
    """See Attention. One call was measured over chunk, its context, decodes and their contexts.

    Several chunks in a step count as one of as many tokens and as many pairs of query and context.
    Chunks longer than any that was measured count as several, one after the other.
    """

    def __init__(self, folder: Path, deployment: Deployment) -> None:
        names = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
        path = folder / f"tp{deployment.tensor_parallel_size}_attention.csv"
        table = read_table(path, names)
        columns = [table[name].to_numpy(float) for name in names]
        self._num_layers = deployment.model.num_layers
        self._grid = attention_grid(*columns)
        check_axes(self._grid, path, names[:4])
        self._longest_chunk = int(columns[0].max())

    def decode_curve(self, num_decodes: int) -> Curve:
        """See Attention."""
        contexts = self._grid.axes[3].tolist()  # of each; the first is 0
        seconds = [self._seconds(0, 0, num_decodes, context) for context in contexts]
        return Curve.through([num_decodes * context for context in contexts], seconds)

    def mixed_s(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """See Attention."""
        context = decode_context_tokens / num_decodes if num_decodes else 0
        num_tokens = sum(chunk for chunk, _ in prefills)
        pairs = float(sum(num_pairs(*chunk) for chunk in prefills))
        seconds = 0.0
        while num_tokens > self._longest_chunk:
            # All parts at the context of the whole: their pairs add up to those of the whole.
            part = self._longest_chunk
            part_pairs = pairs * part / num_tokens
            seconds += self._chunk_s(part, part_pairs, 0, 0)
            num_tokens, pairs = num_tokens - part, pairs - part_pairs
        return seconds + self._chunk_s(num_tokens, pairs, num_decodes, context)

    def _chunk_s(self, num_tokens: int, pairs: float, num_decodes: int, context: float) -> float:
        """One chunk of so many tokens and pairs, beside decodes with a context each."""
        before = (pairs - num_pairs(num_tokens, 0)) / num_tokens  # its own context
        if before >= 0:
            return self._seconds(num_tokens, before, num_decodes, context)
        # Fewer pairs than those of any one chunk, as with several short ones: what a pair costs is
        # the difference that a context as long as the chunk makes.
        alone = self._seconds(num_tokens, 0, num_decodes, context)
        after = self._seconds(num_tokens, num_tokens, num_decodes, context)
        return max(alone + (after - alone) * before / num_tokens, 0.0)

    def _seconds(self, num_tokens: int, before: float, num_decodes: int, context: float) -> float:
        return self._num_layers * self._grid.at(num_tokens, before, num_decodes, context)


def attention_grid(
    chunk: Float64Array,
    before: Float64Array,
    num_decodes: Float64Array,
    context: Float64Array,
    time_us: Float64Array,
) -> Grid:
    """Seconds over the four axes, from 0 on each: without a chunk its context does not matter."""
    rows = pd.DataFrame(
        {"chunk": chunk, "before": before, "decodes": num_decodes, "context": context}
    )
    rows["seconds"] = time_us / 1e6
    rows = pd.concat([rows, rows[:1].assign(chunk=0, decodes=0, seconds=0.0)])
    for count, position in (("chunk", "before"), ("decodes", "context")):
        is_empty = rows[count] == 0
        everywhere = pd.DataFrame({position: np.unique(np.append(rows[position], 0))})
        spread = rows[is_empty].drop(columns=position).merge(everywhere, how="cross")
        rows = pd.concat([rows[~is_empty], spread])
    names = ("chunk", "before", "decodes", "context")
    rows = rows.groupby(list(names), as_index=False).mean()  # of repeats
    return Grid.from_rows(
        [rows[name].to_numpy(float) for name in names], rows["seconds"].to_numpy()
    )


class MlpProducts:
    """See Products. The operators of Vidur's profiles; the output projection is the roofline's."""

    def __init__(self, folder: Path, deployment: Deployment, efficiency: Efficiency) -> None:
        table = read_table(folder / "mlp.csv", ("tp", "num_tokens", *_MLP_USES))
        rows = table[table.tp == deployment.tensor_parallel_size].sort_values("num_tokens")
        if rows.empty:
            raise UserError(
                f"{folder / 'mlp.csv'}: no rows of tp {deployment.tensor_parallel_size}"
            )
        layer_ms = rows[list(_MLP_USES)].to_numpy(float) @ np.array(list(_MLP_USES.values()))
        seconds = layer_ms * deployment.model.num_layers / 1e3
        self._layers = Line(rows.num_tokens.to_numpy(float), seconds)
        self._roofline = RooflineProducts(deployment, efficiency)

    def layers_s(self, num_tokens: int) -> float:
        """See Products."""
        return self._layers.at(num_tokens)

    def rows_s(self, num_rows: int) -> float:
        """See Products."""
        return self._roofline.rows_s(num_rows)


_MLP_USES = {  # column -> uses in a layer
    "input_layernorm_ms": 1,
    "attn_pre_proj_ms": 1,
    "attn_rope_ms": 1,
    "attn_post_proj_ms": 1,
    "post_attention_layernorm_ms": 1,
    "mlp_up_proj_ms": 1,
    "mlp_act_ms": 1,
    "mlp_down_proj_ms": 1,
    "add_ms": 2,
}
