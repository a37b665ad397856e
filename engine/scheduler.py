"""What every scheduler must offer."""

from abc import ABC, abstractmethod
from collections import deque

from engine.config import EngineConfig
from engine.decode_batch import DecodeBatch
from engine.kv_manager import KVManager
from engine.sequence import Sequence, Status
from engine.step import Blocked, Chunk, Step


class Scheduler(ABC):
    """Decides what each step computes. It sees no tensor and no clock.

    waiting: in the order in which they will be admitted. running: in scheduling order, which is
        the order of their places.
    decodes: the sequences that are scheduled together, without a chunk each; None: every sequence
        has a chunk in every step. The decisions are the same.
    others: the running sequences that are in no decode batch.
    num_padded, padded_context_tokens: rows of a static batch that have ended and are computed
        nevertheless, and what they attend to in the next step.
    num_steps: steps scheduled so far.
    last_step: with a decode batch, the one that may be in flight while the next is scheduled.
    """

    def __init__(self, config: EngineConfig, kv: KVManager, *, stepwise: bool) -> None:
        self.config = config
        self.kv = kv
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}
        self.decodes = None if stepwise else DecodeBatch(config.block_size)
        self.others: dict[Sequence, None] = {}
        self.num_padded = 0
        self.padded_context_tokens = 0
        self.num_steps = 0
        self._num_started = 0
        self._unforked: set[Sequence] = set()  # running, and others will fork from them
        # Why nobody can be admitted until the queue or who runs changes; None: somebody may.
        self._stuck_by: Blocked | None = None
        self.last_step: Step | None = None
        self._published_step = -1

    def add(self, seq: Sequence) -> None:
        """Queue a new sequence."""
        self.waiting.append(seq)
        self._stuck_by = None

    def schedule(self) -> Step:
        """Decide the next step and take the memory it needs; no tokens when nothing can run."""
        step = Step(self.num_steps)
        self.num_steps += 1
        self.kv.begin_step(step.index)
        self._fill(step)
        if not self.waiting:
            step.blocked_by = None
        step.moves = self.kv.take_moves()
        forked = self._fork(step) if self._unforked else ()
        if self.decodes is not None:
            self.decodes.num_steps = self.num_steps
            for seq, _, _, samples in step.chunks:
                if samples and seq not in forked and not seq.is_beam:
                    self._join_decodes(seq)
            self.last_step = step
        return step

    def _fork(self, step: Step) -> set[Sequence]:
        """Let the other outputs of prompts that this step completes begin with their first tokens.

        Returns all sequences that now share memory which each of them will want to itself. Beams,
        which share memory in every step, are with them.
        """
        chunks: list[Chunk] = []
        forked: set[Sequence] = set()
        for chunk in step.chunks:
            chunks.append(chunk)
            first = chunk.seq
            if chunk.samples and first.group and first in self._unforked:
                self._unforked.remove(first)
                first.group.is_forked = True
                forked.update(first.outputs)
                for seq in first.outputs[1:]:
                    self.kv.fork(first, seq)
                    seq.num_placeholders += 1
                    chunks.append(Chunk(seq, seq.num_prompt_tokens, 0, samples=True))
        step.chunks = chunks
        return forked

    @abstractmethod
    def _fill(self, step: Step) -> None:
        """Take chunks into the step."""

    def _block(self, step: Step, reason: Blocked, *, is_stuck: bool = False) -> None:
        """Those who still wait do so for a reason, of which the last one given counts.

        is_stuck: it holds until the queue or who runs changes, whatever else may come up.
        """
        if is_stuck and self._stuck_by is None:
            self._stuck_by = reason
        step.blocked_by = reason if self._stuck_by is None else self._stuck_by

    def _start(self, step: Step, seq: Sequence, num_cached_tokens: int) -> None:
        """A waiting sequence that has been given memory runs from this step on.

        So do those that will fork from it.
        """
        self._run(seq)
        if seq.num_cached_tokens is None:
            seq.num_cached_tokens = num_cached_tokens
        step.admitted.append((seq, num_cached_tokens))
        if seq.group:
            self._start_others(seq)

    def _start_others(self, seq: Sequence) -> None:
        if seq.group and not seq.group.is_forked:
            self._unforked.add(seq)
        for other in seq.gang[1:]:
            self._run(other)
            other.num_cached_tokens = 0

    def _run(self, seq: Sequence) -> None:
        self._num_started += 1
        seq.place = self._num_started
        self.running[seq] = None
        self.others[seq] = None
        seq.status = Status.RUNNING

    def finish(self, seq: Sequence) -> None:
        """A sequence has produced its last token."""
        self.remove(seq)

    def remove(self, seq: Sequence) -> None:
        """Take a waiting or running sequence out at once and return its memory."""
        self._stuck_by = None
        if seq.status is Status.RUNNING:
            self._stop(seq)
        elif seq is seq.gang[0]:
            self.waiting.remove(seq)
        if seq.status is not Status.WAITING:
            self.kv.release(seq)
        seq.status = Status.FINISHED

    def _stop(self, seq: Sequence) -> None:
        """A running sequence runs no longer, nor do those that wait to fork from it."""
        self._stuck_by = None
        del self.running[seq]
        if seq.lead is None or self.decodes is None:
            del self.others[seq]
        else:
            self._take_out(seq)
        if seq in self._unforked:
            self._unforked.remove(seq)
            for other in seq.outputs[1:]:
                self._stop(other)
                self.kv.release(other)
                other.status = Status.WAITING

    def _join_decodes(self, seq: Sequence) -> None:
        """A running sequence decodes in every step from the next on."""
        assert self.decodes is not None
        del self.others[seq]
        self.decodes.join(seq)
        if self.config.enable_prefix_caching:
            self._arrange_publishing(seq)

    def _leave_decodes(self, seq: Sequence, step: Step) -> None:
        """A member of the decode batch is scheduled by itself from this step on."""
        assert self.decodes is not None
        if seq.first_step <= self.decodes.num_committed:
            step.left.append(seq)
        if self._take_out(seq):
            # Its token of the step in flight is one of many there; from now on it is its own.
            assert self.last_step is not None
            self.last_step.chunks.append(Chunk(seq, seq.num_computed_tokens - 1, 1, samples=True))
        self.others[seq] = None

    def _take_out(self, seq: Sequence) -> int:
        """A member leaves the decode batch; returns how many tokens it got there are in flight."""
        assert self.decodes is not None
        num_in_flight = self.decodes.leave(seq)
        if self.config.enable_prefix_caching:
            self.kv.resume_publishing(seq)
            num_unknown = seq.num_placeholders if self.config.async_scheduling else 0
            self.kv.publish(seq, seq.num_computed_tokens - num_unknown)
        return num_in_flight

    @abstractmethod
    def steps_ahead(self, most: int) -> int:
        """How many of the next `most` steps would schedule the decode batch, as it is, and no more.

        Whether a member ends meanwhile is for the engine to know. 0: the next step needs
        `schedule`.
        """

    @property
    def blocked_ahead(self) -> Blocked | None:
        """What `Step.blocked_by` would be of each of the steps that `steps_ahead` counts."""
        return self._stuck_by if self.waiting else None

    def advance(self, num_steps: int) -> list[int]:
        """Schedule so many steps of the decode batch alone, at most `steps_ahead`.

        Returns how many blocks the members begin in each.
        """
        assert self.decodes is not None
        begun = self._serve_ahead(self.decodes, range(self.num_steps, self.num_steps + num_steps))
        self.num_steps += num_steps
        self.decodes.num_steps = self.num_steps
        return begun

    @abstractmethod
    def _serve_ahead(self, batch: DecodeBatch, steps: range) -> list[int]:
        """Give the members what they need in these steps; see `advance`."""

    def _publish_full(self, index: int, others: list[Sequence]) -> None:
        """Let others share the blocks that running sequences fill in a step, in running order.

        After all of them have got their memory. others: those that are no members and fill some.
        """
        self._published_step = index
        seqs = others
        if self.decodes is not None:
            seqs = seqs + self.decodes.filling(self._known_step)
            seqs.sort(key=running_order)
        for seq in seqs:
            if seq.lead is None:
                self.kv.publish(seq, min(seq.num_computed_tokens, seq.num_tokens))
            else:
                self._publish_decoded(seq)

    def _publish_decoded(self, seq: Sequence) -> None:
        """Let others share what a member has computed, as far as steps have published."""
        assert seq.lead is not None
        self.kv.publish(seq, seq.lead + self._known_step + 1)
        self._arrange_publishing(seq)

    def _arrange_publishing(self, seq: Sequence) -> None:
        """See to it that what a member fills is published: later if that can be, else at once."""
        assert self.decodes is not None
        if self.kv.defer_publishing(seq, self._publish_decoded):
            self.decodes.stop_publishing(seq)
        else:
            self.decodes.start_publishing(seq)

    @property
    def _known_step(self) -> int:
        """The last step whose tokens, those it feeds, are known when blocks are published.

        With asynchronous scheduling the step before is in flight, and yields what this one feeds.
        """
        return self._published_step - self.config.async_scheduling

    def close_batch(self) -> None:  # noqa: B027 - only batch-collecting schedulers wait
        """Let requests that wait for company start without it, where the scheduler does wait."""

    @property
    def holders(self) -> list[Sequence]:
        """Sequences that hold memory."""
        return list(self.running)

    def check(self) -> None:
        """Prove that every running sequence is in one place, and bring its table up to date."""
        members = self.decodes.check() if self.decodes is not None else []
        assert sorted(seq.place for seq in [*members, *self.others]) == [
            s.place for s in self.running
        ]


def running_order(seq: Sequence) -> int:
    """To sort running sequences by."""
    return seq.place
