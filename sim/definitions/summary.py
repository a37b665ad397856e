"""What the metrics of `sim.metrics` mean, in words."""

from sim.definitions.column import KEYS, LEDGER, one, times

_COUNTS = (
    one("requests", "", "sent"),
    one("finished", "", "ended with their output"),
    one("refused", "", "could never fit and were refused on arrival"),
    one("span_s", "s", "from the start of the run to the last output token"),
    one("output_tokens", "tokens", "produced, of all outputs of a request"),
    one("output_tokens_per_s", "1/s", "`output_tokens` / `span_s`"),
    one("requests_per_s", "1/s", "`finished` / `span_s`"),
    one(
        "slo_share",
        "share",
        "where classes are promised something (`slo`): of the requests that are, those that met "
        "every promise. A request that was not served met none, one token has no TPOT to miss",
    ),
    one("goodput_per_s", "1/s", "such requests / `span_s`"),
)
_OF_CLASSES = ("requests", "finished", "output_tokens", "slo_share", "goodput_per_s")
_LATENCIES = (
    times("ttft", "TTFT: from the arrival to the first output token, over finished requests"),
    times(
        "tpot",
        "TPOT: (last token - first token) / (output tokens - 1), over finished requests with at "
        "least two tokens",
    ),
    times("e2e", "from the arrival to the last output token, over finished requests"),
    times("queueing", "from the arrival until it is first scheduled, over finished requests"),
)
_ITL = times("itl", "ITL: gaps between consecutive tokens, over all gaps of all requests")
_CACHE = (
    one("preemptions", "", "times a running request was preempted"),
    one(
        "preempted_recomputed_tokens",
        "tokens",
        "computed tokens that preemptions took from requests, and that were computed again. Tokens "
        "of a step in flight count as computed",
    ),
    one(
        "preempted_restored_tokens",
        "tokens",
        "those that came back when the request was admitted again: from the prefix cache or, "
        "swapped, from the host",
    ),
    one(
        "prefix_query_tokens",
        "tokens",
        "of prompts, at the first admission of their requests. Counted as vLLM does, preempted "
        "requests once; 0 without prefix caching",
    ),
    one("prefix_hit_tokens", "tokens", "of them came from the prefix cache"),
    one("prefix_hit_share", "share", "`prefix_hit_tokens` / `prefix_query_tokens`"),
    one(
        "prefix_miss_partial_tokens",
        "tokens",
        "missed because they fill no block, or the last one, which must be computed for its logits",
    ),
    one(
        "prefix_miss_unseen_tokens",
        "tokens",
        "missed because no block has held their content and all before it; so does what is no "
        "longer remembered: evicted blocks of a stretch of content of which none is left, beyond a "
        "pool's worth of the latest such",
    ),
    one(
        "prefix_miss_evicted_tokens",
        "tokens",
        "missed because their block, or one before it, had been evicted, so computed again",
    ),
    one("prefix_evicted_for_mean_s", "s", "mean time since that eviction, over blocks"),
)
_MEMORY = (
    one("block_utilisation", "share", "of the pool, what requests hold"),
    one("internal_fragmentation", "share", "of the held slots, those that hold no live token"),
    *(
        one(f"{name}_share", "share", f"of the pool, what {meaning}")
        for name, meaning in LEDGER.items()
    ),
    one(
        "saved_slots_mean",
        "slots",
        "mean over time of the slots of all block tables together, less those of the blocks that "
        "they hold",
    ),
    one(
        "saved_share",
        "share",
        "the saved by those that would be held without sharing (held + saved): the ratio of the "
        "two means over time, not the mean of ratios, so that a moment counts by the memory it "
        "would need, and one in which nothing is held not at all",
    ),
    one("steps", "", "forward passes"),
)

SUMMARY = (*KEYS, *_COUNTS, *_LATENCIES, _ITL, *_CACHE, *_MEMORY)
# What `sim.steady.measure` adds.
_STEADY = (
    one(
        "warmup_s",
        "s",
        "of the start of the run, which do not count; `span_s`, ITL and "
        "`prefix_evicted_for_mean_s` are of the whole run nevertheless",
    ),
    one(
        "measured_s",
        "s",
        "the time that counts, from there to the last arrival. In sweeps and plans it stands for "
        "`span_s` in `output_tokens_per_s`, `requests_per_s` and `goodput_per_s`, which are of "
        "requests that end in it",
    ),
    one(
        "fell_back",
        "",
        "whether the whole run counts, since too few requests are sent or end in the time that "
        "would be left",
    ),
)
SWEEP = (*SUMMARY, *_STEADY)
REPLICAS = (*KEYS, one("replica", "", "its number, from 0"), *SUMMARY[len(KEYS) :])
CLASSES = (
    *KEYS,
    one("class", "", "its name"),
    *(column for column in _COUNTS if column.names[0] in _OF_CLASSES),
    *_LATENCIES,
)
