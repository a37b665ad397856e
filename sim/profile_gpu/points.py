"""The points at which operators are timed.

Small matrix products are timed at every number of tokens, because their times are a staircase: a
GPU computes them in tiles. Attention is timed at powers of two, as its times follow a product or a
sum of the sizes; mixed batches at every other power of two, which makes them some 1,700 points
instead of 8,400.
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from sim.catalogue.model import Model

_MOST_SEQUENCES = 256
_LEAST_ATTENTION_TOKENS = 16
_MOST_CONTEXT_TOKENS = 16_384
_CONTEXTS_PER_STEP = 8  # of the largest step, at most: a small one is for trying it out
# (last token count, step up to there)
_TOKEN_STEPS = ((16, 1), (64, 4), (512, 16), (2048, 64))
_LAST_STEP = 256


class AttentionPoint(NamedTuple):
    """A batch: one prompt's chunk over what is cached of it, and decodes of one context each.

    prefill_chunk: new tokens of the prompt. kv_prefill: tokens of it before them, in the cache.
    kv_decode: tokens that each of n_decode decodes attends to, its own included.
    """

    prefill_chunk: int
    kv_prefill: int
    n_decode: int
    kv_decode: int

    @property
    def sequences(self) -> list[tuple[int, int]]:
        """Of each sequence, the prompt first: its queries and the tokens the last attends to."""
        prompts = [(self.prefill_chunk, self.kv_prefill + self.prefill_chunk)]
        return [*(prompts if self.prefill_chunk else []), *[(1, self.kv_decode)] * self.n_decode]


class ExpertPoint(NamedTuple):
    """Tokens of a step, and the experts that at least one of them is computed by."""

    tokens: int
    activated_experts: int


@dataclass(frozen=True)
class Points:
    """Where the operators of a model are timed.

    tokens: of a step. sequences: of a step that are sampled from. experts: none without experts.
    """

    tokens: list[int]
    sequences: list[int]
    attention: list[AttentionPoint]
    experts: list[ExpertPoint]


def points_for(model: Model, max_tokens: int) -> Points:
    """The points for steps of up to max_tokens tokens."""
    most_sequences = min(_MOST_SEQUENCES, max_tokens)
    return Points(
        tokens=token_counts(max_tokens),
        sequences=token_counts(most_sequences),
        attention=_attention_points(max_tokens, most_sequences),
        experts=_expert_points(model, max_tokens) if model.num_experts else [],
    )


def token_counts(most: int) -> list[int]:
    """Every count to 16, every fourth to 64, every 16th to 512, coarser beyond, and the most."""
    counts: list[int] = []
    last = 0
    for end, step in (*_TOKEN_STEPS, (most, _LAST_STEP)):
        counts += range(last + step, end + 1, step)
        last = end
    return [*(count for count in counts if count < most), most]


def _attention_points(max_tokens: int, most_sequences: int) -> list[AttentionPoint]:
    chunks = _powers_of_two(_LEAST_ATTENTION_TOKENS, max_tokens)
    most_context = min(_MOST_CONTEXT_TOKENS, _CONTEXTS_PER_STEP * max_tokens)
    contexts = _powers_of_two(_LEAST_ATTENTION_TOKENS, most_context)
    decodes = _powers_of_two(1, most_sequences)
    decode = product([0], [0], decodes, contexts)
    prefill = product(chunks, [0, *contexts], [0], [0])
    mixed = product(chunks, [0, *contexts[::2]], decodes[::2], contexts[::2])
    return [AttentionPoint(*sizes) for sizes in (*decode, *prefill, *mixed)]


def _expert_points(model: Model, max_tokens: int) -> list[ExpertPoint]:
    """From the fewest experts that tokens can share to the most that they can activate."""
    per_token = model.num_experts_per_token
    most_groups = model.num_experts // per_token
    activated = {per_token * groups for groups in _powers_of_two(1, most_groups)}
    activated.add(model.num_experts)
    return [
        ExpertPoint(tokens, experts)
        for tokens in _powers_of_two(1, max_tokens)
        for experts in sorted(activated)
        if experts <= tokens * per_token
    ]


def _powers_of_two(first: int, most: int) -> list[int]:
    return [1 << power for power in range(first.bit_length() - 1, most.bit_length())]
