"""What `kvsim demo` shows: the real engine and the toy transformer at work, step by step."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from engine import (
    Engine,
    EngineConfig,
    Request,
    TokenPrompt,
    ToyLMRunner,
    Transformer,
    TransformerConfig,
)
from engine.step import Step
from engine.tokenizer import encode, printable


class Demo:
    """Prompts in an engine, numbered from 1, and what has come of them.

    Raises ConfigError and RequestError for settings and prompts that the engine refuses.
    """

    def __init__(
        self,
        prompts: list[str],
        *,
        max_new_tokens: int,
        block_size: int,
        num_blocks: int,
        batching: str,
        enable_prefix_caching: bool,
    ) -> None:
        max_model_len = max(len(encode(prompt)) for prompt in prompts) + max_new_tokens
        config = EngineConfig(
            block_size=block_size,
            num_blocks=num_blocks,
            max_model_len=max_model_len,
            batching=batching,
            batch_size=len(prompts),
            enable_prefix_caching=enable_prefix_caching,
        )
        self.engine = Engine(config, ToyLMRunner(Transformer(TransformerConfig()), config))
        for number, prompt in enumerate(prompts, start=1):
            self.engine.add_request(Request(number, TokenPrompt(encode(prompt)), max_new_tokens))
        self._prompts = prompts
        self._texts = [""] * len(prompts)

    def schedule(self) -> Step | None:
        """The next step, which has its memory and is not computed yet; None at the end."""
        if not self.engine.has_work:
            return None
        self.engine.close_batch()  # nobody else will come
        return self.engine.schedule()

    def compute(self, step: Step) -> int:
        """Take its tokens; returns how many there are."""
        outputs = self.engine.commit(step, self.engine.run(step))
        for output in outputs:
            self._texts[int(output.request_id) - 1] += output.text
        return len(outputs)

    @property
    def results(self) -> list[tuple[str, str]]:
        """Of each prompt, what came out so far."""
        return list(zip(self._prompts, self._texts, strict=True))


class DemoStep(NamedTuple):
    """What the cache and the scheduler show after a step. running: numbers of prompts, from 1."""

    step: int
    blocks_in_use: int
    blocks_shared: int
    tokens_produced: int
    running: list[int]


def print_demo(demo: Demo, *, as_json: bool) -> None:
    """Serve the prompts and print the lines of `demo_lines`, or the same as one JSON object."""
    if not as_json:
        for line in demo_lines(demo):
            print(line)
        return
    steps = [step._asdict() for step in _steps(demo)]
    continued = [{"prompt": prompt, "text": text} for prompt, text in demo.results]
    print(json.dumps({"steps": steps, "prompts": continued}, indent=1))


def demo_lines(demo: Demo) -> Iterator[str]:
    """One line a step, then one a prompt with what came out."""
    yield "step  blocks in use  blocks shared  tokens produced  running prompts"
    for step in _steps(demo):
        numbers = f"{step.step:4}  {step.blocks_in_use:13}  {step.blocks_shared:13}"
        yield f"{numbers}  {step.tokens_produced:15}  {' '.join(map(str, step.running))}"
    yield ""
    yield from result_lines(demo)


def result_lines(demo: Demo) -> list[str]:
    """A line for each prompt, with what came out so far."""
    return [
        f"{number}: {printable(prompt)}  ->  {text}"
        for number, (prompt, text) in enumerate(demo.results, start=1)
    ]


def _steps(demo: Demo) -> Iterator[DemoStep]:
    kv = demo.engine.kv
    while step := demo.schedule():
        num_used = demo.engine.config.num_blocks - kv.num_free_blocks
        num_shared = kv.num_shared_blocks
        running = [int(seq.request.request_id) for seq in demo.engine.scheduler.running]
        yield DemoStep(step.index, num_used, num_shared, demo.compute(step), running)
