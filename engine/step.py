"""What a scheduler decides: a step, and a chunk of it for each sequence."""

from enum import IntEnum
from typing import NamedTuple

from engine.kv_manager import NO_MOVES
from engine.sequence import Sequence, Status


class Blocked(IntEnum):
    """Why a step admits nobody more of those who wait.

    SLOTS: as many run as may. BLOCKS: there is not the room in memory that they must find free,
    watermark and other budgets of memory included. BUDGET: no tokens of the step are left. BATCH:
    their time has not come; a static batch runs or waits for company, or others have their turn.
    """

    SLOTS = 0
    BLOCKS = 1
    BUDGET = 2
    BATCH = 3


class Chunk(NamedTuple):
    """Tokens start to start + num_tokens - 1 of a sequence, computed in one step.

    `samples`: the chunk reaches the last known token, so the step yields the next one.
    """

    seq: Sequence
    start: int
    num_tokens: int
    samples: bool

    @property
    def is_decode(self) -> bool:
        """Whether it feeds one token of the output, not a stretch of known ones.

        Or the last one of a prompt of which all others were given.
        """
        first = self.seq.num_given_tokens or self.seq.num_prompt_tokens
        return self.num_tokens == 1 and self.start >= first


class Step:
    """One forward pass over the scheduled batch.

    index: its number, from 0.
    moves: blocks that are copied before anything is computed.
    chunks: in scheduling order. A sequence that forks has one of no tokens: it samples from what
        the one computes that it forks from. Members of a decode batch have none: the totals count
        them.
    preempted, admitted: sequences that left or joined the running ones while scheduling; an
        admission comes with the tokens that the prefix cache spared it.
    left: sequences that left the decode batch, after at least one token was taken from them.
    blocked_by: why those who still wait do, by the first of them; None: nobody waits.
    num_tokens: tokens of all chunks.
    num_decodes, decode_context_tokens: chunks that feed one output token, and the sum of the
        contexts (tokens each attends to, its own included).
    num_padded: of the decodes, rows of a static batch that have ended and yield nothing.
    prefills: (num_tokens, context_tokens before them) of every other chunk.
    """

    __slots__ = (
        "admitted",
        "blocked_by",
        "chunks",
        "decode_context_tokens",
        "index",
        "left",
        "moves",
        "num_decodes",
        "num_padded",
        "num_tokens",
        "preempted",
        "prefills",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.moves = NO_MOVES
        self.chunks: list[Chunk] = []
        self.preempted: list[Sequence] = []
        self.admitted: list[tuple[Sequence, int]] = []
        self.left: list[Sequence] = []
        self.blocked_by: Blocked | None = None
        self.num_tokens = 0
        self.num_decodes = 0
        self.decode_context_tokens = 0
        self.num_padded = 0
        self.prefills: list[tuple[int, int]] = []

    def add(self, seq: Sequence, start: int, num_tokens: int) -> bool:
        """Take a chunk into the batch; returns whether it samples."""
        stop = start + num_tokens
        chunk = Chunk(seq, start, num_tokens, stop == seq.num_tokens + seq.num_placeholders)
        self.chunks.append(chunk)
        self.num_tokens += num_tokens
        if chunk.is_decode:
            self.num_decodes += 1
            self.decode_context_tokens += stop
        else:
            self.prefills.append((num_tokens, start))
        return chunk.samples

    def add_decodes(self, num_seqs: int, context_tokens: int) -> None:
        """Take the members of a decode batch in."""
        self.num_tokens += num_seqs
        self.num_decodes += num_seqs
        self.decode_context_tokens += context_tokens

    def add_padding(self, num_rows: int, context_tokens: int) -> None:
        """Take in rows that have ended."""
        self.add_decodes(num_rows, context_tokens)
        self.num_padded += num_rows

    def remove(self, seq: Sequence) -> Chunk | None:
        """Take a sequence's chunk out again, if it has one, and return it."""
        chunk = next((chunk for chunk in self.chunks if chunk.seq is seq), None)
        if chunk is None:
            return None
        self.chunks.remove(chunk)
        self.num_tokens -= chunk.num_tokens
        if chunk.is_decode:
            self.num_decodes -= 1
            self.decode_context_tokens -= chunk.start + 1
        else:
            self.prefills.remove((chunk.num_tokens, chunk.start))
        return chunk

    def drop_ended(self) -> None:
        """Leave out sequences that ended after the step was scheduled; its shape stays."""
        if any(chunk.seq.status is Status.FINISHED for chunk in self.chunks):
            self.chunks = [c for c in self.chunks if c.seq.status is not Status.FINISHED]
