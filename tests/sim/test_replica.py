"""Walks of a few requests through a replica; every stamp of the log is worked by hand.

A step takes 10 ms unless a test says otherwise. Logs are in milliseconds.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import simpy

from engine import Engine, EngineConfig, ReplayRunner, Request, TokenPrompt
from sim.latency.linear import LinearLatency
from sim.metrics import summarise
from sim.recorder import Recorder
from sim.records import Distribution, Records
from sim.replica import Replica
from workloads import ClosedLoop

MS = 1_000_000
STAMPS = ["arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"]


def stamps(records: Records) -> list[tuple[float, ...]]:
    """(arrived, admitted, first token, last token) of each request."""
    return [
        tuple(time / MS for time in row) for row in records.requests[STAMPS].itertuples(index=False)
    ]


def steps(records: Records) -> list[tuple[float, ...]]:
    """(start, duration, decodes, prefill tokens, running, waiting) of each step."""
    columns = ["start_ns", "duration_ns", "decodes", "prefill_tokens", "running", "waiting"]
    return [
        (start / MS, duration / MS, *counts)
        for start, duration, *counts in records.steps[columns].itertuples(index=False)
    ]


def counted(distribution: Distribution) -> dict[int, int]:
    """value: how often it came."""
    values, counts = distribution
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def test_request_alone(new_workload, serve):
    """4 prompt tokens in one step, which yields the first of 3 tokens; then a step for each."""
    records = serve(new_workload((4, 3), arrival_ms=[0]))
    assert stamps(records) == [(0, 0, 10, 30)]
    assert steps(records) == [(0, 10, 0, 4, 1, 0), (10, 10, 1, 0, 1, 0), (20, 10, 1, 0, 1, 0)]


def test_time_before_the_first_request_is_an_idle_row(new_workload, serve):
    records = serve(new_workload((4, 1), arrival_ms=[7]))
    assert stamps(records) == [(7, 7, 17, 17)]
    assert steps(records) == [(0, 7, 0, 0, 0, 0), (7, 10, 0, 4, 1, 0)]


def test_waking_up_takes_a_while_before_the_step(new_workload, serve):
    """3 ms for those that find the engine idle, at 0 and 40, not for the one that comes at 5."""
    latency = LinearLatency(step_s=0.01, wake_s=0.003)
    workload = new_workload((4, 1), (4, 1), (4, 1), arrival_ms=[0, 5, 40])
    records = serve(workload, latency=latency)
    assert stamps(records) == [(0, 3, 13, 13), (5, 13, 23, 23), (40, 43, 53, 53)]


def test_arrival_in_mid_step_waits_for_its_end(new_workload, serve):
    """The second comes at 15, in the step from 10 to 20, and joins the next one."""
    records = serve(new_workload((4, 3), (4, 2), arrival_ms=[0, 15]))
    assert stamps(records) == [(0, 0, 10, 30), (15, 20, 30, 40)]
    assert steps(records) == [
        (0, 10, 0, 4, 1, 0),
        (10, 10, 1, 0, 1, 0),
        (20, 10, 1, 4, 2, 0),
        (30, 10, 1, 0, 1, 0),
    ]


def test_arrival_at_the_end_of_a_step_takes_part_in_the_next(new_workload, serve):
    records = serve(new_workload((4, 3), (4, 2), arrival_ms=[0, 20]))
    assert stamps(records) == [(0, 0, 10, 30), (20, 20, 30, 40)]


def test_arrival_at_the_end_of_the_last_step_does_not_wait(new_workload, serve):
    """The first ends at 10, the second comes at 10: no idle time between them."""
    records = serve(new_workload((4, 1), (4, 1), arrival_ms=[0, 10]))
    assert stamps(records) == [(0, 0, 10, 10), (10, 10, 20, 20)]
    assert steps(records) == [(0, 10, 0, 4, 1, 0), (10, 10, 0, 4, 1, 0)]


def test_arrivals_at_one_instant_share_the_step(new_workload, serve):
    records = serve(new_workload((4, 1), (8, 1), (2, 1), arrival_ms=[5, 5, 5]))
    assert stamps(records) == [(5, 5, 15, 15)] * 3
    assert steps(records) == [(0, 5, 0, 0, 0, 0), (5, 10, 0, 14, 3, 0)]


def test_idle_spell_between_two_requests(new_workload, serve):
    records = serve(new_workload((4, 2), (4, 1), arrival_ms=[0, 50]))
    assert stamps(records) == [(0, 0, 10, 20), (50, 50, 60, 60)]
    assert steps(records)[2] == (20, 30, 0, 0, 0, 0)


def test_one_place_is_filled_in_the_order_of_arrival(new_workload, serve):
    """With max_num_seqs 1 each starts where the one before it ends."""
    records = serve(new_workload((4, 2), (4, 1), (4, 1), arrival_ms=[0, 1, 2]), max_num_seqs=1)
    assert stamps(records) == [(0, 0, 10, 20), (1, 20, 30, 30), (2, 30, 40, 40)]
    assert steps(records) == [
        (0, 10, 0, 4, 1, 0),
        (10, 10, 1, 0, 1, 2),
        (20, 10, 0, 4, 1, 1),
        (30, 10, 0, 4, 1, 0),
    ]


def test_long_prompt_takes_several_steps(new_workload, serve):
    """10 tokens at 4 a step: 4, 4 and 2; the third step yields the first token."""
    records = serve(new_workload((10, 2), arrival_ms=[0]), max_num_batched_tokens=4)
    assert stamps(records) == [(0, 0, 30, 40)]
    assert [row[2:4] for row in steps(records)] == [(0, 4), (0, 4), (0, 2), (1, 0)]


def test_duration_is_that_of_the_shape_of_the_step(new_workload, serve):
    """1 ms, 1 ms a prefill token, 2 ms a decode, 0.5 ms a token of its context.

    Prefill of 4: 5 ms. Then the token at position 4 sees 5 tokens: 1 + 2 + 2.5 = 5.5 ms, until
    10.5. The second came at 6: 1 + 2 + 3 (context 6) + 3 (its prompt) = 9 ms.
    """
    latency = LinearLatency(
        step_s=0.001, per_prefill_token_s=0.001, per_decode_s=0.002, per_context_token_s=0.0005
    )
    records = serve(new_workload((4, 3), (3, 1), arrival_ms=[0, 6]), latency=latency)
    assert stamps(records) == [(0, 0, 5, 19.5), (6, 10.5, 19.5, 19.5)]
    assert [row[:2] for row in steps(records)] == [(0, 5), (5, 5.5), (10.5, 9)]


def test_preempted_request_is_computed_again(new_workload, serve):
    """Three blocks of 4 slots for two sequences that need two blocks each from their 5th token on.

    Both take a block at 0. At 10 the first takes the third block, the second finds none and is
    preempted; it comes back when the first ends at 50, computes its 4 + 1 known tokens at once,
    which yields its second token, and ends three steps later.
    """
    records = serve(new_workload((4, 5), (4, 5), arrival_ms=[0, 0]), num_blocks=3)
    assert stamps(records) == [(0, 0, 10, 50), (0, 0, 10, 90)]
    assert records.requests["preemptions"].tolist() == [0, 1]
    assert records.requests["recomputed_tokens"].tolist() == [0, 4]  # the fifth is computed first
    assert steps(records) == [
        (0, 10, 0, 8, 2, 0),
        (10, 10, 1, 0, 1, 1),
        (20, 10, 1, 0, 1, 1),
        (30, 10, 1, 0, 1, 1),
        (40, 10, 1, 0, 1, 1),
        (50, 10, 0, 5, 1, 0),
        (60, 10, 1, 0, 1, 0),
        (70, 10, 1, 0, 1, 0),
        (80, 10, 1, 0, 1, 0),
    ]
    assert records.steps["preempted"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert counted(records.itl_ns) == {10 * MS: 7, 50 * MS: 1}


def lookups(records: Records) -> list[list[int]]:
    """Of each request the tokens (queried, cached, partial, unseen, evicted)."""
    names = ["queried", "cached", "partial", "unseen", "evicted"]
    return records.requests[[f"{name}_tokens" for name in names]].to_numpy().tolist()


def test_shared_prefix_is_not_computed_again(new_workload, serve):
    """9 equal tokens make two full blocks of 4; the second request computes the 9th alone."""
    workload = new_workload((9, 1), (9, 1), arrival_ms=[0, 30], content_ids=[7, 7])
    records = serve(workload, enable_prefix_caching=True)
    assert lookups(records) == [[9, 0, 1, 8, 0], [9, 8, 1, 0, 0]]
    assert [row[3] for row in steps(records)] == [9, 0, 1]


def test_without_prefix_caching_nothing_is_asked_for(new_workload, serve):
    records = serve(new_workload((9, 1), (9, 1), arrival_ms=[0, 30], content_ids=[7, 7]))
    assert lookups(records) == [[0] * 5] * 2


def test_idle_pool_keeps_what_is_cached(new_workload, serve):
    """Two full blocks of 4 slots, from the end of the first request at 10 to the second at 30."""
    workload = new_workload((9, 1), (4, 1), arrival_ms=[0, 30])
    records = serve(workload, enable_prefix_caching=True)
    assert steps(records)[1] == (10, 20, 0, 0, 0, 0)
    assert records.steps["cached"].tolist()[:2] == [0, 8]
    assert records.slot_ns.cached == 8 * 20 * MS + 8 * 10 * MS


def test_prefix_that_was_evicted_is_missed_for_that_reason(new_workload, serve):
    """Three blocks: the second request, at 30, takes those that the first has left.

    The third, at 70, misses both full blocks of the first, 40 ms after they went.
    """
    workload = new_workload((9, 1), (9, 1), (9, 1), arrival_ms=[0, 30, 70], content_ids=[7, 8, 7])
    records = serve(workload, enable_prefix_caching=True, num_blocks=3)
    assert lookups(records)[2] == [9, 0, 1, 0, 8]
    assert counted(records.evicted_for_ns) == {40 * MS: 2}


def test_refused_request_gets_a_reason_and_delays_nobody(new_workload, serve):
    """70 tokens are more than max_model_len 64."""
    records = serve(new_workload((4, 2), (70, 1), (4, 2), arrival_ms=[0, 1, 2]))
    assert stamps(records)[::2] == [(0, 0, 10, 20), (2, 10, 20, 30)]
    refused = records.requests.loc[1]
    assert refused["arrival_ns"] == MS
    assert refused[["admitted_ns", "first_token_ns", "finished_ns"]].isna().all()
    assert records.requests["finish_reason"].tolist() == ["stop", "refused", "stop"]
    assert "70" in (records.first_refusal or "")
    assert "64" in (records.first_refusal or "")


def test_first_refusal_is_the_one_explained(new_workload, serve):
    records = serve(new_workload((4, 1), (70, 1), (99, 1), arrival_ms=[0, 1, 2]))
    assert "request 1" in (records.first_refusal or "")
    assert "70" in (records.first_refusal or "")


def test_without_refusals_there_is_nothing_to_explain(new_workload, serve):
    assert serve(new_workload((4, 1), arrival_ms=[0])).first_refusal is None


def users(concurrency: int, think_ms: float = 0) -> ClosedLoop:
    return ClosedLoop(concurrency, think_ms / 1000)


def test_user_sends_the_next_request_at_the_answer(new_workload, serve):
    workload = new_workload((4, 2), (4, 1), (4, 2), closed_loop=users(1))
    assert stamps(serve(workload)) == [(0, 0, 10, 20), (20, 20, 30, 30), (30, 30, 40, 50)]


def test_user_waits_for_the_last_of_several_outputs(new_workload, serve):
    """Three outputs, two tokens a step: all have a token at 10, the first two end at 30."""
    workload = new_workload((2, 3), (2, 3), closed_loop=users(1), num_outputs=3)
    records = serve(workload, max_num_batched_tokens=2)
    assert stamps(records) == [(0, 0, 10, 50), (50, 50, 60, 100)]


def test_user_thinks_between_answer_and_request(new_workload, serve):
    records = serve(new_workload((4, 2), (4, 1), closed_loop=users(1, think_ms=5)))
    assert stamps(records) == [(0, 0, 10, 20), (25, 25, 35, 35)]
    assert steps(records)[2] == (20, 5, 0, 0, 0, 0)


def test_thought_that_ends_with_a_step_is_in_the_next(new_workload, serve):
    """Two users; one thinks from 10 to 20, while the other's second step runs."""
    workload = new_workload((4, 1), (4, 3), (4, 1), closed_loop=users(2, think_ms=10))
    assert stamps(serve(workload)) == [(0, 0, 10, 10), (0, 0, 10, 30), (20, 20, 30, 30)]


