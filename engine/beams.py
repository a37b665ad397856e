"""Beam search: which beams go on, and with which tokens."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from engine.kv_pool import FloatArray
from engine.request import RequestId
from engine.sequence import Sequence
from engine.tokenizer import EOS

# Of the beams of a request, with so many tokens written and of such a width: the parents of its
# next ones. For engines whose tokens nobody computes.
BeamParents = Callable[[RequestId, int, int], list[int]]


def unmoved(_request_id: RequestId, _num_written: int, width: int) -> list[int]:
    """Parents of beams that all go on from themselves."""
    return list(range(width))


def choose_parents(sampled: Iterable[Sequence], beam_parents: BeamParents) -> None:
    """Let a model of beams choose for those that are about to get a token but their first."""
    for seq in sampled:
        if seq.is_beam and seq.index == 0 and seq.num_output_tokens:
            assert seq.group
            request_id = seq.request.request_id
            seq.group.parents = beam_parents(request_id, seq.num_output_tokens, len(seq.outputs))


def best_tokens(logits: dict[Sequence, FloatArray]) -> dict[Sequence, int]:
    """The next token of each beam, the best beam first; notes scores and parents in their group.

    logits: [vocab] of each sequence that gets a token; those of others than beams are passed over.
    Of all beams with one more token the most likely go on, of equals those of lower beams and ids.
    """
    tokens: dict[Sequence, int] = {}
    for first in [seq for seq in logits if seq.is_beam and seq.index == 0]:
        group = first.group
        assert group
        going = group.seqs if first.num_output_tokens else [first]  # at first they are all alike
        scores = np.stack(
            [
                score + _log_probabilities(logits[seq])
                for seq, score in zip(going, group.scores, strict=False)
            ]
        )
        best = np.argsort(-scores, axis=None, kind="stable")[: len(group.seqs)]
        parents, chosen = np.divmod(best, scores.shape[1])
        group.parents = parents.tolist()
        group.scores = scores.ravel()[best].tolist()
        tokens.update(zip(group.seqs, chosen.tolist(), strict=True))
    return tokens


def _log_probabilities(logits: FloatArray) -> NDArray[np.float64]:
    """Of every token but EOS, which beams never take: [vocab]."""
    x = logits.astype(np.float64)
    x[EOS] = -np.inf
    x -= x.max()
    x -= np.log(np.exp(x).sum())
    return x
