"""Where the time of requests goes; every part is worked out by hand, in milliseconds.

Blocks hold 4 tokens. Unless a test says otherwise, a step takes 10 ms and 1 ms more for each
prompt token that it computes.
"""

import pytest

from sim.attribution import DECODE_PARTS, TTFT_PARTS
from sim.latency.linear import LinearLatency

MS = 1_000_000
SLOWED = LinearLatency(step_s=0.01, per_prefill_token_s=0.001)


@pytest.fixture
def parts(serve, new_workload):
    """Serves requests of (prompt, output) tokens; of each, the parts that are not 0."""

    def parts_of(*lengths, arrival_ms, latency=SLOWED, num_outputs=1, **settings):
        workload = new_workload(*lengths, arrival_ms=arrival_ms, num_outputs=num_outputs)
        requests = serve(workload, latency=latency, **settings).requests
        for row in requests.to_dict("records"):
            assert (
                sum(row[name] for name in TTFT_PARTS) == row["first_token_ns"] - row["arrival_ns"]
            )
            assert sum(row[name] for name in DECODE_PARTS) == (
                row["finished_ns"] - row["first_token_ns"]
            )
        return [
            {
                name.removesuffix("_ns"): row[name] / MS
                for name in (*TTFT_PARTS, *DECODE_PARTS)
                if row[name]
            }
            for row in requests.to_dict("records")
        ]

    return parts_of


def test_arrival_in_mid_step_waits_for_its_end_and_stalls_the_others(parts):
    """First prompt 0 to 14, decodes to 24 and 34. The second comes at 30; its step, 34 to 50, takes
    10 as the last of decodes alone, the other 6 are its prompt's. The first has its tenth token at
    14 + 9 x 10 + 6 = 110."""
    first, second = parts((4, 10), (6, 2), arrival_ms=[0, 30])
    assert first == {"ttft_prefill": 14, "decode_steps": 90, "decode_stalls": 6}
    assert second == {"ttft_step": 4, "ttft_decodes": 10, "ttft_prefill": 6, "decode_steps": 10}


def test_asynchronous_arrival_waits_for_the_step_that_was_scheduled_before_as_well(parts):
    """It comes at 30, is admitted at 34, when the step up to 44 begins, and runs from 44 to 60."""
    first, second = parts((4, 10), (6, 2), arrival_ms=[0, 30], async_scheduling=True)
    assert first == {"ttft_prefill": 14, "decode_steps": 90, "decode_stalls": 6}
    assert second == {"ttft_step": 14, "ttft_decodes": 10, "ttft_prefill": 6, "decode_steps": 10}


def test_arrival_in_a_long_sleep_waits_for_one_step_of_it(parts):
    """At 155 of steps that end at 154, 164, ...: up to 164, the next one takes 10 + 6."""
    first, second = parts((4, 40), (6, 1), arrival_ms=[0, 155], max_model_len=128)
    assert first == {"ttft_prefill": 14, "decode_steps": 390, "decode_stalls": 6}
    assert second == {"ttft_step": 9, "ttft_decodes": 10, "ttft_prefill": 6}


def test_queueing_for_a_slot_begins_with_the_step_that_could_have_had_it(parts):
    """The first from 0 to 34; the second, which came at 5, computes its prompt from 34 to 50."""
    _, second = parts((4, 3), (6, 1), arrival_ms=[0, 5], max_num_seqs=1)
    assert second == {"ttft_step": 9, "ttft_slots": 20, "ttft_prefill": 16}


def test_queueing_for_blocks_goes_on_through_a_long_sleep(parts):
    """Of 3 blocks the first has two from 14 on, three from 54 on, until it ends at 14 + 8 x 10, so
    94. The second needs two; it runs from 94 to 112."""
    first, second = parts((4, 9), (8, 1), arrival_ms=[0, 5], num_blocks=3, max_model_len=13)
    assert first == {"ttft_prefill": 14, "decode_steps": 80}
    assert second == {"ttft_step": 9, "ttft_blocks": 80, "ttft_prefill": 18}