def test_users_share_one_list_of_requests(new_workload, serve):
    """Whoever is free first takes the next: 2 at 10 for user 1, 3 at 20, 4 at 30."""
    workload = new_workload((4, 3), (4, 1), (4, 1), (4, 2), (4, 1), closed_loop=users(2))
    assert stamps(serve(workload)) == [
        (0, 0, 10, 30),
        (0, 0, 10, 10),
        (10, 10, 20, 20),
        (20, 20, 30, 40),
        (30, 30, 40, 40),
    ]


def test_more_users_than_requests(new_workload, serve):
    records = serve(new_workload((4, 1), (4, 2), closed_loop=users(9)))
    assert stamps(records) == [(0, 0, 10, 10), (0, 0, 10, 20)]


def test_user_whose_request_is_refused_goes_on(new_workload, serve):
    """At once without, and after thinking with think time."""
    requests = [(70, 1), (4, 1)]
    at_once = serve(new_workload(*requests, closed_loop=users(1)))
    assert stamps(at_once)[1] == (0, 0, 10, 10)
    thinking = serve(new_workload(*requests, closed_loop=users(1, think_ms=5)))
    assert stamps(thinking)[1] == (5, 5, 15, 15)


STATIC = {"batching": "static", "batch_size": 2, "max_wait_s": 0.05}


