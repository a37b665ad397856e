"""Segments: tokens, and block keys that are equal exactly where the content is."""

import random
from collections.abc import Hashable

import pytest

from workloads import AnswerTokens, Segment, SegmentPrompt, WorkloadError, content_token_ids

BLOCK_SIZES = [1, 3, 4, 16]
Token = tuple[int, int]  # identity of a token: (content id, position in that content)
MASK = 2**64 - 1


def splitmix64(state: int) -> int:
    """Vigna's splitmix64.c, in plain integers: the mixing of one state."""
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def token_of(identity: Token) -> int:
    content_id, position = identity
    return splitmix64((splitmix64(content_id) + (position + 1) * 0x9E3779B97F4A7C15) & MASK) % 256


def identities(segments: list[Segment]) -> list[Token]:
    return [(content_id, k) for content_id, num_tokens in segments for k in range(num_tokens)]


def conversations(seed: int) -> list[tuple[list[Segment], int, int]]:
    """(segments, answer id, answer length) of requests that share, repeat and quote content.

    Few content ids and short lengths make collisions of every kind frequent: equal segments at
    other offsets, cut answers, one content twice in a row.
    """
    rnd = random.Random(seed)
    answers = [(100 + i, rnd.randint(1, 40)) for i in range(30)]
    requests: list[tuple[list[Segment], int, int]] = []
    for answer_id, answer_tokens in answers:
        if requests and rnd.random() < 0.6:  # the next turn quotes prompt and answer, maybe cut
            earlier, quoted_id, quoted_tokens = rnd.choice(requests)
            segments = [
                *earlier,
                (quoted_id, rnd.choice([quoted_tokens, max(1, quoted_tokens - 3)])),
            ]
        else:
            segments = []
        segments = segments + [
            (rnd.randint(0, 3), rnd.choice([1, 2, 4, 5, 16, 33])) for _ in range(rnd.randint(1, 4))
        ]
        requests.append((segments, answer_id, answer_tokens))
    return requests


def blocks_of(runs: list[tuple[Hashable, int, int]]) -> list[object]:
    """(key, index) of each block of runs."""
    return [(key, start + i) for key, start, num_blocks in runs for i in range(num_blocks)]


def all_blocks(request: tuple[list[Segment], int, int], block_size: int) -> list[object]:
    """(key, index) of every full block of prompt and answer."""
    segments, answer_id, answer_tokens = request
    prompt = SegmentPrompt(segments, answer_id)
    output = [token_of((answer_id, k)) for k in range(answer_tokens)]
    num_blocks = (len(prompt) + answer_tokens) // block_size
    return blocks_of(prompt.block_runs(block_size, 0, num_blocks, output))


def all_identities(request: tuple[list[Segment], int, int]) -> list[Token]:
    segments, answer_id, answer_tokens = request
    return identities([*segments, (answer_id, answer_tokens)])


def test_first_tokens_of_content_0_are_the_published_splitmix64_stream_of_seed_0() -> None:
    """Outputs e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f: their last bytes."""
    assert content_token_ids(0, 0, 3) == [0xAF, 0xF4, 0x4F]


@pytest.mark.parametrize("content_id", [0, 1, 77, 2**40, 2**63 - 1])
def test_content_tokens_equal_a_plain_integer_splitmix64(content_id: int) -> None:
    expected = [token_of((content_id, k)) for k in range(5, 300)]
    assert content_token_ids(content_id, 5, 300) == expected


def test_content_tokens_use_all_bytes() -> None:
    assert set(content_token_ids(3, 0, 5000)) == set(range(256))


@pytest.mark.parametrize("seed", range(5))
def test_prompt_tokens_are_those_of_its_segments_for_any_range(seed: int) -> None:
    rnd = random.Random(seed)
    for segments, answer_id, _ in conversations(seed):
        prompt = SegmentPrompt(segments, answer_id)
        expected = [token_of(identity) for identity in identities(segments)]
        start, stop = sorted(rnd.choices(range(len(expected) + 1), k=2))
        assert len(prompt) == len(expected)
        assert prompt.token_ids(start, stop) == expected[start:stop]


def test_runs_of_a_worked_example() -> None:
    """Blocks of 4 over segments of 9 and 11 tokens, then the answer (content 9), on a boundary."""
    prompt = SegmentPrompt([(7, 9), (8, 11)], answer_id=9)
    assert prompt.block_runs(4, 0, 7, [0] * 8) == [
        (((7, 0, 4),), 0, 2),
        (((7, 8, 1), (8, 0, 3)), 0, 3),
        (((9, 0, 4),), 0, 2),
    ]


