"""What every engine does with requests, whoever produces their tokens."""

from collections import deque
from collections.abc import Callable
from typing import Any

from engine.config import ORACLES, ConfigError, EngineConfig
from engine.contiguous_kv import ContiguousKVManager
from engine.continuous import ContinuousScheduler
from engine.kv_manager import BlockState, KVManager, KVUsage, OutputTokens
from engine.longest_prefix import LongestPrefixPrefillFirstScheduler, LongestPrefixScheduler
from engine.paged_kv import PagedKVManager
from engine.prefill_first import PrefillFirstScheduler, TGIScheduler
from engine.priority import PriorityScheduler
from engine.request import Request, RequestError, RequestId
from engine.scheduler import Scheduler
from engine.sequence import Sequence, SequenceGroup, Status
from engine.static import StaticScheduler
from engine.step import Step


def _kv_manager(config: EngineConfig, output_tokens: OutputTokens, *, is_known: bool) -> KVManager:
    if config.reservation in ORACLES and not is_known:
        raise ConfigError(
            f"reservation: got {config.reservation!r}, which an oracle decides; nobody knows how "
            "long outputs of this engine will be"
        )
    if config.memory == "paged":
        return PagedKVManager(config, output_tokens)
    return ContiguousKVManager(config, output_tokens)


def _scheduler_class(config: EngineConfig) -> type[Scheduler]:
    if config.batching == "static":
        return StaticScheduler
    if config.max_batch_total_tokens:
        return TGIScheduler
    if config.policy == "priority":
        return PriorityScheduler
    if config.policy == "lpm":
        return (
            LongestPrefixScheduler if config.mixed_batches else LongestPrefixPrefillFirstScheduler
        )
    return ContinuousScheduler if config.mixed_batches else PrefillFirstScheduler