def test_static_batch_waits_for_company_in_vain(new_workload, serve):
    """Alone since 3, it starts at 3 + 50."""
    records = serve(new_workload((4, 2), arrival_ms=[3]), **STATIC)
    assert stamps(records) == [(3, 53, 63, 73)]
    assert steps(records)[0] == (0, 53, 0, 0, 0, 0)


def test_full_static_batch_starts_at_once(new_workload, serve):
    records = serve(new_workload((4, 2), (4, 2), arrival_ms=[0, 30]), **STATIC)
    assert stamps(records) == [(0, 30, 40, 50), (30, 30, 40, 50)]


def test_company_that_does_not_fill_the_batch_does_not_renew_the_wait(new_workload, serve):
    """The wait is that of the oldest: until 50, though a second came at 40."""
    records = serve(new_workload((4, 1), (4, 1), arrival_ms=[0, 40]), **STATIC | {"batch_size": 3})
    assert stamps(records) == [(0, 50, 60, 60), (40, 50, 60, 60)]


def test_company_at_the_very_end_of_the_wait_comes_along(new_workload, serve):
    records = serve(new_workload((4, 1), (4, 1), arrival_ms=[0, 50]), **STATIC | {"batch_size": 3})
    assert stamps(records) == [(0, 50, 60, 60), (50, 50, 60, 60)]


