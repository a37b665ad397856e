"""What a client asks for (`Request`, frozen) and what comes out."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.tokenizer import EOS

RequestId = str | int

BlockRun = tuple[Hashable, int, int]  # (key, start, num_blocks): see Prompt.block_runs


class RequestError(ValueError):
    """The engine cannot take this request; the message has the numbers that show why."""


class Prompt(Protocol):
    """Content of a prompt, whatever describes it: token ids here, segments in `workloads`."""

    def __len__(self) -> int:
        """Number of tokens, at least 1."""

    def token_ids(self, start: int, stop: int) -> list[int]:
        """Tokens at prompt positions start to stop - 1."""

    def block_runs(
        self, block_size: int, first: int, stop: int, output_token_ids: list[int]
    ) -> list[BlockRun]:
        """What blocks first to stop - 1 hold of the prompt followed by the output, in order.

        The run (key, start, num_blocks) is blocks start to start + num_blocks - 1 of the content
        `key`. Two blocks with equal keys and indices, and equal ones all the way before them, hold
        equal tokens. Runs start at 0, but for one that `first` cuts. All positions of the blocks
        must be known.
        """

    def for_output(self, index: int) -> "Prompt":
        """The same prompt followed by another of its outputs; this one is followed by output 0."""


class TokenPrompt:
    """A prompt given as explicit token ids, which are their own keys."""

    __slots__ = ("_token_ids",)

    def __init__(self, token_ids: list[int]) -> None:
        self._token_ids = list(token_ids)

    def __len__(self) -> int:
        return len(self._token_ids)

    def token_ids(self, start: int, stop: int) -> list[int]:
        """Tokens at prompt positions start to stop - 1."""
        return self._token_ids[start:stop]

    def block_runs(
        self, block_size: int, first: int, stop: int, output_token_ids: list[int]
    ) -> list[BlockRun]:
        """A run for each block, keyed by its tuple of block_size token ids."""
        known = self._token_ids
        if stop * block_size > len(known):
            known = known + output_token_ids
        return [
            (tuple(known[i * block_size : (i + 1) * block_size]), 0, 1) for i in range(first, stop)
        ]

    def for_output(self, index: int) -> "TokenPrompt":
        """Itself: outputs are told apart by their tokens."""
        return self


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How tokens are drawn from the logits.

    n: outputs, of one prompt. Output i is what a request of one output gets with `seed` + i.
    beam_search: the outputs are the n most likely that a search of this width finds, all of them as
        long as they may be: only with `ignore_eos` and temperature 0.
    temperature 0 is greedy. top_k 0 and top_p 1 keep every token. A sequence's draws depend on
    `seed` and the token's place alone, never on who shares the batch. `ignore_eos` never draws EOS.

    Raises RequestError for a value outside these ranges.
    """

    n: int = 1
    beam_search: bool = False
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if type(self.n) is not int or self.n < 1:
            raise RequestError(f"n: got {self.n!r}, expected a whole number from 1")
        if self.beam_search and not (self.n > 1 and self.ignore_eos and self.temperature == 0):
            raise RequestError("beam_search: expected n >= 2, ignore_eos and temperature 0 with it")
        if not self.temperature >= 0:
            raise RequestError(f"temperature: got {self.temperature}, expected >= 0")
        if self.top_k < 0:
            raise RequestError(f"top_k: got {self.top_k}, expected >= 0 (0 keeps every token)")
        if not 0 < self.top_p <= 1:
            raise RequestError(f"top_p: got {self.top_p}, expected above 0 and at most 1")
        if self.seed < 0:
            raise RequestError(f"seed: got {self.seed}, expected >= 0")


GREEDY = SamplingParams()


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for. `request_id` is unique among the unfinished requests.

    priority: lower goes first under the priority policy.
    stop_token_id: the token that ends the output early; -1 for token ids that are not the
        tokenizer's and where nothing but the limit, or a runner that hands out -1, ends it.
    """

    request_id: RequestId
    prompt: Prompt
    max_new_tokens: int
    sampling: SamplingParams = GREEDY
    priority: int = 0
    stop_token_id: int = EOS

    def __post_init__(self) -> None:
        if isinstance(self.prompt, str):
            raise RequestError(
                f"request {self.request_id}: prompt: got a text, expected token ids, as in "
                "TokenPrompt(engine.tokenizer.encode(text))"
            )
        if len(self.prompt) < 1:
            raise RequestError(f"request {self.request_id}: the prompt is empty")
        if self.max_new_tokens < 1:
            raise RequestError(
                f"request {self.request_id}: max_new_tokens: got {self.max_new_tokens}, "
                "expected >= 1"
            )


class TokenOutput(NamedTuple):
    """One new token.

    output: which of the request's outputs it belongs to. Of a beam it is the token that the beam
        ends with now; what comes before may be another beam's, so all its text comes with its end.
    `text` is printable: control characters, broken bytes and backslashes are escaped.
    """

    request_id: RequestId
    token_id: int
    text: str
    finished: bool
    finish_reason: str | None  # "stop" (end of text), "length" (a limit); None while it goes on
    output: int = 0
