"""What a latency model answers, and the mechanism shared by those that are a formula."""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from engine.scheduler import Step

_FEW_STEPS = 24  # up to here numbers are faster than arrays


class LatencyModel(Protocol):
    """Durations in whole nanoseconds, at least 1: a step of no length would stall the clock.

    Both methods agree to the nanosecond on a step of decodes alone.
    """

    @property
    def wake_ns(self) -> int:
        """From an arrival that finds the engine idle until a step can begin."""

    def step_time_ns(self, step: Step) -> int:
        """Duration of any step."""

    def decode_times_ns(self, num_seqs: int, context_tokens: int, num_steps: int) -> list[int]:
        """Durations of num_steps steps in a row in which the same sequences decode.

        context_tokens: tokens that all sequences together attend to in the first of them; each
        later step has num_seqs more.
        """


class FormulaLatency(ABC):
    """A latency model that is a formula, and for decodes alone one that is linear."""

    @property
    def wake_ns(self) -> int:
        """See LatencyModel."""
        return 0

    @abstractmethod
    def decode_line(self, num_decodes: int) -> tuple[float, float]:
        """Seconds of a step of decodes alone: a number, and one for each token of context."""

    @abstractmethod
    def seconds(
        self, num_decodes: int, decode_context_tokens: int, prefills: list[tuple[int, int]]
    ) -> float:
        """Duration of a step with prefills; see `engine.scheduler.Step` for the three."""

    def step_time_ns(self, step: Step) -> int:
        """See LatencyModel."""
        if not step.prefills:
            return self.decode_times_ns(step.num_decodes, step.decode_context_tokens, 1)[0]
        seconds = self.seconds(step.num_decodes, step.decode_context_tokens, step.prefills)
        return max(round(seconds * 1e9), 1)

    def decode_times_ns(self, num_seqs: int, context_tokens: int, num_steps: int) -> list[int]:
        """See LatencyModel."""
        step_s, token_s = self.decode_line(num_seqs)
        if num_steps <= _FEW_STEPS:
            few = range(context_tokens, context_tokens + num_steps * num_seqs, num_seqs)
            return [max(round((tokens * token_s + step_s) * 1e9), 1) for tokens in few]
        contexts = context_tokens + num_seqs * np.arange(num_steps, dtype=np.float64)
        times = np.rint((contexts * token_s + step_s) * 1e9)
        if times.max() >= 2**63:
            raise OverflowError("a step takes longer than int64 nanoseconds can say")
        times_ns: list[int] = np.maximum(times, 1).astype(np.int64).tolist()
        return times_ns