def test_static_batch_runs_to_its_longest_members_end(new_workload, serve):
    """A pair runs from 0 to 30. The third, there since 5, may wait to 55; the fourth comes at 45.

    The fifth, alone since 46, has waited its 50 ms at 96.
    """
    workload = new_workload((4, 1), (4, 3), (4, 1), (4, 2), (4, 1), arrival_ms=[0, 0, 5, 45, 46])
    assert stamps(serve(workload, **STATIC)) == [
        (0, 0, 10, 10),
        (0, 0, 10, 30),
        (5, 45, 55, 55),
        (45, 45, 55, 65),
        (46, 96, 106, 106),
    ]


def test_request_that_has_waited_long_enough_starts_as_the_batch_ends(new_workload, serve):
    """The pair runs from 0 to 80; the third, there since 5, has waited out its 50 ms by then."""
    records = serve(new_workload((4, 8), (4, 1), (4, 1), arrival_ms=[0, 0, 5]), **STATIC)
    assert stamps(records)[2] == (5, 80, 90, 90)


def test_who_waits_for_company_is_in_the_queue_of_the_idle_row(new_workload, serve):
    """The third comes at 5, while the pair runs to 30, and may wait to 55."""
    records = serve(new_workload((4, 3), (4, 1), (4, 1), arrival_ms=[0, 0, 5]), **STATIC)
    assert steps(records)[3] == (30, 25, 0, 0, 0, 1)


