"""From logits to a token."""

import numpy as np

from engine.kv_pool import FloatArray
from engine.request import SamplingParams
from engine.tokenizer import EOS


def sample(logits: FloatArray, params: SamplingParams, position: int, output: int = 0) -> int:
    """Token id drawn from the logits [vocab] for a position of a sequence.

    output: which of the request's outputs it is for.

    Greedy takes the largest logit, the lowest id of equals. Otherwise top-k keeps the k largest
    (low ids first among equals), top-p then the fewest whose renormalised mass reaches p, and one
    of those is drawn from a generator seeded by (params.seed + output, position) alone.
    """
    if params.ignore_eos:
        logits = logits.copy()
        logits[EOS] = -np.inf
    if params.temperature == 0:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")[: params.top_k or None]
    ranked = logits[order].astype(np.float64)
    mass = np.cumsum(np.exp((ranked - ranked[0]) / params.temperature))
    num_kept = int(np.searchsorted(mass, params.top_p * mass[-1])) + 1
    point = np.random.default_rng((params.seed + output, position)).random() * mass[num_kept - 1]
    return int(order[np.searchsorted(mass, point, side="right")])
