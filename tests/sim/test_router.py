"""Routers by hand: who gets a request, from replicas that say what they are told to."""

import itertools
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from engine import Request, TokenPrompt
from engine.kv_manager import KVUsage
from sim.router import LEADING_TOKENS, build_router
from workloads import SegmentPrompt

NOTHING = KVUsage(0, 0, 0, 0, 0, 0, 0)


@dataclass
class Told:
    """A replica with so many unfinished requests, slots held and prompt tokens cached."""

    num_unfinished: int = 0
    held: KVUsage = NOTHING
    cached: int = 0

    def look(self) -> SimpleNamespace:
        return SimpleNamespace(usage=lambda: self.held, num_cached_tokens=lambda _: self.cached)


def request(*segments: tuple[int, int]) -> Request:
    return Request(0, SegmentPrompt(segments or [(1, 100)], 99), 5)


def loads(*numbers: int) -> list[Told]:
    return [Told(number) for number in numbers]


def route(name: str, replicas: list[Told], asked: Request | None = None) -> int:
    return build_router(name, 1)(asked or request(), replicas)


def test_round_robin_goes_around_whatever_the_load():
    router = build_router("round-robin", 1)
    assert [router(request(), loads(9, 0, 0)) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_fewest_requests_and_of_equals_the_lowest_number():
    assert route("least-requests", loads(3, 1, 2)) == 1
    assert route("least-requests", loads(3, 2, 2)) == 1
    assert route("least-requests", loads(0, 0, 0)) == 0


def test_least_held_of_the_pool_counts_what_requests_hold_and_not_what_is_cached():
    held = [
        KVUsage(live=10, tail=2, reserved=4, over_reserved=1, cached=0, unusable=0, free=83),
        KVUsage(live=12, tail=1, reserved=2, over_reserved=1, cached=80, unusable=4, free=0),
        KVUsage(live=17, tail=0, reserved=0, over_reserved=0, cached=0, unusable=0, free=83),
    ]
    assert route("least-kv", [Told(held=usage) for usage in held]) == 1
    assert route("least-kv", [Told(2, held[0]), Told(3, held[2]), Told(1, held[0])]) == 2


def test_of_two_choices_the_less_loaded_is_taken():
    """Of the three pairs of 0, 5 and 9 requests two have the 0, none the 9 alone."""
    router = build_router("power-of-two", 1)
    taken = Counter(router(request(), loads(9, 0, 5)) for _ in range(3000))
    assert taken[0] == 0
    assert taken[1] == pytest.approx(2000, abs=4 * (3000 * 2 / 9) ** 0.5)


def test_two_choices_of_equals_are_as_good_as_random():
    router = build_router("power-of-two", 1)
    taken = Counter(router(request(), loads(1, 1, 1, 1)) for _ in range(4000))
    assert all(taken[i] == pytest.approx(1000, abs=4 * 750**0.5) for i in range(4))


def test_choices_are_those_of_the_seed():
    def choices(seed: int) -> list[int]:
        router = build_router("power-of-two", seed)
        return [router(request(), loads(1, 1, 1, 1)) for _ in range(50)]

    assert choices(1) == choices(1) != choices(2)


def test_prompts_that_begin_alike_meet_whatever_follows():
    alike = [request((7, LEADING_TOKENS), (i, 9)) for i in range(20)]
    assert len({route("prefix-hash", loads(9, *[0] * 15), asked) for asked in alike}) == 1


def test_prompts_that_differ_within_the_leading_tokens_are_spread():
    others = [request((7, LEADING_TOKENS - 1), (i, 9)) for i in range(400)]
    taken = Counter(route("prefix-hash", loads(0, 0, 0, 0), other) for other in others)
    assert all(taken[i] == pytest.approx(100, abs=4 * 75**0.5) for i in range(4))


def test_a_short_prompt_goes_by_all_its_tokens():
    taken = {route("prefix-hash", loads(*[0] * 16), request((1, n))) for n in range(1, 40)}
    assert len(taken) > 5


def test_hash_of_token_ids_is_that_of_their_text():
    """Of equal tokens, in whatever list; and of no others."""
    prompts = [TokenPrompt([1, 2, 3]), TokenPrompt([1, 2, 3]), TokenPrompt([1, 2, 4])]
    numbers = [route("prefix-hash", loads(*[0] * 1000), Request(0, p, 5)) for p in prompts]
    assert numbers[0] == numbers[1] != numbers[2]


def test_longest_match_and_of_equals_fewest_requests():
    assert route("prefix-match", [Told(0, cached=40), Told(9, cached=80), Told(0)]) == 1
    assert route("prefix-match", [Told(7, cached=80), Told(9, cached=80), Told(5, cached=80)]) == 2


@pytest.mark.parametrize(("cached", "number"), [(0, 1), (30, 1), (31, 0)])
def test_a_match_of_little_of_the_prompt_counts_as_none(cached, number):
    """Of 100 tokens, 30 and less."""
    assert route("prefix-match", [Told(5, cached=cached), Told(2)]) == number


@pytest.mark.parametrize(
    ("most", "fewest", "number"),
    [(64, 0, 0), (65, 0, 1), (194, 130, 0), (195, 130, 0), (196, 130, 1)],
)
def test_no_match_counts_while_loads_are_too_far_apart(most, fewest, number):
    """More than 64 apart and more than 1.5 times as many: 195 are just 1.5 times 130."""
    assert route("prefix-match", [Told(most, cached=90), Told(fewest)]) == number


def test_every_router_names_a_replica():
    asked = [request((i, 50)) for i in range(20)]
    names = ("round-robin", "least-requests", "power-of-two", "least-kv", "prefix-hash")
    for name, number in itertools.product((*names, "prefix-match"), (2, 3, 7)):
        router = build_router(name, 1)
        assert {router(a, loads(*[0] * number)) for a in asked} <= set(range(number))
