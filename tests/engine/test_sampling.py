"""Sampling against hand-worked supports and the exact softmax; what the runners hand out."""

from collections import Counter

import numpy as np
import pytest

from engine.request import Request, SamplingParams, TokenPrompt
from engine.runners import ReplayRunner, ScriptedLengthRunner
from engine.sampling import sample
from engine.sequence import Sequence
from engine.step import Step
from engine.tokenizer import EOS, VOCAB_SIZE

LOGITS = np.log(np.array([0.1, 0.4, 0.05, 0.3, 0.15], np.float32))
NUM_DRAWS = 8000


def draw(params: SamplingParams, logits: np.ndarray = LOGITS) -> Counter[int]:
    """Draws at positions 0 to NUM_DRAWS - 1."""
    return Counter(sample(logits, params, index) for index in range(NUM_DRAWS))


def assert_distributed(counts: Counter[int], probabilities: dict[int, float]) -> None:
    """Each frequency within z = 4.5 standard errors (for 10 cells, fails once in 15,000 seeds)."""
    assert counts.keys() == probabilities.keys()
    for token, p in probabilities.items():
        standard_error = (p * (1 - p) / NUM_DRAWS) ** 0.5
        assert abs(counts[token] / NUM_DRAWS - p) <= 4.5 * standard_error


def test_greedy_takes_the_largest() -> None:
    assert sample(LOGITS, SamplingParams(), 0) == 1


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    assert sample(np.array([0, 2, 1, 2], np.float32), SamplingParams(), 0) == 1


def test_temperature_1_draws_from_the_softmax() -> None:
    expected = dict(enumerate([0.1, 0.4, 0.05, 0.3, 0.15]))

    assert_distributed(draw(SamplingParams(temperature=1, seed=1)), expected)


def test_temperature_half_squares_the_probabilities() -> None:
    squares = np.array([0.1, 0.4, 0.05, 0.3, 0.15]) ** 2
    expected = dict(enumerate((squares / squares.sum()).tolist()))

    assert_distributed(draw(SamplingParams(temperature=0.5, seed=2)), expected)


def test_top_k_keeps_the_k_largest() -> None:
    params = SamplingParams(temperature=1, top_k=2, seed=3)

    assert_distributed(draw(params), {1: 4 / 7, 3: 3 / 7})


def test_top_k_takes_low_ids_first_among_equals() -> None:
    """100 places for the 32 ones at 0, 8, 16, ... and 68 of the equal zeros."""
    logits = np.zeros(VOCAB_SIZE, np.float32)
    logits[:EOS:8] = 1

    kept = draw(SamplingParams(temperature=9, top_k=100, seed=4), logits)

    lowest_zeros = [token for token in range(EOS) if token % 8][:68]
    assert sorted(kept) == sorted([*range(0, EOS, 8), *lowest_zeros])


def test_top_k_beyond_the_vocabulary_keeps_all() -> None:
    assert len(draw(SamplingParams(temperature=1, top_k=99, seed=5))) == 5


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (0.01, {1: 1.0}),  # never empty
        (0.39, {1: 1.0}),
        (0.6, {1: 4 / 7, 3: 3 / 7}),  # 0.4 is short of 0.6: the token that reaches it stays
        (0.8, {1: 0.4 / 0.85, 3: 0.3 / 0.85, 4: 0.15 / 0.85}),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_p(top_p: float, kept: dict[int, float]) -> None:
    assert_distributed(draw(SamplingParams(temperature=1, top_p=top_p, seed=6)), kept)


def test_top_p_counts_the_mass_that_top_k_left() -> None:
    """Of {1: 4/7, 3: 3/7} the first alone reaches 0.55; of all five it would not."""
    params = SamplingParams(temperature=1, top_k=2, top_p=0.55, seed=7)

    assert draw(params).keys() == {1}


def test_ignore_eos_never_draws_it() -> None:
    logits = np.zeros(VOCAB_SIZE, np.float32)
    logits[[7, 9, EOS]] = 20, 20, 30

    assert sample(logits, SamplingParams(), 0) == EOS
    assert sample(logits, SamplingParams(ignore_eos=True), 0) == 7
    assert logits[EOS] == 30
    hot = SamplingParams(temperature=1, ignore_eos=True, seed=8)
    assert_distributed(draw(hot, logits), {7: 0.5, 9: 0.5})


def test_a_tiny_temperature_is_greedy() -> None:
    assert draw(SamplingParams(temperature=1e-300)).keys() == {1}


def test_equal_seed_and_position_draw_the_same() -> None:
    params = SamplingParams(temperature=1, seed=9)
    draws = [sample(LOGITS, params, index) for index in range(50)]

    assert draws == [sample(LOGITS, params, index) for index in range(50)]
    assert draws != [sample(LOGITS, params, index + 50) for index in range(50)]
    other = SamplingParams(temperature=1, seed=10)
    assert draws != [sample(LOGITS, other, index) for index in range(50)]
    assert draws[1:] != [sample(LOGITS, other, index) for index in range(49)]


def waiting_sequence(request_id: int, **settings: int) -> Sequence:
    return Sequence(Request(request_id, TokenPrompt([1, 2, 3]), 16, **settings), 4, 64)


def say(seq: Sequence, token_ids: list[int]) -> None:
    """Output tokens have come."""
    seq.output_token_ids += token_ids
    seq.num_output_tokens += len(token_ids)


def step_of(*chunks: tuple[Sequence, int, int]) -> Step:
    step = Step(index=0)
    for seq, start, num_tokens in chunks:
        step.add(seq, start, num_tokens)
    return step


def test_replay_hands_out_the_record_then_eos() -> None:
    seq = waiting_sequence(7)
    runner = ReplayRunner({7: [65, 66, 67]})

    for _ in range(3):
        say(seq, runner.run(step_of((seq, seq.num_tokens - 1, 1))))

    assert seq.output_token_ids == [65, 66, EOS]


def test_replay_ends_with_the_stop_token_of_the_request() -> None:
    seq = waiting_sequence(7, stop_token_id=-1)

    assert ReplayRunner({7: [65]}).run(step_of((seq, 0, 3))) == [-1]


def test_replay_answers_only_chunks_that_sample() -> None:
    """Request 0 is in the middle of its prompt; 2 resumes after a preemption, its output kept."""
    first, second, resumed = (waiting_sequence(request_id) for request_id in range(3))
    say(resumed, [30, 31])
    runner = ReplayRunner({0: [10, 11], 1: [20, 21], 2: [30, 31, 32, 33]})

    step = step_of((first, 0, 2), (resumed, 0, 5), (second, 2, 1))

    assert runner.run(step) == [32, 20]
    assert runner.run(step_of()) == []


def test_scripted_length_ends_where_it_is_told() -> None:
    """The inner runner would go on for ever; the outer one makes the second token the last."""
    seq, other = waiting_sequence(0), waiting_sequence(1)
    inner = ReplayRunner({0: [65] * 99, 1: [66] * 99})
    runner = ScriptedLengthRunner(inner, {0: 2, 1: 1})

    step = step_of((other, 0, 2), (seq, 0, 3))
    assert runner.run(step) == [65]
    say(seq, [65])
    assert runner.run(step_of((seq, 3, 1), (other, 2, 1))) == [EOS, EOS]