def test_static_batch_without_patience_starts_with_who_is_there(new_workload, serve):
    workload = new_workload((4, 2), (4, 1), arrival_ms=[1, 2])
    records = serve(workload, **STATIC | {"max_wait_s": 0})
    assert stamps(records) == [(1, 1, 11, 21), (2, 21, 31, 31)]


def test_static_row_that_has_ended_keeps_its_memory(new_workload, serve):
    """Two rows of 4 + 5 - 1 = 8 slots, two blocks each; the first row ends after its first token.

    Its two blocks are held for nothing from 10 to 30. The other row fills its first block at 0,
    has one slot of its second filled at 10, two at 20.
    """
    workload = new_workload((4, 1), (4, 3), arrival_ms=[0, 0])
    records = serve(workload, **STATIC | {"num_blocks": 4})
    classes = ["live", "tail", "reserved", "over_reserved", "free"]
    assert records.steps[classes].to_numpy().tolist() == [
        [8, 0, 4, 0, 4],
        [5, 3, 0, 4, 4],
        [6, 2, 0, 4, 4],
    ]


def test_asynchronous_step_is_scheduled_as_the_one_before_it_starts(new_workload, serve):
    """Who comes at 15, in the step from 10 to 20, misses the one that starts at 20.

    The step of its prompt is scheduled at 20, as soon as it can be, and runs from 30 to 40.
    """
    workload = new_workload((4, 3), (4, 2), arrival_ms=[0, 15])
    records = serve(workload, async_scheduling=True)
    assert stamps(records) == [(0, 0, 10, 30), (15, 20, 40, 50)]
    assert steps(records) == [
        (0, 10, 0, 4, 1, 0),
        (10, 10, 1, 0, 1, 0),
        (20, 10, 1, 0, 1, 1),
        (30, 10, 0, 4, 1, 0),
        (40, 10, 1, 0, 1, 0),
    ]


def test_asynchronous_step_after_an_unforeseen_end_is_in_vain(new_workload, serve):
    """The third token, at 30, is the last; the step for a fourth has been scheduled at 20.

    The next request, sent at the answer, is in the step after that.
    """
    workload = new_workload((4, 3), (4, 1), closed_loop=users(1), max_new_tokens=9)
    records = serve(workload, async_scheduling=True)
    assert stamps(records) == [(0, 0, 10, 30), (30, 30, 50, 50)]
    assert [row[:4] for row in steps(records)] == [
        (0, 10, 0, 4),
        (10, 10, 1, 0),
        (20, 10, 1, 0),
        (30, 10, 1, 0),
        (40, 10, 0, 4),
        (50, 10, 1, 0),
    ]
    assert records.requests["output_tokens"].tolist() == [3, 1]


