"""Constants of a linear latency model from measured steps, by least squares."""

from dataclasses import dataclass

import numpy as np

from sim.errors import UserError
from sim.latency.linear import LinearLatency
from sim.latency.model import Float64Array
from sim.latency.timed_steps import MeasuredSteps, read_steps

# Column of a step -> the constant that it is multiplied with, and of what that is the cost.
_TERMS = {
    "decode_seqs": ("per_decode_s", "a decode"),
    "decode_doublings": ("per_decode_doubling_s", "a doubling of the decodes"),
    "decode_context_tokens": ("per_context_token_s", "a token of their contexts"),
    "prefill_seqs": ("per_prefill_s", "a prefill chunk"),
    "prefill_tokens": ("per_prefill_token_s", "a prefill token"),
    "prefill_pairs": ("per_prefill_pair_s", "a pair of prefill tokens"),
    "after_idle": ("wake_s", "waking up"),
}
_MOST_ROUNDS = 50  # of weighting; about five are needed


@dataclass(frozen=True)
class Residuals:
    """How far a model is from measured steps, as shares of what was measured.

    median, percentile_90: of the absolute error of a step.
    total: signed error of the time of all steps; decodes, prefills: of those without and with
        prefill chunks (None where there are none).
    """

    num_steps: int
    median: float
    percentile_90: float
    total: float
    decodes: float | None
    prefills: float | None


@dataclass(frozen=True)
class Fit:
    """A fitted model, and how far it is from the steps that it was fitted to."""

    latency: LinearLatency
    residuals: Residuals


def fit_files(paths: list[str]) -> Fit:
    """Fit the steps of CSV files together. Raises UserError or WorkloadError: see `read_steps`."""
    steps = read_steps(paths)
    num_terms = len(steps.shape) + 1
    if len(steps) < num_terms:
        raise UserError(
            f"{', '.join(paths)}: got {len(steps)} steps, expected at least as many as there are "
            f"constants to fit, {num_terms}"
        )
    return fit(steps)


def fit(steps: MeasuredSteps) -> Fit:
    """The constants, none negative, that fit best: at least as many steps as there are constants.

    What disturbs a step goes on for a while in proportion to its length, so the variance is taken
    to be proportional to the duration, and squares are weighted by its inverse. The duration is
    the fitted one, found by repeating the fit. With the measured one the steps that happened to
    take long would count less, and the model would come out too fast; this way the fitted
    durations add up to the measured ones.
    """
    from scipy.optimize import nnls  # slow to import, and not needed without a fit

    matrix = np.column_stack([np.ones(len(steps)), *steps.shape.values()])
    scale = np.maximum(matrix.max(axis=0), 1)  # terms of one magnitude, for the solver's tolerance
    fitted_s, shortest_s = steps.duration_s, steps.duration_s.min()
    for _ in range(_MOST_ROUNDS):
        weights = 1 / np.sqrt(np.maximum(fitted_s, shortest_s))
        constants = nnls(matrix / scale * weights[:, None], steps.duration_s * weights)[0] / scale
        before_s, fitted_s = fitted_s, matrix @ constants
        if np.allclose(fitted_s, before_s, rtol=1e-9, atol=0):
            break
    step_s, *others = constants.tolist()
    named = {_TERMS[name][0]: cost for name, cost in zip(steps.shape, others, strict=True)}
    latency = LinearLatency(step_s=step_s, **named)
    return Fit(latency, residuals(latency, steps))


def residuals(latency: LinearLatency, steps: MeasuredSteps) -> Residuals:
    """How far a model is from steps, at least one, whether it was fitted to them or not."""
    errors = np.abs(predicted_s(latency, steps) - steps.duration_s) / steps.duration_s
    has_prefills = steps.shape["prefill_tokens"] > 0
    return Residuals(
        num_steps=len(steps),
        median=float(np.median(errors)),
        percentile_90=float(np.percentile(errors, 90)),
        total=_total_error(latency, steps) or 0.0,
        decodes=_total_error(latency, steps.where(~has_prefills)),
        prefills=_total_error(latency, steps.where(has_prefills)),
    )


def predicted_s(latency: LinearLatency, steps: MeasuredSteps) -> Float64Array:
    """What the model says of each step, in seconds."""
    seconds = np.full(len(steps), latency.step_s)
    for name, column in steps.shape.items():
        seconds += column * getattr(latency, _TERMS[name][0])
    return seconds


def total_s(latency: LinearLatency, steps: MeasuredSteps) -> float:
    """What the model says of all steps together, in seconds."""
    return float(predicted_s(latency, steps).sum())


def _total_error(latency: LinearLatency, steps: MeasuredSteps) -> float | None:
    return total_s(latency, steps) / float(steps.duration_s.sum()) - 1 if len(steps) else None


def describe(latency: LinearLatency) -> str:
    """The constants in words, those of 0 left out."""
    costs = {"a step": latency.step_s}
    costs |= {of: getattr(latency, constant) for constant, of in _TERMS.values()}
    return " + ".join(f"{_duration(cost)} {of}" for of, cost in costs.items() if cost)


def describe_residuals(found: Residuals) -> str:
    """The residuals in words."""
    parts = {"decodes alone": found.decodes, "steps with prefill": found.prefills}
    totals = "".join(f", {part} {error:+.1%}" for part, error in parts.items() if error is not None)
    return (
        f"{found.num_steps} steps, of which half are within {found.median:.1%} and 90% within "
        f"{found.percentile_90:.1%}; their total is off by {found.total:+.1%}{totals}"
    )


def _duration(seconds: float) -> str:
    for unit, factor in (("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 0.1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
