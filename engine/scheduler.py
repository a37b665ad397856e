"""What a scheduler decides (`Step`) and what every scheduler must offer (`Scheduler`)."""

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.config import EngineConfig
from engine.kv_manager import KVManager
from engine.request import Sequence, Status


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
        """Whether it feeds one token of the output, not a stretch of known ones."""
        return self.num_tokens == 1 and self.start >= self.seq.num_prompt_tokens


@dataclass(slots=True)
class Step:
    """One forward pass over the scheduled batch.

    chunks: in scheduling order.
    preempted, admitted: sequences that left or joined the running ones while scheduling; an
        admission comes with the tokens that the prefix cache spared it.
    num_tokens: tokens of all chunks.
    num_decodes, decode_context_tokens: chunks that feed one output token, and the sum of the
        contexts (tokens each attends to, its own included).
    prefills: (num_tokens, context_tokens before them) of every other chunk.
    """

    index: int
    chunks: list[Chunk] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    admitted: list[tuple[Sequence, int]] = field(default_factory=list)
    num_tokens: int = 0
    num_decodes: int = 0
    decode_context_tokens: int = 0
    prefills: list[tuple[int, int]] = field(default_factory=list)

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


class Scheduler(ABC):
    """Decides what each step computes. It sees no tensor and no clock.

    waiting: in the order in which they will be admitted. running: in scheduling order.
    """

    def __init__(self, config: EngineConfig, kv: KVManager) -> None:
        self.config = config
        self.kv = kv
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._num_steps = 0

    def add(self, seq: Sequence) -> None:
        """Queue a new sequence."""
        self.waiting.append(seq)

    def schedule(self) -> Step:
        """Decide the next step and take the memory it needs; no chunks when nothing can run."""
        step = Step(self._num_steps)
        self._num_steps += 1
        self.kv.begin_step(step.index)
        self._fill(step)
        return step

    @abstractmethod
    def _fill(self, step: Step) -> None:
        """Take chunks into the step."""

    def _start(self, step: Step, seq: Sequence, num_cached_tokens: int) -> None:
        """A waiting sequence that has been given memory runs from this step on."""
        self.running.append(seq)
        seq.status = Status.RUNNING
        if seq.num_cached_tokens is None:
            seq.num_cached_tokens = num_cached_tokens
        step.admitted.append((seq, num_cached_tokens))

    def finish(self, seq: Sequence) -> None:
        """A sequence has produced its last token."""
        self.remove(seq)

    def remove(self, seq: Sequence) -> None:
        """Take a waiting or running sequence out at once and return its memory."""
        if seq.status is Status.WAITING:
            self.waiting.remove(seq)
        else:
            self.running.remove(seq)
            self.kv.release(seq)
        seq.status = Status.FINISHED

    def close_batch(self) -> None:  # noqa: B027 - only batch-collecting schedulers wait
        """Let requests that wait for company start without it, where the scheduler does wait."""

    @property
    def holders(self) -> list[Sequence]:
        """Sequences that hold memory."""
        return self.running
