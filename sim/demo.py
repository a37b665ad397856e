"""What `kvsim demo` shows: the real engine and the toy transformer at work, step by step."""

from collections.abc import Iterator

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


def demo_lines(
    prompts: list[str],
    *,
    max_new_tokens: int,
    block_size: int,
    num_blocks: int,
    batching: str,
    enable_prefix_caching: bool,
) -> Iterator[str]:
    """One line a step, then one a prompt with what came out.

    Raises ConfigError and RequestError for settings and prompts that the engine refuses.
    """
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
    texts = dict.fromkeys(range(1, len(prompts) + 1), "")

    yield "step  blocks in use  blocks shared  tokens produced  running prompts"
    while engine.has_work:
        engine.close_batch()  # nobody else will come
        step = engine.schedule()
        num_used = num_blocks - engine.kv.num_free_blocks
        num_shared = engine.kv.num_shared_blocks
        running = " ".join(str(seq.request.request_id) for seq in engine.scheduler.running)
        outputs = engine.commit(step, engine.run(step))
        for output in outputs:
            texts[int(output.request_id)] += output.text
        yield f"{step.index:4}  {num_used:13}  {num_shared:13}  {len(outputs):15}  {running}"
    yield ""
    for number, prompt in enumerate(prompts, start=1):
        yield f"{number}: {printable(prompt)}  ->  {texts[number]}"
