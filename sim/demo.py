"""What `kvsim demo` shows: the real engine and the toy transformer at work, step by step."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from engine import (
    Engine,
    EngineConfig,
    Request,
    TokenPrompt,
    ToyLMRunner,
    Transformer,
    TransformerConfig,
)
from engine.tokenizer import encode, printable


@dataclass(frozen=True)
class DemoStep:
    """What the cache and the scheduler show after a step. running: numbers of prompts, from 1."""

    step: int
    blocks_in_use: int
    blocks_shared: int
    tokens_produced: int
    running: list[int]


def print_demo(prompts: list[str], *, as_json: bool, **settings: Any) -> None:
    """Print the lines of `demo_lines`, or the same as one JSON object. Raises as it does."""
    if not as_json:
        for line in demo_lines(prompts, **settings):
            print(line)
        return
    texts: dict[int, str] = {}
    steps = [asdict(step) for step in _steps(prompts, texts, **settings)]
    continued = [{"prompt": each, "text": texts[n]} for n, each in enumerate(prompts, start=1)]
    print(json.dumps({"steps": steps, "prompts": continued}, indent=1))


def demo_lines(prompts: list[str], **settings: Any) -> Iterator[str]:
    """One line a step, then one a prompt with what came out. settings: those of `_steps`.

    Raises ConfigError and RequestError for settings and prompts that the engine refuses.
    """
    texts: dict[int, str] = {}
    steps = _steps(prompts, texts, **settings)
    yield "step  blocks in use  blocks shared  tokens produced  running prompts"
    for step in steps:
        numbers = f"{step.step:4}  {step.blocks_in_use:13}  {step.blocks_shared:13}"
        yield f"{numbers}  {step.tokens_produced:15}  {' '.join(map(str, step.running))}"
    yield ""
    for number, prompt in enumerate(prompts, start=1):
        yield f"{number}: {printable(prompt)}  ->  {texts[number]}"


def _steps(
    prompts: list[str],
    texts: dict[int, str],
    *,
    max_new_tokens: int,
    block_size: int,
    num_blocks: int,
    batching: str,
    enable_prefix_caching: bool,
) -> Iterator[DemoStep]:
    """The steps in which prompts are served; what comes out goes to `texts`, by their numbers."""
    max_model_len = max(len(encode(prompt)) for prompt in prompts) + max_new_tokens
    config = EngineConfig(
        block_size=block_size,
        num_blocks=num_blocks,
        max_model_len=max_model_len,
        batching=batching,
        batch_size=len(prompts),
        enable_prefix_caching=enable_prefix_caching,
    )
    engine = Engine(config, ToyLMRunner(Transformer(TransformerConfig()), config))
    for number, prompt in enumerate(prompts, start=1):
        engine.add_request(Request(number, TokenPrompt(encode(prompt)), max_new_tokens))
    texts.update(dict.fromkeys(range(1, len(prompts) + 1), ""))
    return _served(engine, texts)


def _served(engine: Engine, texts: dict[int, str]) -> Iterator[DemoStep]:
    while engine.has_work:
        engine.close_batch()  # nobody else will come
        step = engine.schedule()
        num_used = engine.config.num_blocks - engine.kv.num_free_blocks
        num_shared = engine.kv.num_shared_blocks
        running = [int(seq.request.request_id) for seq in engine.scheduler.running]
        outputs = engine.commit(step, engine.run(step))
        for output in outputs:
            texts[int(output.request_id)] += output.text
        yield DemoStep(step.index, num_used, num_shared, len(outputs), running)
