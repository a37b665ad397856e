"""The door between schedulers and KV memory, and the ledger of its slots."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from engine.config import EngineConfig
from engine.sequence import Sequence


class KVUsage(NamedTuple):
    """The ledger: every slot of the pool is exactly one of these; they add up to the total.

    live: holds a computed token of a running sequence (shared slots counted once), those that the
        step in flight computes included.
    tail: empty slot of a partly filled block.
    reserved: wholly empty blocks held for tokens that will come, as far as is known.
    over_reserved: held for nothing: for tokens that never will come, or by rows of a static batch
        that have ended.
    cached: kept for reuse, held by nobody.
    unusable: free, but in no hole large enough for the head of the queue; or what makes a run a
        power of two.
    free: empty and held by nobody.
    """

    live: int
    tail: int
    reserved: int
    over_reserved: int
    cached: int
    unusable: int
    free: int


HELD = ("live", "tail", "reserved", "over_reserved")  # slots of blocks that somebody holds


class BlockState(NamedTuple):
    """What a block is at a moment.

    holders: sequences that hold it. num_live: its slots that are live. rest: the class of all its
        other slots, the name of a field of `KVUsage`.
    """

    holders: tuple[Sequence, ...]
    num_live: int
    rest: str


class Moves(NamedTuple):
    """Blocks that are copied, in this order, (from, to) of each.

    out: to the host. back: from the host. within: in the pool.
    """

    out: list[tuple[int, int]]
    back: list[tuple[int, int]]
    within: list[tuple[int, int]]


NO_MOVES = Moves([], [], [])

# Tokens of a sequence's output in the end, as far as is known: at the most, where nothing is.
OutputTokens = Callable[[Sequence], int]


def final_slots(seq: Sequence, num_output_tokens: int, *, is_async: bool) -> int:
    """Slots that a sequence has filled in the end.

    Its last token is never fed back. With asynchronous scheduling it may be, when the step after it
    is scheduled before anybody knows that it is the last.
    """
    num_tokens = seq.num_prompt_tokens + num_output_tokens
    return min(num_tokens if is_async else num_tokens - 1, seq.max_num_tokens - 1)


def reserved_slots(config: EngineConfig, seq: Sequence, num_output_tokens: int) -> int:
    """Slots that a sequence is given when it is admitted, by `config.reservation`."""
    match config.reservation:
        case "none":
            return 0
        case "max":
            return config.max_model_len
        case "limit":
            return seq.max_num_tokens
        case "pow2":
            rounded_up = 1 << (num_output_tokens - 1).bit_length()
            return min(seq.num_prompt_tokens + rounded_up, config.max_model_len)
        case _:
            return final_slots(seq, num_output_tokens, is_async=config.async_scheduling)


class KVManager(Protocol):
    """KV memory of an engine. Every operation takes all it needs, or takes nothing and says so.

    Only the books, and a reservation by an oracle, know how long outputs will be.
    """

    @property
    def num_free_blocks(self) -> int:
        """Blocks nobody holds, cached content or not."""

    @property
    def num_growable_blocks(self) -> int:
        """Blocks that running sequences can begin, all of them together."""

    def misfit(self, seq: Sequence) -> str | None:
        """What a sequence would need that the pool can never give it; None if it can."""

    @property
    def num_shared_blocks(self) -> int:
        """Blocks with more than one holder."""

    @property
    def num_saved_slots(self) -> int:
        """Slots of all block tables together, less those of the blocks that they hold."""

    def take_moves(self) -> "Moves":
        """Blocks to copy before the next step computes anything: all since the last call."""

    def begin_step(self, index: int) -> None:
        """Evictions from now on belong to this step."""

    def cached_prefix(self, seq: Sequence) -> list[int]:
        """Blocks that already hold the longest prefix of a waiting sequence. Changes nothing.

        At least one token is left to compute, since a step must yield logits. The answer holds
        until the next operation.
        """

    def admit(
        self,
        seq: Sequence,
        prefix: list[int],
        num_tokens: int,
        *,
        reserve_tokens: int = 0,
        fit_tokens: int = 0,
        watermark_blocks: int = 0,
    ) -> bool:
        """Give a waiting sequence its cached prefix and room for `num_tokens` tokens after it.

        reserve_tokens: take room for so many tokens in all, when that is more, unless
            `config.reservation` says for how many.
        fit_tokens: refuse unless room for so many tokens in all is there, though not taken.
        watermark_blocks: blocks that must stay free besides.
        Returns whether it was done. The first time, `seq.prefix_misses` says what was not cached.
        """

    def fork(self, first: Sequence, seq: Sequence) -> None:
        """Let a sequence that holds nothing go on from all that another one has computed.

        The first that fills more of the last block gets a copy of it, where it is shared.
        """

    def reorder(self, seqs: list[Sequence], parents: list[int]) -> None:
        """Let each of these sequences, all of one length, go on from what seqs[parent] holds."""

    def grow(self, seq: Sequence, num_tokens: int) -> bool:
        """Give a running sequence room for the next `num_tokens` tokens, if they can be had."""

    def grow_together(self, seqs: list[Sequence]) -> bool:
        """Give each of these sequences room for its next token, if all can be had."""

    def begin(self, seqs: list[Sequence], steps: list[int] | None = None) -> bool:
        """Give running sequences, whose blocks are full, a block each, if all can be had.

        steps: of each, the step in which it begins its block; None: all in the current step.
        """

    def fill(self, num_tokens: int, num_reserved_blocks: int = 0) -> None:
        """Running sequences filled so many slots that they held, in blocks begun or reserved.

        For sequences that decode together: their tables stand still meanwhile.
        num_reserved_blocks: of these blocks, those that were reserved and wholly empty before.
        """

    def swap_out(self, seqs: list[Sequence]) -> bool:
        """Release what running sequences hold, but keep it on the host, if there is room for it."""

    def swap_in(self, seqs: list[Sequence], num_tokens: int, *, watermark_blocks: int = 0) -> bool:
        """Give swapped sequences back what they held, and each room for so many more tokens.

        watermark_blocks: blocks that must stay free besides. Returns whether it was done.
        """

    def publish(self, seq: Sequence, num_tokens: int) -> None:
        """Let others share the full blocks of the first `num_tokens` tokens, all of them known."""

    def defer_publishing(self, seq: Sequence, catch_up: Callable[[Sequence], None]) -> bool:
        """Let what the sequence fills from now on be published only when it makes a difference.

        `catch_up` is called then, to publish what is full and to see to the rest. Returns whether
        it will be.
        """

    def resume_publishing(self, seq: Sequence) -> None:
        """`publish` is up to the caller again."""

    def retire(self, seq: Sequence) -> None:
        """The sequence has ended but keeps its memory until it is released."""

    def release(self, seq: Sequence) -> None:
        """Take everything back."""

    def usage(self, head: Sequence | None = None) -> KVUsage:
        """The ledger now, in slots. head: of the queue, if there is one."""

    def snapshot(self, holders: list[Sequence], head: Sequence | None = None) -> list[BlockState]:
        """Every block of the pool now, by id; its slots add up to `usage`.

        holders: sequences that hold memory, their tables up to date: none is in a decode batch.
        head: of the queue, if there is one.
        """

    def check(self, holders: list[Sequence]) -> None:
        """Prove the books against the sequences that hold memory."""
