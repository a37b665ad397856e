"""The engine: requests in, tokens out, one step at a time.

`schedule` decides and allocates, a runner computes, `commit` appends the tokens and releases what
has ended. `step` does all three; a simulator calls them apart and lets its clock run in between.
"""

from collections import defaultdict, deque
from collections.abc import Iterator

from engine import tokenizer
from engine.config import EngineConfig
from engine.continuous import ContinuousScheduler, PriorityScheduler
from engine.paged_kv import PagedKVManager
from engine.request import (
    GREEDY,
    Request,
    RequestError,
    RequestId,
    SamplingParams,
    Sequence,
    Status,
    TokenOutput,
    TokenPrompt,
)
from engine.runners import Runner
from engine.scheduler import Scheduler, Step
from engine.static import StaticScheduler


def _scheduler_class(config: EngineConfig) -> type[Scheduler]:
    if config.batching == "static":
        return StaticScheduler
    return PriorityScheduler if config.policy == "priority" else ContinuousScheduler


class Engine:
    """A paged-KV engine over a runner.

    with_text: give every output its text; only for runners whose tokens are the tokenizer's.
    """

    def __init__(self, config: EngineConfig, runner: Runner, *, with_text: bool = True) -> None:
        self.config = config
        self.runner = runner
        self.kv = PagedKVManager(config)
        self.scheduler = _scheduler_class(config)(config, self.kv)
        self._sequences: dict[RequestId, Sequence] = {}
        self._texts: dict[RequestId, tokenizer.TextStream] | None = {} if with_text else None
        self._streams: defaultdict[RequestId, list[deque[TokenOutput]]] = defaultdict(list)
        self._num_added = 0
        self._num_generated = 0
        self._max_in_flight = 2 if config.async_scheduling else 1
        self._in_flight: deque[Step] = deque()  # scheduled, not committed
        self._is_running = False
        self._computed: tuple[Step, list[int]] | None = None  # by `step`, not committed yet

    @property
    def has_work(self) -> bool:
        """Whether any request is unfinished."""
        return bool(self._sequences)

    def add_request(self, request: Request) -> Sequence:
        """Queue a request and return its progress.

        Raises RequestError when the id is in use or the request can never fit.
        """
        if request.request_id in self._sequences:
            raise RequestError(f"request {request.request_id}: the id is in use")
        config = self.config
        seq = Sequence(request, config.block_size, config.max_model_len, self._num_added)
        self._refuse_misfit(seq)
        self._num_added += 1
        self._sequences[request.request_id] = seq
        if self._texts is not None:
            self._texts[request.request_id] = tokenizer.TextStream()
        self.scheduler.add(seq)
        return seq

    def _refuse_misfit(self, seq: Sequence) -> None:
        config = self.config
        name = f"request {seq.request.request_id}"
        if seq.num_prompt_tokens >= config.max_model_len:
            raise RequestError(
                f"{name}: its prompt of {seq.num_prompt_tokens} tokens leaves no room for output "
                f"within max_model_len {config.max_model_len}"
            )
        num_slots = seq.max_num_tokens - 1  # the last token is never fed back
        if num_slots > config.num_slots:
            raise RequestError(
                f"{name}: {seq.num_prompt_tokens} prompt + up to "
                f"{seq.max_num_tokens - seq.num_prompt_tokens} new tokens need "
                f"{-(-num_slots // config.block_size)} blocks, the pool has {config.num_blocks}"
            )

    def cancel(self, request_id: RequestId) -> bool:
        """Drop an unfinished request and return its memory; False if there is no such request.

        Not between `schedule` and the run of its step: blocks are shared as soon as they are
        scheduled, so the runner must have filled them.
        """
        seq = self._sequences.get(request_id)
        if seq is None:
            return False
        self.scheduler.remove(seq)
        seq.finish_reason = "cancelled"
        self._forget(request_id)
        return True

    def _forget(self, request_id: RequestId) -> None:
        del self._sequences[request_id]
        self._streams.pop(request_id, None)
        if self._texts is not None:
            del self._texts[request_id]

    def close_batch(self) -> None:
        """Let the next static batch start with whoever waits then, however few."""
        self.scheduler.close_batch()

    def schedule(self) -> Step:
        """Decide the next step and take its memory. No chunks: nothing can run now.

        With asynchronous scheduling the step before it may still be in flight.

        Raises RuntimeError when more are, as after a runner that failed in its midst: the cache
        then holds blocks that were never computed, and the engine is done for.
        """
        if self._is_running or len(self._in_flight) == self._max_in_flight:
            raise RuntimeError(f"step {self._in_flight[0].index} has not been committed")
        step = self.scheduler.schedule()
        if step.chunks:
            self._in_flight.append(step)
        return step

    def run(self, step: Step) -> list[int]:
        """Compute the tokens of a step, one for each chunk that samples, after earlier commits.

        A sequence that ended after the step was scheduled is left out.
        """
        step.drop_ended()
        self._is_running = True  # and stays so when the runner fails
        token_ids = self.runner.run(step)
        self._is_running = False
        return token_ids

    def commit(self, step: Step, token_ids: list[int]) -> list[TokenOutput]:
        """Take the tokens of the oldest step in flight and release what has ended.

        A sequence cancelled while the step was in flight gets no output.
        """
        if self._in_flight and step is self._in_flight[0]:
            self._in_flight.popleft()
        elif step.chunks:
            raise RuntimeError(f"step {step.index} is not the oldest in flight")
        outputs = []
        sampling = (chunk.seq for chunk in step.chunks if chunk.samples)
        for seq, token_id in zip(sampling, token_ids, strict=True):
            if seq.status is not Status.FINISHED:
                outputs.append(self._append(seq, token_id))
        return outputs

    def _append(self, seq: Sequence, token_id: int) -> TokenOutput:
        if seq.num_stale:
            seq.num_stale -= 1
        else:
            seq.num_placeholders -= 1
        seq.output_token_ids.append(token_id)
        if self.config.async_scheduling:
            # What a block holds is known only now; when it was scheduled it was a placeholder.
            self.kv.publish(seq, seq.num_computed_tokens - seq.num_placeholders)
        request_id = seq.request.request_id
        reason = None
        if token_id == seq.request.stop_token_id:
            reason = "stop"
        elif seq.num_tokens >= seq.max_num_tokens:
            reason = "length"
        finished = reason is not None
        text = ""
        if self._texts is not None:
            text = self._texts[request_id].push(token_id, last=finished)
        output = TokenOutput(request_id, token_id, text, finished, reason)
        if self._streams:
            for stream in self._streams.get(request_id, ()):
                stream.append(output)
        if finished:
            seq.finish_reason = reason
            self.scheduler.finish(seq)
            self._forget(request_id)
        return output

    def step(self) -> list[TokenOutput]:
        """Run one step live and return its new tokens, at most one per sequence.

        A caller that steps waits for nobody else, so a static batch starts with what it has.
        """
        self.close_batch()
        step = self.schedule()
        if not self.config.async_scheduling:
            return self.commit(step, self.run(step))
        outputs = self.commit(*self._computed) if self._computed else []
        self._computed = (step, self.run(step)) if step.chunks else None
        return outputs

    def stream(self, request_id: RequestId) -> Iterator[TokenOutput]:
        """This request's tokens from now on, as they come; every other request advances as well.

        Raises RequestError when no unfinished request has the id.
        """
        if request_id not in self._sequences:
            raise RequestError(f"request {request_id}: no unfinished request has this id")
        outputs: deque[TokenOutput] = deque()
        self._streams[request_id].append(outputs)
        return self._drain(self._sequences[request_id], outputs)

    def _drain(self, seq: Sequence, outputs: deque[TokenOutput]) -> Iterator[TokenOutput]:
        while outputs or seq.status is not Status.FINISHED:
            if outputs:
                yield outputs.popleft()
            else:
                self.step()

    def generate(
        self, prompts: list[str], max_new_tokens: int = 16, sampling: SamplingParams = GREEDY
    ) -> list[str]:
        """Texts that the prompts are continued with, printable, in the order of the prompts."""
        request_ids: list[RequestId] = []
        try:
            for prompt in prompts:
                self._num_generated += 1
                request_id = f"generate-{self._num_generated}"
                content = TokenPrompt(tokenizer.encode(prompt))
                self.add_request(Request(request_id, content, max_new_tokens, sampling))
                request_ids.append(request_id)
        except ValueError:  # refused, or not text
            for added in request_ids:
                self.cancel(added)
            raise
        streams = [self.stream(added) for added in request_ids]
        return ["".join(output.text for output in stream) for stream in streams]

    def check(self) -> None:
        """Prove the books: memory against its holders, queues against the unfinished requests."""
        scheduler = self.scheduler
        self.kv.check(scheduler.holders)
        queued = [*scheduler.waiting, *scheduler.running]
        assert len(queued) == len(set(queued)), "a sequence is queued twice"
        assert set(queued) == set(self._sequences.values())
        assert all(seq.status is Status.WAITING for seq in scheduler.waiting)
        assert all(seq.status is Status.RUNNING for seq in scheduler.running)
