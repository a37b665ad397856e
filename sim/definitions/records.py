"""What the columns of `sim.records` mean, in words: one row a request, one row a step."""

from sim.definitions.column import KEYS, LEDGER, Column, one

_STAMPS = (
    one("arrival_ns", "ns", "the client sends the request"),
    one("admitted_ns", "ns", "it is first scheduled; empty where that never came, as the next"),
    one("first_token_ns", "ns", "its first output token is committed, at the end of that step"),
    one("finished_ns", "ns", "its last output token is committed"),
)
_COUNTS = (
    one("prompt_tokens", "tokens", "of its prompt"),
    one("output_tokens", "tokens", "produced, of all its outputs"),
    one("preemptions", "", "times it was preempted"),
    one(
        "queried_tokens",
        "tokens",
        "of its prompt, asked of the prefix cache at its admission: the sum of the next four",
    ),
    one("cached_tokens", "tokens", "found there"),
    Column(
        ("partial_tokens", "unseen_tokens", "evicted_tokens"),
        "tokens",
        "missed, by the reason: as `prefix_miss_..._tokens` of `summary.csv`",
    ),
    Column(
        ("recomputed_tokens", "restored_tokens"),
        "tokens",
        "that preemptions took: as `preempted_..._tokens` of `summary.csv`",
    ),
)
# The `ttft_` parts add up to f - a, the `decode_` parts to l - f, exactly.
_PARTS = (
    one(
        "ttft_step_ns",
        "ns",
        "from its arrival until the scheduler next decides: the step in flight, or waking up. With "
        "asynchronous scheduling also from its admission until its first step begins, for a step "
        "is in flight then too",
    ),
    one("ttft_slots_ns", "ns", "then in the queue, while as many ran as may"),
    one("ttft_blocks_ns", "ns", "in the queue, while there was no room in memory"),
    one(
        "ttft_budget_ns",
        "ns",
        "in the queue, while steps had no tokens left; also after its admission: steps that had "
        "none left for its prompt",
    ),
    one("ttft_batch_ns", "ns", "in the queue, until a batch, or the turn of prompts, was due"),
    Column(
        ("ttft_prefill_ns", "ttft_other_prefills_ns", "ttft_decodes_ns"),
        "ns",
        "steps that computed some of its prompt, shared out: its own tokens, those of other "
        "prompts, decodes",
    ),
    Column(
        ("ttft_preempted_ns", "decode_preempted_ns"),
        "ns",
        "from a preemption until it is admitted again; tokens of a step in flight may come "
        "meanwhile",
    ),
    one(
        "ttft_recompute_ns",
        "ns",
        "whole steps whose chunk of its prompt begins with a token that was computed before a "
        "preemption",
    ),
    one(
        "decode_steps_ns",
        "ns",
        "decoding, all other time. A step in which a decode finds no budget is in it too",
    ),
    one(
        "decode_stalls_ns",
        "ns",
        "decoding: what steps with prompt tokens took beyond decodes alone",
    ),
    one(
        "decode_recompute_ns",
        "ns",
        "from being admitted again until its next token, others' part in these steps included. "
        "What was swapped is not computed again: then it is 0, and the step is one like any other",
    ),
)
_WHO = (
    one("finish_reason", "", "`stop`: the output's own end; `length`: a limit; `refused`"),
    one("replica", "", "of several: who served it, from 0; who refused it, if it was refused"),
    Column(("session", "turn"), "", "of turns of sessions: which, and its place in it, from 1"),
    Column(("class", "priority"), "", "of classes: its class, and the priority of that"),
    one("met_slo", "", "where classes are promised something: whether it got all of that"),
)

REQUESTS = (*KEYS, one("request", "", "its number, from 0"), *_STAMPS, *_COUNTS, *_PARTS, *_WHO)
GAPS = (
    *KEYS,
    one("replica", "", "its number, from 0"),
    one("up_to_s", "s", "the upper bound of the bucket, as of vLLM's histogram; the last is inf"),
    one("gaps", "", "between consecutive tokens of a request that are above the bound before"),
    one("sum_s", "s", "of these gaps"),
)
STEPS = (
    *KEYS,
    one("step", "", "number of the row, from 0"),
    one("start_ns", "ns", "when it began"),
    one("duration_ns", "ns", "how long it took; where the row before ends the next begins"),
    one(
        "steps",
        "",
        "1; of a spell in which the engine idles 0; in a run of more than 65,536 rows "
        "2, 4, 8, ...: then the next columns are sums, and `running`, `waiting` and slots means "
        "over time",
    ),
    one("decodes", "", "sequences that computed one token of their output"),
    one("prefill_tokens", "tokens", "of prompts, and what is computed again"),
    one("preempted", "", "preemptions"),
    Column(
        ("running", "waiting"),
        "",
        "requests when it began; a running one is an output, a "
        "waiting one a request or an output that was preempted alone",
    ),
    *(one(name, "slots", meaning) for name, meaning in LEDGER.items()),
    one("saved", "slots", "what sharing saves: as `saved_slots_mean` of `summary.csv`"),
    one("replica", "", "of several: whose step, from 0; of each the rows cover all time"),
)