def test_runs_are_cut_where_they_are_asked_for() -> None:
    """Blocks 1 to 3: the second of content 7, the one across and the first of two after it."""
    prompt = SegmentPrompt([(7, 9), (8, 11)], answer_id=9)
    assert prompt.block_runs(4, 1, 4, []) == [
        (((7, 0, 4),), 1, 1),
        (((7, 8, 1), (8, 0, 3)), 0, 2),
    ]
    assert prompt.block_runs(4, 4, 6, []) == [
        (((7, 8, 1), (8, 0, 3)), 2, 1),
        (((9, 0, 4),), 0, 1),
    ]
    assert prompt.block_runs(4, 4, 4, []) == []


def test_a_content_again_from_its_start_is_a_run_again() -> None:
    prompt = SegmentPrompt([(7, 8), (7, 8)], answer_id=9)
    assert prompt.block_runs(4, 0, 4, []) == [(((7, 0, 4),), 0, 2)] * 2


def test_a_block_across_several_short_segments_is_one_run() -> None:
    """Blocks of 4 over segments of 5, 1, 1 and 3 tokens: the second one lies across all four."""
    prompt = SegmentPrompt([(1, 5), (2, 1), (3, 1), (4, 3)], answer_id=9)
    assert prompt.block_runs(4, 0, 2, []) == [
        (((1, 0, 4),), 0, 1),
        (((1, 4, 1), (2, 0, 1), (3, 0, 1), (4, 0, 1)), 0, 1),
    ]


def test_runs_of_a_long_answer_cost_no_more_than_of_a_short_one() -> None:
    """A run for the segment and a run for the answer, however many blocks."""
    prompt = SegmentPrompt([(1, 4 * 10**9)], answer_id=9)
    assert prompt.block_runs(4, 0, 2 * 10**9, []) == [
        (((1, 0, 4),), 0, 10**9),
        (((9, 0, 4),), 0, 10**9),
    ]


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_keys_are_equal_exactly_where_token_identities_are(seed: int, block_size: int) -> None:
    """Over all requests: the blocks up to any one have equal keys where they have equal tokens."""
    keys_of: dict[tuple[Token, ...], tuple[object, ...]] = {}
    content_of: dict[tuple[object, ...], tuple[Token, ...]] = {}
    num_repeats = 0
    for request in conversations(seed):
        tokens = all_identities(request)
        blocks = all_blocks(request, block_size)
        for num_blocks in range(1, len(blocks) + 1):
            keys = tuple(blocks[:num_blocks])
            content = tuple(tokens[: num_blocks * block_size])
            num_repeats += content in keys_of
            assert keys_of.setdefault(content, keys) == keys
            assert content_of.setdefault(keys, content) == content
    assert num_repeats > 20, "the walk must meet shared blocks"


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_equal_key_chains_are_as_long_as_equal_token_chains(seed: int, block_size: int) -> None:
    """Every pair of requests: shared blocks by keys = shared full blocks by brute force."""
    requests = conversations(seed)
    keys = [all_blocks(request, block_size) for request in requests]
    tokens = [all_identities(request) for request in requests]
    for i in range(len(requests)):
        for j in range(i):
            shared_tokens = common_prefix(tokens[i], tokens[j])
            assert common_prefix(keys[i], keys[j]) == shared_tokens // block_size


def common_prefix(one: list[Token] | list[object], two: list[Token] | list[object]) -> int:
    pairs = list(zip(one, two, strict=False))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))


def test_a_later_prompt_that_quotes_an_answer_has_the_keys_of_the_answer() -> None:
    first = SegmentPrompt([(1, 5)], answer_id=50)
    second = SegmentPrompt([(1, 5), (50, 11), (2, 4)], answer_id=51)
    assert blocks_of(first.block_runs(4, 0, 4, [0] * 11)) == blocks_of(
        second.block_runs(4, 0, 4, [])
    )


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_blocks_do_not_depend_on_which_blocks_are_asked_for(seed: int, block_size: int) -> None:
    rnd = random.Random(seed)
    for request in conversations(seed):
        keys = all_blocks(request, block_size)
        prompt = SegmentPrompt(request[0], request[1])
        first, stop = sorted(rnd.choices(range(len(keys) + 1), k=2))
        runs = prompt.block_runs(block_size, first, stop, [])
        assert blocks_of(runs) == keys[first:stop]
        assert all(start == 0 for _, start, _ in runs[1:])
        assert all(num_blocks > 0 for _, _, num_blocks in runs)


@pytest.mark.parametrize("segments", [[], [(1, 0)], [(1, 4), (2, 0), (3, 1)]])
def test_empty_prompts_and_segments_are_refused(segments: list[Segment]) -> None:
    with pytest.raises(WorkloadError, match=r"segments: got .* expected at least one, none empty"):
        SegmentPrompt(segments, answer_id=9)


def test_answer_tokens_are_those_of_their_content() -> None:
    answer = AnswerTokens(12, 40)
    assert len(answer) == 40
    assert list(answer) == content_token_ids(12, 0, 40)


def test_answer_ends_where_it_ends() -> None:
    with pytest.raises(IndexError):
        AnswerTokens(12, 40)[40]
