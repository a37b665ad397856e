"""The whole engine with the toy transformer: whatever the cache does, the tokens stay the same."""

import numpy as np
import pytest

from engine import (
    Engine,
    EngineConfig,
    Request,
    SamplingParams,
    TokenPrompt,
    ToyLMRunner,
    Transformer,
    TransformerConfig,
)

MODEL = Transformer(TransformerConfig())
SAMPLING = SamplingParams(ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.8, top_k=40, top_p=0.9, seed=5, ignore_eos=True)


def prompts(seed: int) -> list[list[int]]:
    """Twelve prompts in three groups that share a beginning."""
    rng = np.random.default_rng(seed)
    heads = [rng.integers(256, size=size).tolist() for size in (9, 17, 40)]
    return [heads[i % 3] + rng.integers(256, size=3 + i).tolist() for i in range(12)]


class Served:
    """What came out of an engine, and what it took."""

    def __init__(self, seed: int, sampling: SamplingParams = SAMPLING, **settings: object) -> None:
        small: dict[str, object] = {"block_size": 4, "num_blocks": 400, "max_model_len": 128}
        config = EngineConfig(**(small | settings))
        engine = Engine(config, ToyLMRunner(MODEL, config))
        seqs = [
            engine.add_request(Request(i, TokenPrompt(prompt), 10 + 2 * i, sampling))
            for i, prompt in enumerate(prompts(seed))
        ]
        self.most_blocks_used = 0
        while engine.has_work:
            engine.step()
            engine.check()
            used = config.num_blocks - engine.kv.num_free_blocks
            self.most_blocks_used = max(self.most_blocks_used, used)
        self.tokens = [seq.output_token_ids for seq in seqs]
        self.num_preemptions = sum(seq.num_preemptions for seq in seqs)
        self.num_cached_tokens = sum(seq.num_cached_tokens or 0 for seq in seqs)


def dense_greedy(prompt: list[int], num_tokens: int) -> list[int]:
    """The oracle: a full dense forward for every token."""
    tokens = list(prompt)
    for _ in range(num_tokens):
        logits = MODEL.dense_forward(tokens)[-1]
        tokens.append(int(logits[:256].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_the_engine_says_what_the_dense_model_says(block_size: int) -> None:
    served = Served(1, block_size=block_size, enable_prefix_caching=True)
    expected = [dense_greedy(prompt, 10 + 2 * i) for i, prompt in enumerate(prompts(1))]
    assert served.tokens == expected


@pytest.mark.parametrize("sampling", [SAMPLING, SAMPLED], ids=["greedy", "sampled"])
def test_prefix_sharing_takes_fewer_blocks_for_the_same_tokens(sampling: SamplingParams) -> None:
    alone = Served(2, sampling)
    shared = Served(2, sampling, enable_prefix_caching=True)
    assert shared.tokens == alone.tokens
    assert shared.num_cached_tokens > 0
    assert shared.most_blocks_used < alone.most_blocks_used


@pytest.mark.parametrize("enable_prefix_caching", [False, True])
@pytest.mark.parametrize("sampling", [SAMPLING, SAMPLED], ids=["greedy", "sampled"])
def test_preempted_and_resumed_the_same_tokens_come_out(
    sampling: SamplingParams, enable_prefix_caching: bool
) -> None:
    roomy = Served(3, sampling)
    tight = Served(3, sampling, num_blocks=32, enable_prefix_caching=enable_prefix_caching)
    assert tight.num_preemptions > 0
    assert tight.tokens == roomy.tokens


@pytest.mark.parametrize("max_num_batched_tokens", [1, 7, 64])
def test_prefill_in_chunks_gives_the_same_tokens(max_num_batched_tokens: int) -> None:
    chunked = Served(4, max_num_batched_tokens=max_num_batched_tokens)
    assert chunked.tokens == Served(4).tokens


@pytest.mark.parametrize("enable_prefix_caching", [False, True])
def test_static_batching_gives_the_same_tokens(enable_prefix_caching: bool) -> None:
    static = Served(5, batching="static", batch_size=5, enable_prefix_caching=enable_prefix_caching)
    assert static.tokens == Served(5).tokens
