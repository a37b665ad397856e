"""The paged forward pass against the dense one, and the model's own properties."""

import math

import numpy as np
import pytest

from engine.batch import StepBatch
from engine.config import ConfigError, EngineConfig
from engine.kv_pool import FloatArray, KVPool
from engine.request import GREEDY, Request, SamplingParams, TokenPrompt
from engine.runners import ToyLMRunner
from engine.sampling import sample
from engine.sequence import Sequence
from engine.step import Chunk, Step
from engine.tokenizer import EOS, VOCAB_SIZE
from engine.transformer import RotaryTable, Transformer, TransformerConfig, rotate

TOLERANCE = 3e-5  # float32, logits of standard deviation 2
NUM_BLOCKS = 256
MODEL = Transformer(TransformerConfig())


def random_tokens(length: int, rng: np.random.Generator) -> list[int]:
    return rng.integers(0, VOCAB_SIZE, length).tolist()


def sequences(
    lengths: list[int],
    block_size: int,
    rng: np.random.Generator,
    *,
    room: int = 0,
    sampling: SamplingParams = GREEDY,
) -> list[Sequence]:
    """Sequences of random prompts with blocks, in random order, for them and `room` tokens more."""
    free = rng.permutation(NUM_BLOCKS).tolist()
    made = []
    for request_id, length in enumerate(lengths):
        prompt = TokenPrompt(random_tokens(length, rng))
        seq = Sequence(Request(request_id, prompt, 32, sampling), block_size, 4096)
        num_blocks = math.ceil((length + room) / block_size)
        seq.block_table.block_ids = [free.pop() for _ in range(num_blocks)]
        made.append(seq)
    return made


def noisy_pool(model: Transformer, block_size: int, rng: np.random.Generator) -> KVPool:
    """A pool whose every slot holds what some earlier sequence may have left."""
    config = model.config
    pool = KVPool(
        num_layers=config.num_layers,
        num_blocks=NUM_BLOCKS,
        block_size=block_size,
        num_kv_heads=config.num_kv_heads,
        head_size=config.head_size,
    )
    pool.keys[:] = rng.standard_normal(pool.keys.shape)
    pool.values[:] = rng.standard_normal(pool.values.shape)
    return pool


def dense_logits(model: Transformer, seq: Sequence) -> FloatArray:
    return model.dense_forward(seq.token_ids(0, seq.num_tokens))


def assert_close(actual: FloatArray, expected: FloatArray) -> None:
    np.testing.assert_allclose(actual, expected, atol=TOLERANCE, rtol=0)


def random_steps(
    seqs: list[Sequence], sizes: list[int], rng: np.random.Generator
) -> list[list[Chunk]]:
    """Every sequence cut into chunks of random sizes, a random half of the sequences in a step."""
    steps = []
    starts = dict.fromkeys(seqs, 0)
    while starts:
        chunks = []
        for seq in rng.permutation(np.array(list(starts), object)):
            if rng.random() < 0.5:
                size = min(int(rng.choice(sizes)), seq.num_tokens - starts[seq])
                chunks.append(Chunk(seq, starts[seq], size, samples=True))
                starts[seq] += size
                if starts[seq] == seq.num_tokens:
                    del starts[seq]
        if chunks:
            steps.append(chunks)
    return steps


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("tied_embeddings", [True, False])
def test_paged_equals_dense(
    block_size: int, num_heads: int, num_kv_heads: int, tied_embeddings: bool
) -> None:
    """Random ragged steps of decodes and chunks; the last logits of every chunk are compared."""
    rng = np.random.default_rng([block_size, num_kv_heads, tied_embeddings])
    model = Transformer(
        TransformerConfig(
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            tied_embeddings=tied_embeddings,
            seed=block_size,
        )
    )
    pool = noisy_pool(model, block_size, rng)
    seqs = sequences([1, 7, 16, 17, 33, 48, 64], block_size, rng)
    expected = {seq: dense_logits(model, seq) for seq in seqs}

    for chunks in random_steps(seqs, [1, 1, 2, 5, 16], rng):
        logits = model.forward(StepBatch(chunks, block_size), pool)

        for row, chunk in zip(logits, chunks, strict=True):
            assert_close(row, expected[chunk.seq][chunk.start + chunk.num_tokens - 1])