def test_queueing_goes_by_what_held_up_admission_in_each_step(parts):
    """Two prompts of 4 and 3 tokens from 0 to 17. The third request, which came at 5, lacks a slot
    until the second ends at 27, and then, as the first has 2 of 4 blocks, one of its 3 blocks until
    that ends at 37. Its prompt takes 22."""
    *_, third = parts(
        *((4, 3), (3, 2), (12, 1)),
        arrival_ms=[0, 0, 5],
        num_blocks=4,
        max_num_seqs=2,
        max_model_len=13,
    )
    assert third == {"ttft_step": 12, "ttft_slots": 10, "ttft_blocks": 10, "ttft_prefill": 22}


def test_watermark_counts_as_want_of_blocks(parts):
    """1 of 4 blocks is used, 3 are free; 0.5 of 5 are 2 to leave, so there is no room for 2."""
    _, second = parts(
        (4, 2), (8, 1), arrival_ms=[0, 5], num_blocks=4, watermark=0.5, max_model_len=12
    )
    assert second == {"ttft_step": 9, "ttft_blocks": 10, "ttft_prefill": 18}


def test_queueing_for_the_budget_of_a_step(parts):
    """8 tokens a step: the first prompt takes 18; then the second, 8 tokens in 18 and 4 in 14."""
    first, second = parts((8, 1), (12, 1), arrival_ms=[0, 0], max_num_batched_tokens=8)
    assert first == {"ttft_prefill": 18}
    assert second == {"ttft_budget": 18, "ttft_prefill": 32}


def test_prompts_of_one_step_share_it_by_their_tokens(parts):
    """10 + 16 ms for 4 and 12 tokens."""
    first, second = parts((4, 1), (12, 1), arrival_ms=[0, 0])
    assert first == {"ttft_prefill": 6.5, "ttft_other_prefills": 19.5}
    assert second == {"ttft_prefill": 19.5, "ttft_other_prefills": 6.5}


def test_steps_of_prompts_alone_stall_the_decodes_altogether(parts):
    """Prompts first: the second's, 34 to 50, in a step of its own."""
    settings = {"mixed_batches": False, "enable_chunked_prefill": False}
    first, second = parts((4, 10), (6, 2), arrival_ms=[0, 30], **settings)
    assert first == {"ttft_prefill": 14, "decode_steps": 90, "decode_stalls": 16}
    assert second == {"ttft_step": 4, "ttft_prefill": 16, "decode_steps": 10}


def test_preemption_and_recomputation_while_decoding(parts):
    """Steps of 10. Two of 4 + 13 tokens in 5 blocks: the second is preempted at 50, when the first
    begins its third block, and admitted again when that ends, at 130. From 130 to 140 it computes
    4 + 5 tokens, and gets its sixth; its last comes at 210."""
    first, second = parts(
        *((4, 13), (4, 13)),
        arrival_ms=[0, 0],
        latency=LinearLatency(step_s=0.01),
        num_blocks=5,
        max_model_len=17,
    )
    assert first == {"ttft_prefill": 5, "ttft_other_prefills": 5, "decode_steps": 120}
    assert second == {
        "ttft_prefill": 5,
        "ttft_other_prefills": 5,
        "decode_steps": 110,
        "decode_preempted": 80,
        "decode_recompute": 10,
    }


def test_swapped_sequence_computes_nothing_again(parts):
    """The same, but the step from 130 to 140 is one like any other."""
    _, second = parts(
        *((4, 13), (4, 13)),
        arrival_ms=[0, 0],
        latency=LinearLatency(step_s=0.01),
        num_blocks=5,
        max_model_len=17,
        preemption="swap",
        num_cpu_blocks=8,
    )
    assert second == {
        "ttft_prefill": 5,
        "ttft_other_prefills": 5,
        "decode_steps": 120,
        "decode_preempted": 80,
    }