@pytest.fixture
def worked_example(new_workload, serve):
    """Three requests in one place: (arrived, admitted, first, last) in ms and tokens.

    (0, 0, 10, 30) of 3 tokens; (15, 30, 40, 40) of 1; (70, 70, 80, 90) of 2.
    """
    workload = new_workload((4, 3), (4, 1), (4, 2), arrival_ms=[0, 15, 70])
    return summarise(serve(workload, max_num_seqs=1))


def seconds(summary, name):
    return [summary[f"{name}_{part}_s"] for part in ("mean", "p50", "p90", "p99")]


def test_latency_metrics_of_a_run_by_hand(worked_example):
    """TTFT 10, 25, 10; E2E 30, 25, 20; queueing 0, 15, 0; TPOT (30 - 10) / 2 and (90 - 80) / 1."""
    assert seconds(worked_example, "ttft") == pytest.approx([0.015, 0.010, 0.025, 0.025])
    assert seconds(worked_example, "e2e") == pytest.approx([0.025, 0.025, 0.030, 0.030])
    assert seconds(worked_example, "queueing") == pytest.approx([0.005, 0, 0.015, 0.015])
    assert seconds(worked_example, "tpot") == pytest.approx([0.010] * 4)
    assert seconds(worked_example, "itl") == pytest.approx([0.010] * 4)


def test_throughput_of_a_run_by_hand(worked_example):
    """6 tokens and 3 requests in 90 ms, 30 of them idle: 6 steps."""
    assert worked_example["span_s"] == 0.09
    assert worked_example["output_tokens_per_s"] == pytest.approx(6 / 0.09)
    assert worked_example["requests_per_s"] == pytest.approx(3 / 0.09)
    assert worked_example["steps"] == 6


def test_prefix_cache_gives_back_what_a_preemption_took(new_workload, serve):
    """As above with sharing: the full block of its prompt is cached until it comes back at 50.

    So its fifth token is a decode, and none of the first four is computed again.
    """
    records = serve(
        new_workload((4, 5), (4, 5), arrival_ms=[0, 0]), num_blocks=3, enable_prefix_caching=True
    )
    assert stamps(records) == [(0, 0, 10, 50), (0, 0, 10, 90)]
    assert records.requests["recomputed_tokens"].tolist() == [0, 0]
    assert records.requests["restored_tokens"].tolist() == [0, 4]
    assert steps(records)[5] == (50, 10, 1, 0, 1, 0)


def test_preemption_in_the_midst_of_a_prompt_takes_what_was_computed_of_it(new_workload, serve):
    """Four blocks of 4, 8 tokens a step. The first, of 7 + 6 tokens, takes two blocks at 0, and a
    third at 20, for its ninth.

    The second, of 12, has 1 token of the first step and 7 of the second, which fill two blocks. At
    20 the first finds none: the second gives its 8 up. At 60 the first has ended, and 8 are
    computed again, then the other 4.
    """
    workload = new_workload((7, 6), (12, 1), arrival_ms=[0, 0])
    records = serve(workload, num_blocks=4, max_num_batched_tokens=8, reserve_full_isl=False)
    assert stamps(records) == [(0, 0, 10, 60), (0, 0, 80, 80)]
    assert records.requests["preemptions"].tolist() == [0, 1]
    assert records.requests["recomputed_tokens"].tolist() == [0, 8]
    assert [row[2:4] for row in steps(records)][6:] == [(0, 8), (0, 4)]


def test_slots_that_sharing_saves_by_hand(new_workload, serve):
    """Two equal prompts of 8 at once share their first block of 4; the last one must be computed.

    They hold 3 blocks instead of 4 at first, and 5 instead of 6 when the ninth token of each is
    there: 4 slots of 16, then of 24.
    """
    workload = new_workload((8, 2), (8, 2), arrival_ms=[0, 0], content_ids=[1, 1])
    records = serve(workload, enable_prefix_caching=True)
    assert stamps(records) == [(0, 0, 10, 20)] * 2
    assert records.steps["saved"].tolist() == [4, 4]
    assert records.saved_slot_ns == 4 * 20 * MS
    summary = summarise(records)
    assert summary["saved_slots_mean"] == 4
    assert summary["saved_share"] == (4 + 4) / (16 + 24)


