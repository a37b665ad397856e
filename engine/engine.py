"""The engine: requests in, tokens out, one step at a time.

`schedule` decides and allocates, a runner computes, `commit` appends the tokens and releases what
has ended. `step` does all three; a simulator calls them apart and lets its clock run in between.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

from engine import tokenizer
from engine.config import EngineConfig
from engine.engine_base import EngineBase
from engine.request import (
    GREEDY,
    Request,
    RequestError,
    RequestId,
    SamplingParams,
    TokenOutput,
    TokenPrompt,
)
from engine.runners import Runner
from engine.sequence import Sequence, Status
from engine.step import Step


class Engine(EngineBase):
    """A paged-KV engine over a runner.

    with_text: give every output its text; only for runners whose tokens are the tokenizer's.
    output_length: see EngineBase.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        *,
        with_text: bool = True,
        output_length: Callable[[Any], int] | None = None,
    ) -> None:
        super().__init__(config, stepwise=True, output_length=output_length)
        self.runner = runner
        self._texts: dict[Sequence, tokenizer.TextStream] | None = {} if with_text else None
        self._streams: defaultdict[RequestId, list[deque[TokenOutput]]] = defaultdict(list)
        self._num_generated = 0
        self._is_running = False
        self._computed: tuple[Step, list[int]] | None = None  # by `step`, not committed yet

    def add_request(self, request: Request) -> Sequence:
        """See EngineBase."""
        seq = super().add_request(request)
        if self._texts is not None:
            for output in seq.outputs:
                self._texts[output] = tokenizer.TextStream()
        return seq

    def _forget(self, request_id: RequestId) -> None:
        if self._texts is not None:
            for output in self._sequences[request_id].outputs:
                del self._texts[output]
        super()._forget(request_id)
        self._streams.pop(request_id, None)

    def schedule(self) -> Step:
        """See EngineBase."""
        if self._is_running:
            raise RuntimeError(f"step {self._in_flight[0].index} has not been committed")
        return super().schedule()

    def run(self, step: Step) -> list[int]:
        """Compute the tokens of a step, one for each chunk that samples, after earlier commits.

        A sequence that ended after the step was scheduled is left out.
        """
        step.drop_ended()
        if not step.chunks:  # nothing but rows that have ended
            return []
        self._is_running = True  # and stays so when the runner fails
        token_ids = self.runner.run(step)
        self._is_running = False
        return token_ids

    def commit(self, step: Step, token_ids: list[int]) -> list[TokenOutput]:
        """Take the tokens of the oldest step in flight and release what has ended.

        A sequence cancelled while the step was in flight gets no output.
        """
        self._land(step)
        sampling = [chunk.seq for chunk in step.chunks if chunk.samples]
        token_of = {
            seq: token_id
            for seq, token_id in zip(sampling, token_ids, strict=True)
            if seq.status is not Status.FINISHED
        }
        self._reorder(list(token_of))
        return [self._append(seq, token_id) for seq, token_id in token_of.items()]

    def _append(self, seq: Sequence, token_id: int) -> TokenOutput:
        seq.count_output()
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
            text = self._next_text(self._texts[seq], seq, finished=finished)
        output = TokenOutput(request_id, token_id, text, finished, reason, seq.index)
        if self._streams:
            for stream in self._streams.get(request_id, ()):
                stream.append(output)
        if reason:
            self._finish(seq, reason)
        return output

    @staticmethod
    def _next_text(stream: tokenizer.TextStream, seq: Sequence, *, finished: bool) -> str:
        """What the last token adds; of a beam, which may change until then, all at its end."""
        if not seq.is_beam:
            return stream.push(seq.output_token_ids[-1], last=finished)
        if not finished:
            return ""
        *written, last = seq.output_token_ids
        return "".join(stream.push(token, last=False) for token in written) + stream.push(
            last, last=True
        )

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
        while outputs or any(s.status is not Status.FINISHED for s in seq.outputs):
            if outputs:
                yield outputs.popleft()
            else:
                self.step()

    def generate(
        self, prompts: list[str], max_new_tokens: int = 16, sampling: SamplingParams = GREEDY
    ) -> list[str]:
        """Texts that the prompts are continued with, printable, in the order of the prompts.

        Those of several outputs of a prompt stand together.
        """
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
        return [text for stream in streams for text in _texts(stream, sampling.n)]


def _texts(stream: Iterator[TokenOutput], num_outputs: int) -> list[str]:
    """The text of each output of a request."""
    texts = [""] * num_outputs
    for token in stream:
        texts[token.output] += token.text
    return texts