@pytest.mark.parametrize("sizes", [[40], [1], [7, 7, 7, 7, 7, 5], [13, 1, 26]])
def test_prefill_in_chunks_equals_prefill_at_once(sizes: list[int]) -> None:
    rng = np.random.default_rng(0)
    (seq,) = sequences([40], 16, rng)
    pool = noisy_pool(MODEL, 16, rng)

    for chunks in random_steps([seq], sizes, rng):
        logits = MODEL.forward(StepBatch(chunks, 16), pool)

    assert_close(logits[0], dense_logits(MODEL, seq)[-1])


@pytest.mark.parametrize("reader_first", [False, True])
def test_a_sequence_reads_blocks_that_another_fills_in_the_same_step(reader_first: bool) -> None:
    """Two prompts share 32 tokens: the reader computes only what follows them."""
    rng = np.random.default_rng(1)
    common = random_tokens(32, rng)
    seqs = []
    for request_id, block_ids in enumerate([[9, 4, 7], [9, 4, 2]]):
        prompt = TokenPrompt(common + random_tokens(5, rng))
        seq = Sequence(Request(request_id, prompt, 8), 16, 4096)
        seq.block_table.block_ids = block_ids
        seqs.append(seq)
    chunks = [Chunk(seqs[0], 0, 37, samples=True), Chunk(seqs[1], 32, 5, samples=True)]
    if reader_first:
        chunks.reverse()

    logits = MODEL.forward(StepBatch(chunks, 16), noisy_pool(MODEL, 16, rng))

    for row, chunk in zip(logits, chunks, strict=True):
        assert_close(row, dense_logits(MODEL, chunk.seq)[-1])


def test_only_chunks_that_sample_get_logits() -> None:
    rng = np.random.default_rng(2)
    first, second, third = sequences([6, 20, 9], 4, rng)
    chunks = [
        Chunk(first, 0, 6, samples=True),
        Chunk(second, 0, 10, samples=False),
        Chunk(third, 0, 9, samples=True),
    ]

    logits = MODEL.forward(StepBatch(chunks, 4), noisy_pool(MODEL, 4, rng))

    assert_close(logits, np.stack([dense_logits(MODEL, seq)[-1] for seq in (first, third)]))
    nothing = MODEL.forward(StepBatch(chunks[1:2], 4), noisy_pool(MODEL, 4, rng))
    assert nothing.shape == (0, VOCAB_SIZE)


def test_odd_shapes_compute_too() -> None:
    """Heads that do not add up to d_model, three layers, positions past the first rope table."""
    rng = np.random.default_rng(3)
    config = TransformerConfig(num_layers=3, d_model=20, num_heads=3, num_kv_heads=3, head_size=10)
    model = Transformer(config)
    (seq,) = sequences([300], 16, rng)

    logits = model.forward(
        StepBatch([Chunk(seq, 0, 300, samples=True)], 16), noisy_pool(model, 16, rng)
    )

    assert_close(logits[0], dense_logits(model, seq)[-1])


def test_a_later_token_changes_no_earlier_logits() -> None:
    tokens = random_tokens(30, np.random.default_rng(4))
    changed = [*tokens[:20], (tokens[20] + 1) % VOCAB_SIZE, *tokens[21:]]

    before, after = MODEL.dense_forward(tokens), MODEL.dense_forward(changed)

    np.testing.assert_array_equal(before[:20], after[:20])
    assert (np.abs(before[20:] - after[20:]).max(axis=1) > 0.1).all()


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    rng = np.random.default_rng(5)
    q, k = rng.standard_normal((2, 1, 1, 16), np.float32)
    table = RotaryTable(16, 10000.0)

    def score(q_position: int, k_position: int) -> float:
        rotated_q = rotate(q, *table.at(np.array([q_position])))
        rotated_k = rotate(k, *table.at(np.array([k_position])))
        return float((rotated_q * rotated_k).sum())

    assert score(5, 2) == pytest.approx(score(103, 100), abs=1e-4)
    assert score(5, 2) == pytest.approx(score(3003, 3000), abs=1e-4)
    assert abs(score(5, 2) - score(2, 5)) > 0.1


def test_rotary_turns_pairs_half_a_head_apart() -> None:
    """Head size 4, theta 100: position 3 turns (x0, x2) by 3 rad and (x1, x3) by 0.3 rad."""
    x = np.array([[[1, 1, 0, 0]]], np.float32)

    rotated = rotate(x, *RotaryTable(4, 100.0).at(np.array([3])))

    expected = [math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3)]
    np.testing.assert_allclose(rotated[0, 0], expected, atol=1e-6)


