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


@dataclass(slots=True)
class Step:
    """One forward pass over the scheduled batch.

    chunks: in scheduling order.
    preempted, admitted: sequences that left or joined the running ones while scheduling; an
        admission comes with the tokens that the prefix cache spared it.
    num_decodes, decode_context_tokens: chunks that feed one output token, and the sum of the
        contexts (tokens each attends to, its own included).
    prefills: (num_tokens, context_tokens before them) of every other chunk.
    """

    index: int
    chunks: list[Chunk] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    admitted: list[tuple[Sequence, int]] = field(default_factory=list)
    num_decodes: int = 0
    decode_context_tokens: int = 0
    prefills: list[tuple[int, int]] = field(default_factory=list)

    def add(self, seq: Sequence, start: int, num_tokens: int) -> bool:
        """Take a chunk into the batch; returns whether it samples."""
        stop = start + num_tokens
        samples = stop == seq.num_tokens + seq.num_placeholders
        self.chunks.append(Chunk(seq, start, num_tokens, samples))
        if num_tokens == 1 and start >= seq.num_prompt_tokens:
            self.num_decodes += 1
            self.decode_context_tokens += stop
        else:
            self.prefills.append((num_tokens, start))
        return samples

    def drop_ended(self) -> None:
        """Leave out sequences that ended after the step was scheduled; its shape stays."""
        if any(chunk.seq.status is Status.FINISHED for chunk in self.chunks):
            self.chunks = [c for c in self.chunks if c.seq.status is not Status.FINISHED]

    @property
    def num_tokens(self) -> int:
        """Tokens computed in this step."""
        return self.num_decodes + sum(num_tokens for num_tokens, _ in self.prefills)


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
        self._fill(step)
        return step

    @abstractmethod
    def _fill(self, step: Step) -> None:
        """Take chunks into the step."""

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