class EngineBase:
    """Memory, scheduler and unfinished requests of an engine, and its steps in flight.

    stepwise: every sequence has a chunk in every step; else those that decode have none.
    output_length: tokens of the output of the request with this id, where that is known: to the
        books of the memory and to a reservation by an oracle, never to the scheduler.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        stepwise: bool,
        output_length: Callable[[Any], int] | None = None,
    ) -> None:
        self.config = config
        self._output_length = output_length
        self.kv = _kv_manager(config, self._output_tokens, is_known=output_length is not None)
        self.scheduler = _scheduler_class(config)(config, self.kv, stepwise=stepwise)
        self._sequences: dict[RequestId, Sequence] = {}
        self._num_added = 0
        self._max_in_flight = 2 if config.async_scheduling else 1
        self._in_flight: deque[Step] = deque()  # scheduled, not committed

    @property
    def has_work(self) -> bool:
        """Whether any request is unfinished."""
        return bool(self._sequences)

    @property
    def num_unfinished(self) -> int:
        """Requests that run or wait."""
        return len(self._sequences)

    def add_request(self, request: Request) -> Sequence:
        """Queue a request and return its progress, or that of the first of its outputs.

        Raises RequestError when the id is in use or the request can never fit.
        """
        if request.request_id in self._sequences:
            raise RequestError(f"request {request.request_id}: the id is in use")
        seq = self._new_sequence(request, 0)
        if request.sampling.n > 1:
            self._refuse_outputs(request)
            others = [self._new_sequence(request, i) for i in range(1, request.sampling.n)]
            SequenceGroup([seq, *others])
        self._refuse_misfit(seq)
        self._num_added += 1
        self._sequences[request.request_id] = seq
        self.scheduler.add(seq)
        return seq

    def _new_sequence(self, request: Request, index: int) -> Sequence:
        config = self.config
        seq = Sequence(request, config.block_size, config.max_model_len, self._num_added, index)
        if config.kv_role == "kv_producer":
            seq.max_num_tokens = seq.num_prompt_tokens + 1
        elif config.kv_role == "kv_consumer":
            seq.num_given_tokens = seq.num_prompt_tokens - 1
        return seq

    def _refuse_misfit(self, seq: Sequence) -> None:
        name = f"request {seq.request.request_id}"
        if seq.num_prompt_tokens >= self.config.max_model_len:
            raise RequestError(
                f"{name}: its prompt of {seq.num_prompt_tokens} tokens leaves no room for output "
                f"within max_model_len {self.config.max_model_len}"
            )
        num_outputs = len(seq.outputs)
        if seq.is_beam and (
            self.config.async_scheduling or num_outputs > self.config.max_num_batched_tokens
        ):
            raise RequestError(
                f"{name}: {num_outputs} beams need max_num_batched_tokens >= {num_outputs} and "
                "async_scheduling false"
            )
        misfit = self.kv.misfit(seq)
        if misfit:
            raise RequestError(
                f"{name}: {seq.num_prompt_tokens} prompt + up to "
                f"{seq.max_output_tokens} new tokens need {misfit}"
            )

    def _refuse_outputs(self, request: Request) -> None:
        name, num_outputs = f"request {request.request_id}", request.sampling.n
        if obstacle := self._obstacle_to_forks():
            raise RequestError(f"{name}: {num_outputs} outputs need {obstacle}")
        if num_outputs > self.config.max_num_seqs:
            raise RequestError(
                f"{name}: {num_outputs} outputs are {num_outputs} sequences, max_num_seqs is "
                f"{self.config.max_num_seqs}"
            )

    def _obstacle_to_forks(self) -> str | None:
        """The first setting under which requests have one output, and what it should be."""
        config = self.config
        if config.batching != "continuous":
            return "batching continuous"
        if config.policy != "fcfs":
            return f"policy fcfs, not {config.policy}"
        if config.max_batch_total_tokens:
            return "max_batch_total_tokens 0"
        if config.memory == "paged" and config.reservation != "none":
            return f"reservation none with paged memory, not {config.reservation}"
        return None

    def _output_tokens(self, seq: Sequence) -> int:
        """See OutputTokens."""
        if self._output_length is None:
            return seq.max_output_tokens
        return min(self._output_length(seq.request.request_id), seq.max_output_tokens)

    @property
    def head(self) -> Sequence | None:
        """Who is admitted next; None: nobody waits."""
        waiting = self.scheduler.waiting
        return waiting[0] if waiting else None

    def usage(self) -> KVUsage:
        """The ledger of the memory now, in slots."""
        return self.kv.usage(self.head)

    def snapshot(self, head: Sequence | None) -> list[BlockState]:
        """Every block of the pool now, by id, of an engine whose sequences have a chunk each.

        head: who decides which holes are large enough, see KVManager.
        """
        assert not (self.scheduler.decodes and self.scheduler.decodes.size)
        return self.kv.snapshot(self.scheduler.holders, head)

    def is_unfinished(self, request_id: RequestId) -> bool:
        """Whether a request is in the engine, with at least one output that has not ended."""
        return request_id in self._sequences

    def cancel(self, request_id: RequestId) -> bool:
        """Drop an unfinished request and return its memory; False if there is no such request.

        Not between `schedule` and the run of its step: blocks are shared as soon as they are
        scheduled, so the runner must have filled them.
        """
        seq = self._sequences.get(request_id)
        if seq is None:
            return False
        for output in seq.outputs:
            if output.status is not Status.FINISHED:
                self.scheduler.remove(output)
                output.finish_reason = "cancelled"
        self._forget(request_id)
        return True

    def _forget(self, request_id: RequestId) -> None:
        del self._sequences[request_id]

    def num_cached_tokens(self, request: Request) -> int:
        """Prompt tokens of a request that the prefix cache would spare if it were admitted now.

        Changes nothing; the request need not be in the engine.
        """
        return len(self.kv.cached_prefix(self._new_sequence(request, 0))) * self.config.block_size

    def close_batch(self) -> None:
        """Let the next static batch start with whoever waits then, however few."""
        self.scheduler.close_batch()

    def schedule(self) -> Step:
        """Decide the next step and take its memory. No tokens: nothing can run now.

        With asynchronous scheduling the step before it may still be in flight.

        Raises RuntimeError when more are, as after a runner that failed in its midst: the cache
        then holds blocks that were never computed, and the engine is done for.
        """
        if len(self._in_flight) == self._max_in_flight:
            raise RuntimeError(f"step {self._in_flight[0].index} has not been committed")
        step = self.scheduler.schedule()
        if step.num_tokens:
            self._in_flight.append(step)
        return step

    def _land(self, step: Step) -> None:
        """The tokens of a step are taken: it is in flight no longer."""
        if self._in_flight and step is self._in_flight[0]:
            self._in_flight.popleft()
        elif step.num_tokens:
            raise RuntimeError(f"step {step.index} is not the oldest in flight")

    def steps_ahead(self) -> int:
        """How many steps in a row would only let the same sequences decode.

        0: the next step needs `schedule`, as always where tokens are computed.
        """
        return 0

    def _reorder(self, sampled: list[Sequence]) -> None:
        """Let beams that get a token go on from where those were that it was chosen for."""
        for seq in sampled:
            if seq.is_beam and seq.index == 0 and seq.num_output_tokens:
                assert seq.group
                beams, parents = seq.group.seqs, seq.group.parents
                self.kv.reorder(beams, parents)
                written = [beam.output_token_ids for beam in beams]
                for beam, parent in zip(beams, parents, strict=True):
                    beam.output_token_ids = list(written[parent])

    def _finish(self, seq: Sequence, reason: str) -> None:
        """A sequence has its last token."""
        seq.finish_reason = reason
        self.scheduler.finish(seq)
        if not seq.group or all(s.status is Status.FINISHED for s in seq.group.seqs):
            self._forget(seq.request.request_id)

    def check(self) -> None:
        """Prove the books: memory against its holders, queues against the unfinished requests."""
        scheduler = self.scheduler
        scheduler.check()
        self.kv.check(scheduler.holders)
        queued = [*scheduler.waiting, *scheduler.running]
        assert len(queued) == len(set(queued)), "a sequence is queued twice"
        unfinished = [
            output
            for seq in self._sequences.values()
            for output in seq.outputs
            if output.status is not Status.FINISHED
            and (output.status is Status.RUNNING or output is output.gang[0])
        ]
        assert set(queued) == set(unfinished)
        waiting = (Status.WAITING, Status.SWAPPED)
        assert all(seq.status in waiting for seq in scheduler.waiting)
        assert all(seq.status is Status.RUNNING for seq in scheduler.running)