def test_rotary_table_grows_without_changing() -> None:
    table = RotaryTable(8, 10000.0)
    before = table.at(np.arange(100))
    table.at(np.array([5000]))

    for old, new in zip(before, table.at(np.arange(100)), strict=True):
        np.testing.assert_array_equal(old, new)


def test_logits_are_spread_and_depend_on_the_context() -> None:
    """40 contexts that end in the same token lead to many different next tokens."""
    rng = np.random.default_rng(6)
    last = np.stack([MODEL.dense_forward([*random_tokens(150, rng), 65])[-1] for _ in range(40)])
    top = np.sort(last, axis=1)

    assert 1.5 < last.std() < 2.5
    assert np.median(top[:, -1] - top[:, -2]) > 0.3
    assert len(set(last.argmax(axis=1).tolist())) > 15


def test_the_seed_decides_the_weights() -> None:
    tokens = random_tokens(10, np.random.default_rng(7))

    again = Transformer(TransformerConfig()).dense_forward(tokens)
    other = Transformer(TransformerConfig(seed=1)).dense_forward(tokens)

    np.testing.assert_array_equal(again, MODEL.dense_forward(tokens))
    assert np.abs(other - again).max() > 1


def test_a_padded_vocabulary_has_no_logits_beyond_the_tokenizer() -> None:
    model = Transformer(TransformerConfig(vocab_size=320))

    assert model.dense_forward([1, 2, 3]).shape == (3, 257)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_layers": 0}, "num_layers: got 0, expected from 1 to 65536"),
        ({"num_heads": 0}, "num_heads: got 0, expected from 1 to 65536"),
        ({"num_kv_heads": 3}, "num_kv_heads: got 3, expected a divisor of num_heads (4)"),
        ({"head_size": 15}, "head_size: got 15, expected even, from 2 to 65536"),
        ({"d_ff": 0}, "d_ff: got 0, expected from 1 to 65536"),
        ({"vocab_size": 256}, "vocab_size: got 256, expected from 257 to 655360"),
        ({"rope_theta": 0.0}, "rope_theta: got 0.0, expected > 0"),
        ({"norm_eps": 0.0}, "norm_eps: got 0.0, expected > 0"),
        ({"seed": -1}, "seed: got -1, expected >= 0"),
    ],
)
def test_config_refuses_impossible_values(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        TransformerConfig(**settings)
    assert str(error.value) == message


def test_toy_lm_runner_continues_as_the_dense_model_would() -> None:
    """Greedy, three sequences in one batch, their prompts in chunks of at most 8 tokens."""
    rng = np.random.default_rng(8)
    runner = ToyLMRunner(MODEL, EngineConfig(block_size=4, num_blocks=NUM_BLOCKS))
    seqs = sequences([10, 25, 18], 4, rng, room=20, sampling=SamplingParams(ignore_eos=True))
    computed = dict.fromkeys(seqs, 0)

    while unfinished := [seq for seq in seqs if len(seq.output_token_ids) < 20]:
        step = Step(index=0)
        for seq in unfinished:
            step.add(seq, computed[seq], min(8, seq.num_tokens - computed[seq]))
            computed[seq] += step.chunks[-1].num_tokens
        sampled = [chunk.seq for chunk in step.chunks if chunk.samples]
        for seq, token in zip(sampled, runner.run(step), strict=True):
            seq.output_token_ids.append(token)
            seq.num_output_tokens += 1

    for seq in seqs:
        logits = dense_logits(MODEL, seq)[seq.num_prompt_tokens - 1 : -1, :EOS]
        assert seq.output_token_ids == logits.argmax(axis=1).tolist()


def test_toy_lm_runner_draws_by_seed_and_place_alone() -> None:
    """Sequences in one batch draw what `sample` draws from their dense logits, each by itself."""
    rng = np.random.default_rng(9)
    runner = ToyLMRunner(MODEL, EngineConfig(block_size=4, num_blocks=NUM_BLOCKS))
    sampling = SamplingParams(temperature=1, seed=3)
    seqs = sequences([10, 25, 18, 10], 4, rng, sampling=sampling)
    first, second = Step(index=0), Step(index=1)
    for seq in seqs:
        first.add(seq, 0, 8)
        second.add(seq, 8, seq.num_tokens - 8)

    assert runner.run(first) == []
    tokens = runner.run(second)

    assert tokens == [sample(dense_logits(MODEL, s)[-1], sampling, s.num_tokens) for s in seqs]


def test_toy_lm_runner_takes_an_empty_step() -> None:
    assert ToyLMRunner(MODEL, EngineConfig()).run(Step(index=0)) == []
