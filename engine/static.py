"""Request-level batching: a batch is collected, run to its longest member's end, then replaced."""

from engine.config import EngineConfig
from engine.decode_batch import DecodeBatch
from engine.kv_manager import KVManager
from engine.scheduler import Scheduler
from engine.sequence import Sequence, Status
from engine.step import Blocked, Step


class StaticScheduler(Scheduler):
    """Batches of up to `batch_size` requests in order of arrival.

    A member takes, when the batch starts, memory for the longest it can become, so a batch never
    runs out; it is smaller when the pool holds no more. Its prompts are computed whole in one step,
    whatever `max_num_batched_tokens` says. A row that has ended keeps its place and memory until
    the whole batch has; whether it is computed any further says `EngineConfig.padding`.
    """

    def __init__(self, config: EngineConfig, kv: KVManager, *, stepwise: bool) -> None:
        super().__init__(config, kv, stepwise=stepwise)
        self._ended: list[Sequence] = []  # rows of the batch that keep their memory
        self._is_closed = False
        self._num_steps_left = 0  # of the batch, with padding to the limit

    def close_batch(self) -> None:
        """Start the next batch with those that wait now, however few."""
        self._is_closed = True

    def _fill(self, step: Step) -> None:
        self._release_ended_batch()
        self._block(step, Blocked.BATCH)
        if not self.running and not self._ended:
            self._start_batch(step)
        elif self.decodes is not None and self.running:
            if self.config.enable_prefix_caching:
                self._publish_full(step.index, [])
            self.kv.fill(self.decodes.size, len(self.decodes.beginning(step.index)))
            step.add_decodes(self.decodes.size, self.decodes.context_tokens)
        else:
            for seq in self.running:
                self._take(step, seq, seq.num_computed_tokens)
        if step.num_tokens or self._ended:
            self._pad(step)

    def _pad(self, step: Step) -> None:
        """Compute the rows that have ended one token further, and count the step."""
        step.add_padding(self.num_padded, self.padded_context_tokens)
        self._count_steps(1)

    def _count_steps(self, num_steps: int) -> None:
        self.padded_context_tokens += self.num_padded * num_steps
        self._num_steps_left -= num_steps

    def _start_batch(self, step: Step) -> None:
        most = min(self.config.batch_size, self.config.max_num_seqs)
        if len(self.waiting) < most and not self._is_closed:
            return
        self._block(step, Blocked.SLOTS)
        while self.waiting and len(self.running) < most:
            seq = self.waiting[0]
            prefix = self.kv.cached_prefix(seq)
            num_cached = len(prefix) * self.config.block_size
            # The last token is never fed back, so its K/V needs no slot.
            if not self.kv.admit(seq, prefix, 0, reserve_tokens=seq.max_num_tokens - 1):
                self._block(step, Blocked.BLOCKS)
                break
            self.waiting.popleft()
            self._start(step, seq, num_cached)
            self._take(step, seq, num_cached)
        if self.config.padding == "limit":
            self._num_steps_left = max((seq.max_output_tokens for seq in self.running), default=0)
        self._is_closed = False

    def _take(self, step: Step, seq: Sequence, start: int) -> None:
        num_tokens = seq.num_tokens - start
        if not self.kv.grow(seq, num_tokens):
            raise AssertionError("a row outgrew what its batch reserved")
        self.kv.publish(seq, seq.num_computed_tokens)
        seq.num_placeholders += step.add(seq, start, num_tokens)

    def steps_ahead(self, most: int) -> int:
        """See Scheduler. The rows of a batch stay as they are until one ends."""
        return most if self.running else 0

    @property
    def blocked_ahead(self) -> Blocked | None:
        """See Scheduler."""
        return Blocked.BATCH if self.waiting else None

    def _serve_ahead(self, batch: DecodeBatch, steps: range) -> list[int]:
        """See Scheduler. The blocks that rows begin are reserved."""
        begun = [len(batch.beginning(index)) for index in steps]
        if self.config.enable_prefix_caching:
            for index in steps:
                self._publish_full(index, [])
        self.kv.fill(len(steps) * batch.size, sum(begun))
        self._count_steps(len(steps))
        return begun

    def finish(self, seq: Sequence) -> None:
        """Keep the memory of a row that has ended until its batch has."""
        self._stop(seq)
        seq.status = Status.FINISHED
        self.kv.retire(seq)
        self._ended.append(seq)
        if self.config.padding != "none":
            self.num_padded += 1
            # Next its last token is fed.
            self.padded_context_tokens += seq.num_computed_tokens + 1
        self._release_ended_batch()

    def remove(self, seq: Sequence) -> None:
        """Take a sequence out at once; a row's memory is returned without waiting for its batch."""
        super().remove(seq)
        self._release_ended_batch()

    def _release_ended_batch(self) -> None:
        if not self.running and self._num_steps_left <= 0:
            for seq in self._ended:
                self.kv.release(seq)
            self._ended.clear()
            self.num_padded = self.padded_context_tokens = self._num_steps_left = 0

    @property
    def holders(self) -> list[Sequence]:
        """Running rows and those that have ended but keep their memory."""
        return [*self.running, *self._ended]
