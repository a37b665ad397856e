"""Durations that are constant or linear in the shape of the batch."""

from dataclasses import dataclass

from sim.latency.model import FormulaLatency


@dataclass(frozen=True, kw_only=True)
class LinearLatency(FormulaLatency):
    """A fixed cost and a cost for each decode, token of decode context and prefill token, in s."""

    step_s: float
    per_decode_s: float = 0.0
    per_context_token_s: float = 0.0
    per_prefill_token_s: float = 0.0

    def decode_line(self, num_decodes: int) -> tuple[float, float]:
        """See FormulaLatency."""
        return num_decodes * self.per_decode_s + self.step_s, self.per_context_token_s

    def seconds(
        self, num_decodes: int, decode_context_tokens: int, prefills: list[tuple[int, int]]
    ) -> float:
        """See FormulaLatency."""
        num_prefill_tokens = sum(num_tokens for num_tokens, _ in prefills)
        return (
            decode_context_tokens * self.per_context_token_s
            + num_decodes * self.per_decode_s
            + num_prefill_tokens * self.per_prefill_token_s
            + self.step_s
        )
