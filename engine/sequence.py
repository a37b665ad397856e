"""A request's progress through the engine: one sequence for each of its outputs."""

from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

from engine.block_table import BlockTable
from engine.request import BlockRun, Request


class PrefixMisses(NamedTuple):
    """Why tokens of an admitted sequence did not come from the prefix cache.

    num_partial_tokens: in no full block, or in the one that must be computed for its logits.
    num_unseen_tokens: in blocks whose content no block has held, as far as is remembered.
    evicted_at: for each block whose content, or content before it, was evicted: the step of that.
    """

    num_partial_tokens: int
    num_unseen_tokens: int
    evicted_at: list[int]


class Status(Enum):
    """Where a sequence stands. A preempted one waits again, for its K/V if that is on the host."""

    WAITING = "waiting"
    SWAPPED = "swapped"
    RUNNING = "running"
    FINISHED = "finished"


class SequenceGroup:
    """The sequences of a request with several outputs, in the order of the outputs.

    The first computes the prompt; the others hold nothing and want nothing until they fork from it.
    By then parallel samples have nothing to do with each other any more. Beams take every step
    together, and each may then go on from what another has computed.

    scores: log-probability of what each beam has written.
    parents: of each beam, the one that it goes on from, as chosen in the last step.
    """

    __slots__ = ("is_forked", "parents", "scores", "seqs")

    def __init__(self, seqs: "list[Sequence]") -> None:
        self.seqs = seqs
        for seq in seqs:
            seq.group = self
            seq.is_beam = seq.request.sampling.beam_search
        self.start_over()

    def start_over(self) -> None:
        """Nothing is written yet."""
        self.is_forked = False
        self.scores = [0.0] * len(self.seqs)
        self.parents = [0] * len(self.seqs)
        for seq in self.seqs:
            seq.num_output_tokens = 0
            seq.output_token_ids = []


class Sequence:
    """A request's progress in the engine: of one of its outputs, if there are several.

    index: which output. group: all of them; None where there is only one.
    is_beam: whether it takes every step together with the other outputs of its request.
    prompt: what the request asks about.
    arrival: its place in the order of arrival.
    num_prompt_tokens: length of the prompt.
    max_num_tokens: length, prompt and output, at which the sequence ends at the latest.
    num_output_tokens: output tokens so far; output_token_ids: which, where anybody reads them.
    place: its number among all that started to run; running order is by place.
    lead, first_step: see DecodeBatch; lead is None while it is in none.
    num_placeholders: output tokens that steps in flight are about to produce.
    num_stale: such tokens from before a preemption; the sequence waits for them to come.
    num_given_tokens: prompt tokens whose K/V comes from another engine at the next admission.
    num_cached_tokens: prompt tokens that the prefix cache spared at first admission; None before.
    num_lost_tokens: computed ones that its last preemption took, those in flight included.
    prefix_misses: why it did not spare the others; None before, and without prefix caching.
    """

    __slots__ = (
        "_runs",
        "_runs_range",
        "arrival",
        "block_table",
        "finish_reason",
        "first_step",
        "group",
        "index",
        "is_beam",
        "lead",
        "max_num_tokens",
        "num_cached_tokens",
        "num_given_tokens",
        "num_lost_tokens",
        "num_output_tokens",
        "num_placeholders",
        "num_preemptions",
        "num_prompt_tokens",
        "num_stale",
        "output_token_ids",
        "place",
        "prefix_misses",
        "prompt",
        "request",
        "status",
    )

    def __init__(
        self,
        request: Request,
        block_size: int,
        max_model_len: int,
        arrival: int = 0,
        index: int = 0,
    ) -> None:
        self.request = request
        self.arrival = arrival
        self.index = index
        self.group: SequenceGroup | None = None
        self.is_beam = False
        self.prompt = request.prompt.for_output(index) if index else request.prompt
        self._runs: list[BlockRun] = []  # those asked for last, of blocks
        self._runs_range = (0, 0)
        self.num_prompt_tokens = len(request.prompt)
        self.max_num_tokens = min(self.num_prompt_tokens + request.max_new_tokens, max_model_len)
        self.num_output_tokens = 0
        self.output_token_ids: list[int] = []
        self.place = 0
        self.lead: int | None = None
        self.first_step = 0
        self.block_table = BlockTable(block_size)
        self.status = Status.WAITING
        self.finish_reason: str | None = None
        self.num_given_tokens = 0
        self.num_cached_tokens: int | None = None
        self.prefix_misses: PrefixMisses | None = None
        self.num_preemptions = 0
        self.num_lost_tokens = 0
        self.num_placeholders = 0
        self.num_stale = 0

    @property
    def outputs(self) -> "list[Sequence]":
        """All sequences of its request."""
        return self.group.seqs if self.group else [self]

    @property
    def output_id(self) -> Hashable:
        """Its request's id; of several outputs with the index."""
        request_id = self.request.request_id
        return (request_id, self.index) if self.group else request_id

    @property
    def awaits_fork(self) -> bool:
        """Whether another sequence computes its prompt."""
        return self.group is not None and self.index > 0 and not self.group.is_forked

    @property
    def gang(self) -> "list[Sequence]":
        """Those that are admitted and preempted with the first of them, such as beams."""
        is_alone = self.group is None or (self.group.is_forked and not self.is_beam)
        return [self] if is_alone else self.outputs

    @property
    def num_tokens(self) -> int:
        """Tokens known: prompt and output so far."""
        return self.num_prompt_tokens + self.num_output_tokens

    @property
    def max_output_tokens(self) -> int:
        """Tokens of output at which the sequence ends at the latest."""
        return self.max_num_tokens - self.num_prompt_tokens

    @property
    def num_computed_tokens(self) -> int:
        """Tokens whose K/V is kept, or will be when the step in flight ends."""
        return self.block_table.num_tokens

    def count_output(self) -> None:
        """A token of a step in flight has come."""
        self.num_output_tokens += 1
        if self.num_stale:
            self.num_stale -= 1
        else:
            self.num_placeholders -= 1

    def token_ids(self, start: int, stop: int) -> list[int]:
        """Known tokens at positions start to stop - 1."""
        prompt_len = self.num_prompt_tokens
        tokens: list[int] = []
        if start < prompt_len:
            tokens = self.prompt.token_ids(start, min(stop, prompt_len))
        if stop > prompt_len:
            tokens = tokens + self.output_token_ids[max(start - prompt_len, 0) : stop - prompt_len]
        return tokens

    def block_runs(self, first: int, stop: int) -> list[BlockRun]:
        """Runs of logical blocks first to stop - 1, all of whose tokens must be known.

        The last answer is kept: whoever waits at the head of the queue is asked at each step, and
        what an admitted sequence publishes is mostly the end of what was looked up.
        """
        kept_first, kept_stop = self._runs_range
        if stop != kept_stop or first < kept_first:
            block_size = self.block_table.block_size
            self._runs = self.prompt.block_runs(block_size, first, stop, self.output_token_ids)
        elif first > kept_first:
            self._runs = _without(self._runs, first - kept_first)
        self._runs_range = (first, stop)
        return self._runs


def _without(runs: list[BlockRun], num_blocks: int) -> list[BlockRun]:
    """Runs without their first num_blocks blocks."""
    for i, (key, start, length) in enumerate(runs):
        if num_blocks < length:
            return [(key, start + num_blocks, length - num_blocks), *runs[i + 1 :]]
        num_blocks -= length
    return []