def test_memory_metrics_of_a_run_by_hand(worked_example):
    """Of 256 slots: 4 live at a prompt; then a second block of 4 of which 1, then 2 are filled.

    Live: 4 + 5 + 6 (first), 4 (second), 4 + 5 (third) slots for 10 ms each, of 90 ms.
    Held: 4 + 8 + 8, 4, 4 + 8.
    """
    assert worked_example["live_share"] == pytest.approx(28 * 10 / (256 * 90))
    assert worked_example["block_utilisation"] == pytest.approx(36 * 10 / (256 * 90))
    assert worked_example["internal_fragmentation"] == pytest.approx(8 / 36)
    assert worked_example["free_share"] == pytest.approx(1 - 36 * 10 / (256 * 90))


def test_step_in_which_the_only_chunk_made_room_for_itself_is_followed_at_once():
    """Four blocks of 2. At 3 ms the worse request must go; the better one needs no company."""
    config = EngineConfig(
        block_size=2, num_blocks=4, max_model_len=16, policy="priority", max_wait_s=9.0
    )
    engine = Engine(config, ReplayRunner({0: [1] * 6, 1: [1] * 6}), with_text=False)
    recorder = Recorder(2, config.block_size, lambda _: None, num_outputs=1)
    env = simpy.Environment()
    replica = Replica(env, engine, LinearLatency(step_s=0.001), recorder)

    def clients() -> Iterator[simpy.Event]:
        replica.submit(Request(0, TokenPrompt([1, 2]), 6, priority=5))
        yield env.timeout(MS // 2)
        replica.submit(Request(1, TokenPrompt([1, 2, 3]), 6, priority=1))

    env.process(clients())
    env.run()
    records = recorder.records(np.array([2, 3]), ())
    assert records.requests["preemptions"].tolist() == [1, 0]
    assert records.requests["finished_ns"].max() < 30 * MS


@pytest.mark.parametrize(("async_scheduling", "first_token_ms"), [(False, 20), (True, 30)])
def test_asynchronous_scheduling_costs_an_arrival_one_step(
    new_workload, serve, async_scheduling, first_token_ms
):
    """It comes at 5, in the step of 0 to 10. What runs from 10 on was decided at 0 if async."""
    workload = new_workload((4, 6), (4, 2), arrival_ms=[0, 5])
    records = serve(workload, async_scheduling=async_scheduling)
    assert stamps(records)[0][2] == 10
    assert stamps(records)[1][2] == first_token_ms


def test_a_request_ends_with_the_last_of_its_outputs(new_workload, serve):
    """A prompt of 6 and two outputs of 3, with room for 2 blocks of 4 and one more.

    The outputs get their first token together after 10 ms; the second block is copied then, and
    nobody is in the way of anybody: the last come after 30 ms, and each of the four gaps is 10 ms.
    """
    workload = new_workload((6, 3), arrival_ms=[0], num_outputs=2)
    records = serve(workload, num_blocks=3)
    [request] = records.requests.to_dict("records")
    assert request["first_token_ns"] == 10 * MS
    assert request["finished_ns"] == 30 * MS
    assert request["output_tokens"] == 6
    values, counts = records.itl_ns
    assert (values.tolist(), counts.tolist()) == ([10 * MS], [4])


def test_outputs_that_find_no_room_come_later(new_workload, serve):
    """The same with outputs of 5, which take 4 blocks: the second starts over when the first ends.

    It has 3 tokens by then (6 + 2 fill both blocks) and computes its prompt and these anew.
    """
    workload = new_workload((6, 5), arrival_ms=[0], num_outputs=2)
    records = serve(workload, num_blocks=3)
    [request] = records.requests.to_dict("records")
    assert request["preemptions"] == 1
    assert request["output_tokens"] == 10
    assert request["finished_ns"] == 70 * MS