def test_preemption_and_recomputation_of_a_prompt(parts):
    """5 tokens a step, 5 blocks. The first, of 4 + 10 tokens, always has its token.

    | step     | second's tokens      | its 15 or 14 ms are |
    | 0-15     | 0                    | 3 its own, 12 the first's prompt |
    | 15-29    | 1-4                  | its own: no step of decodes alone yet |
    | 29-43    | 5-8                  | its own |
    | 43-53    | wants a fourth block | preempted |
    | 53-81    | 0-3, 4-7             | again |
    | 81-91    | wants a third block  | preempted; the first has three |
    | 91-119   | 0-3, 4-7             | again |
    | 119-129  | the first takes one  | preempted |
    | 129-159  | 0-4, 5-9, alone      | again, as 5 to 7 were computed before |
    | 159-185  | 10-14, 15            | its own: 15 and 11 |

    The first is stalled for the whole of the two steps before the first one of decodes alone, and
    by 4 ms in four more; it decodes in three alone.
    """
    first, second = parts(
        *((4, 10), (16, 1)),
        arrival_ms=[0, 0],
        num_blocks=5,
        max_num_batched_tokens=5,
        reserve_full_isl=False,
        max_model_len=20,
    )
    assert first == {
        "ttft_prefill": 12,
        "ttft_other_prefills": 3,
        "decode_steps": 70,
        "decode_stalls": 44,
    }
    assert second == {
        "ttft_prefill": 3 + 28 + 26,
        "ttft_other_prefills": 12,
        "ttft_preempted": 30,
        "ttft_recompute": 28 + 28 + 30,
    }


def test_static_batch_waits_for_company_and_the_next_for_its_end(parts):
    """The first waits for the second, to 10; both prompts to 28, the second ends at 38, the first
    at 48. The third came at 20: it waits for the step up to 28, then for the batch, then for
    company, until it has waited 50. Its step is from 70 to 84."""
    first, second, third = parts(
        *((4, 3), (4, 2), (4, 1)),
        arrival_ms=[0, 10, 20],
        batching="static",
        batch_size=2,
        max_wait_s=0.05,
    )
    shared = {"ttft_prefill": 9, "ttft_other_prefills": 9}
    assert first == {"ttft_batch": 10, **shared, "decode_steps": 20}
    assert second == {**shared, "decode_steps": 10}
    assert third == {"ttft_step": 8, "ttft_batch": 42, "ttft_prefill": 14}


def test_static_batch_that_is_full_leaves_the_others_to_the_next(parts):
    """Of three at 0 two run from 0 to 18 and to 28; the third has no slot, then a batch is under
    way, then it waits for company until 50."""
    *_, third = parts(
        *((4, 2), (4, 2), (4, 1)),
        arrival_ms=[0, 0, 0],
        batching="static",
        batch_size=2,
        max_wait_s=0.05,
    )
    assert third == {"ttft_slots": 18, "ttft_batch": 32, "ttft_prefill": 14}


def test_prompts_that_are_not_due_wait_for_their_turn(parts):
    """As with TGI, steps of 10: the first runs from 0, the second, that has waited from 155 on, has
    its prompt from 160 to 170. The third comes at 195; of two, one is too few to stop for, until 10
    tokens have been produced since 160: its prompt runs from 260 to 270."""
    _, second, third = parts(
        *((4, 100), (4, 50), (4, 2)),
        arrival_ms=[0, 155, 195],
        latency=LinearLatency(step_s=0.01),
        mixed_batches=False,
        enable_chunked_prefill=False,
        memory="contiguous",
        reservation="limit",
        max_batch_total_tokens=256,
        max_waiting_tokens=10,
        max_model_len=128,
    )
    assert second == {
        "ttft_step": 5,
        "ttft_prefill": 10,
        "decode_steps": 490,
        "decode_stalls": 10,
    }
    assert third == {"ttft_step": 5, "ttft_batch": 60, "ttft_prefill": 10, "decode_steps": 10}


def test_prompt_that_was_given_costs_a_step_of_its_own(parts):
    """A step of 10 computes its last token alone; the second comes at 5 and is in the next one."""
    first, second = parts((4, 3), (6, 1), arrival_ms=[0, 5], kv_role="kv_consumer")
    assert first == {"ttft_prefill": 10, "decode_steps": 20}
    assert second == {"ttft_step": 5, "ttft_prefill": 10}


def test_several_outputs_are_those_of_the_first_and_the_last_to_end(parts):
    """A prompt of 4 to 14, then 2 outputs in steps of 10 to 44."""
    (only,) = parts((4, 4), arrival_ms=[0], num_outputs=2)
    assert only == {"ttft_prefill": 14, "decode_steps": 30}


def test_refused_request_has_no_parts(serve, new_workload):
    requests = serve(new_workload((4, 2), (200, 1), arrival_ms=[0, 1])).requests
    assert requests[[*TTFT_PARTS, *DECODE_PARTS]].isna().all(axis=1).tolist() == [False, True]
