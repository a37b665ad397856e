"""Durations that are constant or linear in the shape of the batch."""

from sim.latency.model import Curve, CurveLatency, Prefills


class LinearLatency(CurveLatency):
    """A fixed cost and a cost for each decode, token of decode context and prefill token, in s."""

    def __init__(
        self,
        *,
        step_s: float,
        per_decode_s: float = 0.0,
        per_context_token_s: float = 0.0,
        per_prefill_token_s: float = 0.0,
    ) -> None:
        super().__init__()
        self._step_s = step_s
        self._per_decode_s = per_decode_s
        self._per_context_token_s = per_context_token_s
        self._per_prefill_token_s = per_prefill_token_s

    def decode_curve(self, num_decodes: int) -> Curve:
        """See CurveLatency."""
        step_s = num_decodes * self._per_decode_s + self._step_s
        return Curve.line(step_s, self._per_context_token_s)

    def seconds(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """See CurveLatency."""
        num_prefill_tokens = sum(num_tokens for num_tokens, _ in prefills)
        return (
            decode_context_tokens * self._per_context_token_s
            + num_decodes * self._per_decode_s
            + num_prefill_tokens * self._per_prefill_token_s
            + self._step_s
        )
