"""Times the operators of a shard at many points."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
import torch

from sim.profile_gpu.attention import AttentionKernel, choose_attention
from sim.profile_gpu.experts import (
    ExpertKernel,
    ExpertLayer,
    choose_experts,
    chosen_experts,
    expert_call,
    expert_layer,
)
from sim.profile_gpu.kv_pool import KvPool, blocks_of
from sim.profile_gpu.layers import Operator, dense_operators, fusing, sequence_operators
from sim.profile_gpu.points import AttentionPoint, ExpertPoint, Points
from sim.profile_gpu.shard import Shard
from sim.profile_gpu.tensors import Tensors, unless_out_of_memory
from sim.profile_gpu.timing import Call, Timer, num_copies

Row = tuple[Any, ...]
# Copies of a call, made when they are needed; none where there is no memory for one.
MakeCalls = Callable[[], Sequence[Call]]


@dataclass
class Profile:
    """What was timed.

    tables: by the names of their files without `tpN_` and `.csv`; time_us is the time of one call.
    left_out: of each table, the points for which there was not enough memory. kernels: what
    computed the attention and the experts, and how element-wise operators were made.
    """

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, columns: list[str], rows: Iterator[tuple[Row, float | None]]) -> None:
        """Add a table of the rows that have a time, and count the others."""
        all_rows = [(*row, time_us) for row, time_us in rows]
        timed = [row for row in all_rows if row[-1] is not None]
        self.tables[name] = pd.DataFrame(timed, columns=[*columns, "time_us"])
        self.left_out[name] = len(all_rows) - len(timed)


class Bench:
    """A device, and how far the work on it is. advance: called after each point."""

    def __init__(self, tensors: Tensors, timer: Timer, advance: Callable[[], None]) -> None:
        self.tensors = tensors
        self.timer = timer
        self._advance = advance

    def time_us(self, make_calls: MakeCalls) -> float | None:
        """Time of one call in microseconds; None where there is not enough memory for it."""

        def measure() -> float | None:
            calls = make_calls()
            return self.timer.time_us(calls) if calls else None

        time_us = unless_out_of_memory(measure)
        self._advance()
        return time_us


def num_points(shard: Shard, tensors: Tensors, points: Points) -> int:
    """Points that `measure_shard` advances by."""
    fuse = fusing("cpu")[0]  # nothing is computed
    num_dense = len(dense_operators(shard, tensors, fuse)) * len(points.tokens)
    num_sequence = len(sequence_operators(shard, tensors)) * len(points.sequences)
    return num_dense + num_sequence + len(points.attention) + len(points.experts)


def measure_shard(shard: Shard, points: Points, bench: Bench) -> Profile:
    """Time every operator of the shard at every point."""
    profile = Profile()
    with torch.inference_mode():
        fuse, profile.kernels["elementwise"] = fusing(bench.tensors.device)
        dense = dense_operators(shard, bench.tensors, fuse)
        profile.add("dense", ["layer", "tokens"], _over_counts(dense, points.tokens, bench))
        per_sequence = sequence_operators(shard, bench.tensors)
        profile.add(
            "per_sequence",
            ["layer", "sequences"],
            _over_counts(per_sequence, points.sequences, bench),
        )
        if points.experts:
            _measure_experts(shard, points.experts, bench, profile)
        _measure_attention(shard, points.attention, bench, profile)
    return profile


def _over_counts(
    operators: list[Operator], counts: list[int], bench: Bench
) -> Iterator[tuple[Row, float | None]]:
    for operator in operators:
        copies = unless_out_of_memory(partial(_weight_copies, operator, bench.timer)) or []
        for count in counts:
            calls = partial(_operator_calls, operator, copies, count)
            yield (operator.name, count), bench.time_us(calls)


def _weight_copies(operator: Operator, timer: Timer) -> list[tuple[torch.Tensor, ...]]:
    first = operator.weights()
    count = num_copies(timer, sum(tensor.nbytes for tensor in first)) if first else 1
    return [first, *(operator.weights() for _ in range(count - 1))]


def _operator_calls(
    operator: Operator, copies: list[tuple[torch.Tensor, ...]], count: int
) -> list[Call]:
    inputs = operator.inputs(count)
    return [partial(operator.compute, *inputs, *weights) for weights in copies]


def _measure_experts(
    shard: Shard, points: list[ExpertPoint], bench: Bench, profile: Profile
) -> None:
    layer = unless_out_of_memory(lambda: expert_layer(shard, bench.tensors))
    kernel = choose_experts(shard, layer, bench.tensors, bench.timer) if layer else None
    profile.kernels["experts"] = kernel.name if kernel else "none: not enough memory"

    def rows() -> Iterator[tuple[Row, float | None]]:
        for point in points:
            calls = partial(_expert_calls, shard, layer, kernel, point, bench)
            yield point, bench.time_us(calls)

    profile.add("moe", list(ExpertPoint._fields), rows())


def _expert_calls(
    shard: Shard,
    layer: ExpertLayer | None,
    kernel: ExpertKernel | None,
    point: ExpertPoint,
    bench: Bench,
) -> list[Call]:
    """Over one group of activated experts after the other."""
    if layer is None or kernel is None:
        return []
    hidden = bench.tensors.normal(point.tokens, shard.model.d_model)
    read_bytes = point.activated_experts * (layer.up[0].nbytes + layer.down[0].nbytes)
    most_copies = max(shard.model.num_experts // point.activated_experts, 1)
    return [
        expert_call(shard, layer, kernel, hidden, chosen_experts(shard, point, copy))
        for copy in range(min(num_copies(bench.timer, read_bytes), most_copies))
    ]


def _measure_attention(
    shard: Shard, points: list[AttentionPoint], bench: Bench, profile: Profile
) -> None:
    kernel = choose_attention(shard, bench.tensors, bench.timer)
    profile.kernels["attention"] = kernel.name
    pool = _kv_pool(shard, points, kernel, bench.tensors)

    def rows() -> Iterator[tuple[Row, float | None]]:
        for point in points:
            yield point, bench.time_us(partial(_attention_calls, pool, kernel, point, bench.timer))

    profile.add("attention", list(AttentionPoint._fields), rows())


def _kv_pool(
    shard: Shard, points: list[AttentionPoint], kernel: AttentionKernel, tensors: Tensors
) -> KvPool:
    """Large enough for every point, or as large as the memory allows."""
    wanted = max(blocks_of(point, kernel.block_size) for point in points)
    numbers = 2 * kernel.block_size * shard.num_kv_heads * shard.model.head_size
    allowed = math.floor(tensors.pool_bytes / (numbers * tensors.dtype.itemsize))
    return KvPool(
        shard,
        tensors,
        num_blocks=min(wanted, allowed),
        block_size=kernel.block_size,
        is_scattered=kernel.is_paged,
    )


def _attention_calls(
    pool: KvPool, kernel: AttentionKernel, point: AttentionPoint, timer: Timer
) -> list[Call]:
    copies = num_copies(timer, pool.bytes_read(point))
    return [partial(kernel.attend, batch) for batch in pool.batches(point, copies)]
