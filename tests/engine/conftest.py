"""A small world to schedule in: scripted tokens, one line of log per step, books always checked."""

from collections import deque
from collections.abc import Iterable, Iterator

import pytest
import threadpoolctl

from engine.config import EngineConfig
from engine.engine import Engine
from engine.request import Request, RequestId, TokenOutput, TokenPrompt
from engine.sequence import Sequence
from engine.step import Step

STOP = -1


class ScriptedRunner:
    """Hands out each request's tokens from a list."""

    def __init__(self) -> None:
        self.scripts: dict[RequestId, list[int]] = {}

    def run(self, step: Step) -> list[int]:
        """The next token of the script for each chunk that samples."""
        return [
            self.scripts[chunk.seq.request.request_id][len(chunk.seq.output_token_ids)]
            for chunk in step.chunks
            if chunk.samples
        ]


class World:
    """An engine with scripted tokens; every operation ends with a proof of the books.

    A step is logged as its chunks, `id start+num_tokens`, in scheduling order, then who was
    preempted: "a 4+1, b 0+7 | preempted c".
    """

    def __init__(self, **settings: object) -> None:
        small: dict[str, object] = {"block_size": 2, "num_blocks": 16, "max_model_len": 32}
        self.runner = ScriptedRunner()
        config = EngineConfig(**(small | settings))
        self.engine = Engine(config, self.runner, with_text=False)
        self.outputs: list[TokenOutput] = []
        self.in_flight: deque[Step] = deque()  # of the asynchronous loop

    def add(
        self,
        request_id: str,
        prompt: int | list[int],
        output: int | list[int],
        *,
        priority: int = 0,
    ) -> Sequence:
        """Queue a request. A prompt given by its length has tokens that no other prompt has.

        output: how many tokens it generates, up to its limit; or which, STOP ending it early.
        """
        if isinstance(prompt, int):
            prompt = [own_token(request_id, i) for i in range(prompt)]
        if isinstance(output, int):
            output = list(range(500, 500 + output))
        self.runner.scripts[request_id] = output
        request = Request(
            request_id, TokenPrompt(prompt), len(output), priority=priority, stop_token_id=STOP
        )
        seq = self.engine.add_request(request)
        self.engine.check()
        return seq

    def cancel(self, request_id: str) -> bool:
        was_there = self.engine.cancel(request_id)
        self.engine.check()
        return was_there

    def schedule(self) -> Step:
        step = self.engine.schedule()
        self.engine.check()
        return step

    def commit(self, step: Step, tokens: list[int] | None = None) -> list[TokenOutput]:
        outputs = self.engine.commit(step, self.runner.run(step) if tokens is None else tokens)
        self.engine.check()
        self.outputs += outputs
        return outputs

    def step(self) -> str:
        """One step; returns its line of the log, empty when nothing could run."""
        step = self.schedule()
        self.commit(step)
        return describe(step)

    def run(self) -> list[str]:
        """Steps until nothing can run; returns the log."""
        log = []
        while line := self.step():
            log.append(line)
            assert len(log) < 1000, "it does not end"
        return log

    def advance(self) -> str:
        """One turn of the asynchronous loop; returns its line of the log.

        A step is scheduled; then, once two are in flight or nothing could be scheduled, the results
        of the oldest are taken. The line says who got a token of them, and with "!" whose was the
        last: "a 4+1 => a, b!".
        """
        step = self.schedule()
        if step.chunks:
            self.in_flight.append(step)
        line = describe(step)
        if len(self.in_flight) > 1 or (self.in_flight and not step.chunks):
            oldest = self.in_flight.popleft()
            outputs = self.commit(oldest, self.engine.run(oldest))
            line += " => " + (
                ", ".join(f"{o.request_id}{'!' * o.finished}" for o in outputs) or "-"
            )
        return line

    def run_async(self) -> list[str]:
        """Turns until nothing runs any more; returns the log."""
        log = []
        while self.engine.has_work or self.in_flight:
            log.append(self.advance())
            assert len(log) < 1000, "it does not end"
        return log

    def tokens(self, request_id: str) -> list[int]:
        """What came out for a request so far."""
        return [output.token_id for output in self.outputs if output.request_id == request_id]

    @property
    def finished(self) -> list[RequestId]:
        """Who has ended, in order."""
        return [output.request_id for output in self.outputs if output.finished]

    @property
    def num_free_blocks(self) -> int:
        return self.engine.kv.num_free_blocks

    def usage(self) -> dict[str, int]:
        """The ledger without its zeros."""
        return {kind: slots for kind, slots in self.engine.usage()._asdict().items() if slots}


def own_token(request_id: str, position: int) -> int:
    """A token id from the letters of the request id, the same in every process."""
    return int.from_bytes(request_id.encode(), "big") * 1000 + position


def describe(step: Step) -> str:
    chunks = ", ".join(
        f"{chunk.seq.request.request_id} {chunk.start}+{chunk.num_tokens}" for chunk in step.chunks
    )
    return chunks + (f" | preempted {ids(step.preempted)}" if step.preempted else "")


def ids(seqs: Iterable[Sequence]) -> str:
    return ", ".join(str(seq.request.request_id) for seq in seqs)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """The toy model's matrices are too small for BLAS threads, which wait for each other."""
    with threadpoolctl.threadpool_limits(1):
        yield


@pytest.fixture
def new_world() -> type[World]:
    """Makes a World: `world = new_world(num_blocks=4)`."""
    return World
