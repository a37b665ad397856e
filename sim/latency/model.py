"""What a latency model answers, and the mechanism shared by those that are a formula."""

from abc import ABC, abstractmethod
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from engine.scheduler import Step

# One number of tokens (or seconds), or one for each of a run of steps.
Quantity = TypeVar("Quantity", float, npt.NDArray[np.float64])

_FEW_STEPS = 6  # up to here numbers are faster than arrays


class LatencyModel(Protocol):
    """Durations in whole nanoseconds, at least 1: a step of no length would stall the clock.

    Both methods agree to the nanosecond on a step of decodes alone.
    """

    def step_time_ns(self, step: Step) -> int:
        """Duration of any step."""

    def decode_times_ns(
        self, num_seqs: int, context_tokens: int, num_steps: int
    ) -> npt.NDArray[np.int64]:
        """Durations of num_steps steps in a row in which the same sequences decode.

        context_tokens: tokens that all sequences together attend to in the first of them; each
        later step has num_seqs more. Returns shape [num_steps].
        """


class FormulaLatency(ABC):
    """A latency model that is one formula, evaluated for a step or for a run of steps at once."""

    @abstractmethod
    def seconds(
        self, num_decodes: int, decode_context_tokens: Quantity, prefills: list[tuple[int, int]]
    ) -> Quantity:
        """Duration of a step of this shape; see `engine.scheduler.Step` for the three."""

    def step_time_ns(self, step: Step) -> int:
        """See LatencyModel."""
        context_tokens = float(step.decode_context_tokens)
        return max(round(self.seconds(step.num_decodes, context_tokens, step.prefills) * 1e9), 1)

    def decode_times_ns(
        self, num_seqs: int, context_tokens: int, num_steps: int
    ) -> npt.NDArray[np.int64]:
        """See LatencyModel."""
        if num_steps <= _FEW_STEPS:
            contexts_few = range(context_tokens, context_tokens + num_seqs * num_steps, num_seqs)
            few = [self.seconds(num_seqs, float(context), []) * 1e9 for context in contexts_few]
            return np.array([max(round(time_ns), 1) for time_ns in few], np.int64)
        contexts = context_tokens + num_seqs * np.arange(num_steps, dtype=np.float64)
        times = np.rint(self.seconds(num_seqs, contexts, []) * 1e9)
        if times.max() >= 2**63:
            raise OverflowError("a step takes longer than int64 nanoseconds can say")
        return np.maximum(times, 1).astype(np.int64)
