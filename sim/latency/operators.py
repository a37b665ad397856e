"""A step as a sequence of operators, whoever knows how long each of them takes."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, Protocol

from sim.latency.allreduce import AllReduce, NoAllReduce
from sim.latency.model import Curve, CurveLatency, Prefills


class Products(Protocol):
    """All of a step but attention and all-reduce: products with weights, and what is between."""

    def layers_s(self, num_tokens: int) -> float:
        """Time of so many tokens through the layers."""

    def rows_s(self, num_rows: int) -> float:
        """Time of so many rows through the output projection, and of sampling from them."""


class Attention(Protocol):
    """Attention in all layers."""

    def decode_curve(self, num_decodes: int) -> Curve:
        """Of so many decodes alone, by their total context."""

    def mixed_s(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """Of a step with prefill chunks."""


class Operators(NamedTuple):
    """Everything that a step consists of on a GPU, and in words where the times are from."""

    products: Products
    attention: Attention
    allreduce: AllReduce | NoAllReduce
    source: str


class OperatorLatency(CurveLatency):
    """The time of a step is that of its operators, one after the other.

    overhead_s, per_sequence_s: what a step, and each of its decodes and prefill chunks, costs
    besides, on the host.
    """

    def __init__(self, operators: Operators, *, overhead_s: float, per_sequence_s: float) -> None:
        products, self._attention, allreduce, _ = operators
        self._overhead_s = overhead_s
        # Asked again and again for the same numbers, of which there are few.
        self._layers_s: Callable[[int], float] = cache(
            lambda num_tokens: products.layers_s(num_tokens) + allreduce.step_s(num_tokens)
        )
        self._rows_s: Callable[[int], float] = cache(
            lambda num_rows: products.rows_s(num_rows) + num_rows * per_sequence_s
        )

    def decode_curve(self, num_decodes: int) -> Curve:
        """See CurveLatency."""
        step_s = self._all_but_attention_s(num_decodes, num_decodes)
        curve = self._attention.decode_curve(num_decodes)
        return curve._replace(seconds=[step_s + seconds for seconds in curve.seconds])

    def seconds(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """See CurveLatency. Every prefill chunk is charged one row of the output projection."""
        num_tokens = num_decodes + sum(num_chunk_tokens for num_chunk_tokens, _ in prefills)
        step_s = self._all_but_attention_s(num_tokens, num_decodes + len(prefills))
        return step_s + self._attention.mixed_s(num_decodes, decode_context_tokens, prefills)

    def _all_but_attention_s(self, num_tokens: int, num_rows: int) -> float:
        return self._overhead_s + self._layers_s(num_tokens) + self._rows_s(num_rows)
