"""What a latency model answers, and the mechanism that its kinds share."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from engine.step import Step

_FEW_STEPS = 24  # up to here numbers are faster than arrays

Float64Array = npt.NDArray[np.float64]
Prefills = list[tuple[int, int]]  # (num_tokens, context_tokens before them) of each chunk


def num_pairs(num_tokens: int, context: int, window: int | None = None) -> int:
    """Pairs (query, token it attends to) of a chunk after `context` tokens, itself included.

    window: the most recent tokens that a query attends to; None: all.

    >>> num_pairs(3, 10), num_pairs(3, 10, 12)
    (36, 35)
    """
    if window is None:
        return num_tokens * context + num_tokens * (num_tokens + 1) // 2
    num_full = min(max(window - context, 0), num_tokens)  # queries that still see all
    return num_full * context + num_full * (num_full + 1) // 2 + (num_tokens - num_full) * window


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


class Curve(NamedTuple):
    """Seconds of a step of decodes by their total context, linear between knots.

    knots: contexts in rising order, the first 0. seconds: at each knot. slopes: seconds per token
    of context from each knot on, the last without end.
    """

    knots: list[float]
    seconds: list[float]
    slopes: list[float]

    @classmethod
    def line(cls, step_s: float, per_context_token_s: float) -> "Curve":
        """A straight line."""
        return cls([0.0], [step_s], [per_context_token_s])

    def at(self, context_tokens: float) -> float:
        """Seconds at a total context."""
        part = bisect_right(self.knots, context_tokens) - 1
        return (context_tokens - self.knots[part]) * self.slopes[part] + self.seconds[part]

    @classmethod
    def through(cls, knots: list[float], seconds: list[float]) -> "Curve":
        """Through points, at least two, the first at 0; beyond the last as before, or level."""
        slopes = (np.diff(seconds) / np.diff(knots)).tolist()
        return cls(knots, seconds, [*slopes, max(slopes[-1], 0.0)])


class CurveLatency(ABC):
    """A latency model whose steps of decodes alone lie on a curve for each number of them."""

    @cached_property
    def _curves(self) -> dict[int, Curve]:
        return {}  # by num_decodes

    @property
    def wake_ns(self) -> int:
        """See LatencyModel."""
        return 0

    @abstractmethod
    def decode_curve(self, num_decodes: int) -> Curve:
        """Steps of so many decodes alone."""

    @abstractmethod
    def seconds(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """Duration of a step with prefills; see `engine.step.Step` for the three."""

    def step_time_ns(self, step: Step) -> int:
        """See LatencyModel."""
        if not step.prefills:
            return self.decode_times_ns(step.num_decodes, step.decode_context_tokens, 1)[0]
        seconds = self.seconds(step.num_decodes, step.decode_context_tokens, step.prefills)
        return max(round(seconds * 1e9), 1)

    def decode_times_ns(self, num_seqs: int, context_tokens: int, num_steps: int) -> list[int]:
        """See LatencyModel."""
        curve = self._curves.get(num_seqs)
        if curve is None:
            curve = self._curves[num_seqs] = self.decode_curve(num_seqs)
        knots = curve.knots
        part = bisect_right(knots, context_tokens) - 1
        end = context_tokens + num_steps * num_seqs
        is_straight = part + 1 == len(knots) or end - num_seqs < knots[part + 1]
        if is_straight and num_steps <= _FEW_STEPS:
            knot, step_s, token_s = knots[part], curve.seconds[part], curve.slopes[part]
            few = range(context_tokens, end, num_seqs)
            return [max(round(((tokens - knot) * token_s + step_s) * 1e9), 1) for tokens in few]
        return _many_times_ns(curve, np.arange(context_tokens, end, num_seqs))


def _many_times_ns(curve: Curve, contexts: np.ndarray) -> list[int]:
    knots, seconds, slopes = map(np.array, curve)
    parts = np.searchsorted(knots, contexts, side="right") - 1
    times = np.rint(((contexts - knots[parts]) * slopes[parts] + seconds[parts]) * 1e9)
    if times.max() >= 2**63:
        raise OverflowError("a step takes longer than int64 nanoseconds can say")
    times_ns: list[int] = np.maximum(times, 1).astype(np.int64).tolist()
    return times_ns
