"""The metrics of vLLM that kvsim knows: names, meanings and buckets, as vLLM exports them.

Source: vllm/v1/metrics/loggers.py. Counters are named without the `_total` of their samples.
"""

from typing import NamedTuple

_FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0),
    *(240.0, 480.0, 960.0, 1920.0, 7680.0),
)


class VllmHistogram(NamedTuple):
    """meaning: as HELP has it. bounds: of the buckets, but for the infinite one; None: of a length
    in tokens, up to the engine's max_model_len."""

    meaning: str
    bounds: tuple[float, ...] | None

    def bounds_for(self, max_model_len: int) -> tuple[float, ...]:
        """Of an engine."""
        return length_bounds(max_model_len) if self.bounds is None else self.bounds


# The gaps between tokens, under the names of all versions, the new one first.
ITL = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")

HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": VllmHistogram("Time to first token", _FIRST_TOKEN_S),
    ITL[0]: VllmHistogram("Gaps between consecutive output tokens of a request", _TOKEN_S),
    ITL[1]: VllmHistogram(f"The older name of {ITL[0]}", _TOKEN_S),
    "vllm:request_time_per_output_token_seconds": VllmHistogram(
        "Time per output token after the first, of each request", _TOKEN_S
    ),
    "vllm:e2e_request_latency_seconds": VllmHistogram("From arrival to last token", _REQUEST_S),
    "vllm:request_queue_time_seconds": VllmHistogram("From arrival to first step", _REQUEST_S),
    "vllm:request_prefill_time_seconds": VllmHistogram(
        "From first step to first token", _REQUEST_S
    ),
    "vllm:request_decode_time_seconds": VllmHistogram("From first to last token", _REQUEST_S),
    "vllm:request_inference_time_seconds": VllmHistogram(
        "From first step to last token", _REQUEST_S
    ),
    "vllm:request_prompt_tokens": VllmHistogram("Prompt tokens of each request", None),
    "vllm:request_generation_tokens": VllmHistogram("Output tokens of each request", None),
}
COUNTERS = {  # name -> column of requests.csv that it adds up, and its meaning
    "vllm:prompt_tokens": ("prompt_tokens", "Prompt tokens of requests that ended"),
    "vllm:generation_tokens": ("output_tokens", "Output tokens of requests that ended"),
    "vllm:num_preemptions": ("preemptions", "Preemptions of running requests"),
    "vllm:prefix_cache_queries": ("queried_tokens", "Tokens looked for in the prefix cache"),
    "vllm:prefix_cache_hits": ("cached_tokens", "Tokens found in the prefix cache"),
}
SUCCESS = "vllm:request_success"
SUCCESS_MEANING = "Requests that ended, by the reason"
GAUGES = {
    "vllm:num_requests_running": "Requests in the batch",
    "vllm:num_requests_waiting": "Requests in the queue",
    "vllm:kv_cache_usage_perc": "Share of the KV blocks that requests hold, from 0 to 1",
}


def length_bounds(most: int) -> tuple[float, ...]:
    """Bounds 1, 2, 5, 10, ... up to a number.

    >>> length_bounds(50)
    (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
    """
    steps = (float(m * 10**e) for e in range(len(str(most))) for m in (1, 2, 5))
    return tuple(bound for bound in steps if bound <= most)
