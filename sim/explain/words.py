"""What each part of a latency is called, and which settings it points to."""

from typing import NamedTuple


class Words(NamedTuple):
    """Of a part.

    label: its name in a table. deed: what slow requests do of which it is most. settings: what
    changes it.
    """

    label: str
    deed: str
    settings: str


_ROOM = (
    "a larger pool (num_blocks, gpu_memory_utilization, kv_cache_dtype), prefix caching where it "
    "is off (enable_prefix_caching), or fewer at once (max_num_seqs)"
)
_CHUNKS = "smaller steps (max_num_batched_tokens, long_prefill_token_threshold)"
_SPEED = "faster steps (hardware, tensor_parallel_size, quantization)"

WORDS = {
    "ttft_step_ns": Words(
        "step in flight", "wait for the step in flight", f"async_scheduling; {_CHUNKS}"
    ),
    "ttft_slots_ns": Words(
        "queued for a slot", "wait for a slot", "max_num_seqs; less load on each replica"
    ),
    "ttft_blocks_ns": Words("queued for KV blocks", "wait for KV blocks", f"{_ROOM}; watermark"),
    "ttft_budget_ns": Words(
        "waiting for token budget",
        "wait for the token budget of a step",
        "max_num_batched_tokens; less load on each replica",
    ),
    "ttft_batch_ns": Words(
        "until the batch begins",
        "wait for their batch",
        "batching (continuous), batch_size, max_wait_s; waiting_served_ratio, max_waiting_tokens",
    ),
    "ttft_prefill_ns": Words(
        "own prefill",
        "compute their prompts",
        f"prefix caching where it is off (enable_prefix_caching); {_SPEED}; a larger "
        "max_num_batched_tokens",
    ),
    "ttft_other_prefills_ns": Words(
        "prefills of others",
        "share their steps with prompts of others",
        f"{_CHUNKS}; less load on each replica",
    ),
    "ttft_decodes_ns": Words(
        "decodes in these steps",
        "share their steps with decodes",
        "fewer at once (max_num_seqs); a larger max_num_batched_tokens",
    ),
    "ttft_preempted_ns": Words(
        "preempted before that", "are preempted before their first token", f"{_ROOM}; watermark"
    ),
    "ttft_recompute_ns": Words(
        "computed again",
        "compute their prompts again after preemptions",
        f"{_ROOM}; preemption (swap)",
    ),
    "decode_steps_ns": Words("decodes", "decode", f"{_SPEED}; fewer at once (max_num_seqs)"),
    "decode_stalls_ns": Words(
        "decodes stalled by prefills", "are stalled by prompts of others", _CHUNKS
    ),
    "decode_preempted_ns": Words("preempted", "are preempted", f"{_ROOM}; watermark"),
    "decode_recompute_ns": Words(
        "computed again, later",
        "compute again what preemptions took",
        f"{_ROOM}; preemption (swap)",
    ),
}
