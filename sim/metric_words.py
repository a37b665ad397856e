"""What the columns of summary.csv mean, in a line each. docs/metrics.md defines them."""

from typing import NamedTuple

from sim.metrics import PERCENTILES


class Metric(NamedTuple):
    """unit: of its values; empty for a count."""

    unit: str
    meaning: str


TIMES = {  # by the first word of their columns
    "ttft": "from a request's arrival to its first output token, queueing included",
    "tpot": "(last token - first token) / (output tokens - 1), per request",
    "e2e": "from a request's arrival to its last output token",
    "queueing": "from a request's arrival until it is first scheduled",
    "itl": "between consecutive output tokens of a request, over all gaps",
}
_SLOTS = {
    "live": "that hold computed tokens of running requests, shared ones counted once",
    "tail": "that are empty in partly filled blocks which requests hold",
    "reserved": "in empty blocks that are held for tokens that will come",
    "over_reserved": "that are held for tokens which never come",
    "cached": "that keep content for reuse and are held by nobody",
    "unusable": "that are free but in no hole large enough",
    "free": "that are empty and held by nobody",
}


def _times() -> dict[str, Metric]:
    return {
        f"{name}_{part}_s": Metric("s", f"{words} {meaning}")
        for name, meaning in TIMES.items()
        for part, words in (
            ("mean", "mean time"),
            *((f"p{percent}", f"percentile {percent} of the time") for percent in PERCENTILES),
        )
    }


METRICS: dict[str, Metric] = {
    "requests": Metric("", "requests that were sent"),
    "finished": Metric("", "requests that ended with their output"),
    "refused": Metric("", "requests that could never fit and were refused on arrival"),
    "span_s": Metric("s", "from the start of the run to the last output token"),
    "output_tokens": Metric("tokens", "output tokens produced"),
    "output_tokens_per_s": Metric("tokens/s", "output tokens by the span"),
    "requests_per_s": Metric("requests/s", "finished requests by the span"),
    "slo_share": Metric("share", "of the requests that are promised something, those that got it"),
    "goodput_per_s": Metric("requests/s", "requests that got all they were promised, by the span"),
    **_times(),
    "preemptions": Metric("", "times a running request gave its blocks back"),
    "preempted_recomputed_tokens": Metric(
        "tokens", "computed tokens that preemptions took and that were computed again"
    ),
    "preempted_restored_tokens": Metric(
        "tokens", "computed tokens that preemptions took and that came back from cache or host"
    ),
    "prefix_query_tokens": Metric("tokens", "prompt tokens looked for in the prefix cache"),
    "prefix_hit_tokens": Metric("tokens", "prompt tokens that came from the prefix cache"),
    "prefix_hit_share": Metric("share", "of the prompt tokens, those from the prefix cache"),
    "prefix_miss_partial_tokens": Metric(
        "tokens", "prompt tokens not cached because they fill no block, or are the last"
    ),
    "prefix_miss_unseen_tokens": Metric(
        "tokens", "prompt tokens not cached because no block has held them"
    ),
    "prefix_miss_evicted_tokens": Metric(
        "tokens", "prompt tokens not cached because their block was evicted"
    ),
    "prefix_evicted_for_mean_s": Metric(
        "s", "mean time since the eviction of a block that was missed"
    ),
    "block_utilisation": Metric("share", "of the pool, blocks that requests hold, over time"),
    "internal_fragmentation": Metric("share", "of the held slots, those with no live token"),
    **{
        f"{name}_share": Metric("share", f"of the pool, slots {meaning}, over time")
        for name, meaning in _SLOTS.items()
    },
    "saved_slots_mean": Metric("slots", "mean number of slots that sharing saves, over time"),
    "saved_share": Metric("share", "of the slots needed without sharing, those that it saves"),
    "steps": Metric("", "forward passes"),
}
