"""Durations that are constant or linear in the shape of the batch."""

import math
from dataclasses import asdict, dataclass

from sim.latency.model import Curve, CurveLatency, Prefills, num_pairs


@dataclass(frozen=True, kw_only=True)
class LinearLatency(CurveLatency):
    """A fixed cost of a step, and costs of what is in it, all in seconds.

    per_decode_s, per_context_token_s: of each decode and of each token of their contexts.
    per_decode_doubling_s: of each doubling of the decodes, besides: see `num_decode_doublings`.
        The first few may bring costs that later ones share, as where sequences of similar length
        are computed together.
    per_prefill_s, per_prefill_token_s: of each prefill chunk and of each of its tokens.
    per_prefill_pair_s: of each pair of a token of a chunk and one that it attends to.
    wake_s: from an arrival that finds the engine idle until a step can begin; no part of the step.
    """

    step_s: float
    per_decode_s: float = 0.0
    per_decode_doubling_s: float = 0.0
    per_context_token_s: float = 0.0
    per_prefill_s: float = 0.0
    per_prefill_token_s: float = 0.0
    per_prefill_pair_s: float = 0.0
    wake_s: float = 0.0

    @property
    def wake_ns(self) -> int:
        """See CurveLatency."""
        return round(self.wake_s * 1e9)

    def slowed(self, factor: float) -> "LinearLatency":
        """The same with every cost multiplied."""
        return LinearLatency(**{name: cost * factor for name, cost in asdict(self).items()})

    def decode_curve(self, num_decodes: int) -> Curve:
        """See CurveLatency."""
        return Curve.line(self._decodes_s(num_decodes) + self.step_s, self.per_context_token_s)

    def seconds(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """See CurveLatency."""
        num_prefill_tokens = sum(num_tokens for num_tokens, _ in prefills)
        return (
            decode_context_tokens * self.per_context_token_s
            + self._decodes_s(num_decodes)
            + len(prefills) * self.per_prefill_s
            + num_prefill_tokens * self.per_prefill_token_s
            + sum(num_pairs(*chunk) for chunk in prefills) * self.per_prefill_pair_s
            + self.step_s
        )

    def _decodes_s(self, num_decodes: int) -> float:
        doublings_s = num_decode_doublings(num_decodes) * self.per_decode_doubling_s
        return num_decodes * self.per_decode_s + doublings_s


def num_decode_doublings(num_decodes: int) -> float:
    """How often 1 is doubled to get one more than the decodes: 0 of none, 1 of 1, 2 of 3."""
    return math.log2(1 + num_decodes)
