"""The output limits that requests state, and a count of the outputs that a limit will cut."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workloads.checks import require_count
from workloads.workload import Int64Column


class OutputLimits(NamedTuple):
    """max_new_tokens: [n] of each request. notes: what will be cut, a line each."""

    max_new_tokens: Int64Column
    notes: tuple[str, ...]


def output_limits(
    prompt_tokens: Int64Column,
    output_tokens: Int64Column,
    *,
    max_new_tokens: int | None,
    max_model_len: int,
) -> OutputLimits:
    """State max_new_tokens for every request, or what max_model_len leaves after its prompt.

    The true outputs stay as they are: the engine cuts them where a limit says. A request whose
    prompt leaves no room at all is not counted here: the engine refuses it and says so.

    Raises WorkloadError for a max_new_tokens or max_model_len below 1.
    """
    require_count("max_model_len", max_model_len)
    room = max_model_len - prompt_tokens
    if max_new_tokens is None:
        limits = np.maximum(room, 1)
    else:
        require_count("max_new_tokens", max_new_tokens)
        limits = np.full(len(prompt_tokens), max_new_tokens, dtype=np.int64)
    # The smaller limit cuts; of equal ones the model's, which no request can raise.
    is_cut_by_model = (room >= 1) & (room <= limits) & (output_tokens > room)
    is_cut_by_request = (room > limits) & (output_tokens > limits)
    notes = (
        _note(is_cut_by_request, f"max_new_tokens {max_new_tokens}"),
        _note(is_cut_by_model, f"max_model_len {max_model_len}"),
    )
    return OutputLimits(limits, tuple(note for note in notes if note))


def _note(is_cut: npt.NDArray[np.bool_], reason: str) -> str:
    count = np.count_nonzero(is_cut)
    return f"{count} output{'s' if count > 1 else ''} cut at {reason}" if count else ""
