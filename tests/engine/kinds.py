"""Engines that random walks are done with, by name: the settings that are not drawn."""

KINDS: dict[str, dict[str, object]] = {
    "continuous": {},
    "static": {"batching": "static"},
    "async": {"async_scheduling": True},
    "priority": {"policy": "priority"},
    "async priority": {"async_scheduling": True, "policy": "priority"},
}
KINDS["static padded"] = {"batching": "static", "padding": "batch"}
KINDS["static to the limit"] = {"batching": "static", "padding": "limit"}
# max_num_batched_tokens: a prompt must fit.
KINDS["prefill first"] = {
    "mixed_batches": False,
    "enable_chunked_prefill": False,
    "max_num_batched_tokens": 130,
}
SWAP = {"preemption": "swap", "enable_prefix_caching": False}
KINDS |= {
    "swap": SWAP | {"num_cpu_blocks": 1000},
    "swap with little room": SWAP | {"num_cpu_blocks": 8},
    "prefill first swap": SWAP | KINDS["prefill first"],
}
# Contiguous memory, once by each rule.
RUN = {"memory": "contiguous", "enable_prefix_caching": False}
KINDS |= {
    "contiguous": RUN | {"reservation": "max"},
    "static contiguous": RUN | {"reservation": "limit", "batching": "static"},
    "async contiguous": RUN | {"reservation": "exact", "async_scheduling": True},
    "priority contiguous": RUN | {"reservation": "pow2", "policy": "priority"},
}
# Paged memory, once by each rule.
KINDS |= {
    "reserved": {"reservation": "max"},
    "static reserved": {"reservation": "pow2", "batching": "static"},
    "async reserved": {"reservation": "exact", "async_scheduling": True},
    "priority reserved": {"reservation": "limit", "policy": "priority"},
}
# Prompts and outputs on engines of their own.
GIVEN = {"kv_role": "kv_consumer", "enable_prefix_caching": False}
KINDS |= {
    "producer": {"kv_role": "kv_producer"},
    "async producer": {"kv_role": "kv_producer", "async_scheduling": True},
    "consumer": GIVEN,
    "async consumer": GIVEN | {"async_scheduling": True},
    "priority consumer": GIVEN | {"policy": "priority"},
    "contiguous consumer": GIVEN | {"memory": "contiguous", "reservation": "exact"},
}
# Longest prefix first, in steps of prompts alone, and mixed.
LPM = {"policy": "lpm", "enable_prefix_caching": True}
KINDS |= {
    "sglang": KINDS["prefill first"] | LPM,
    "longest prefix": LPM,
    "async longest prefix": LPM | {"async_scheduling": True},
}
TGI = {
    "reservation": "limit",
    "max_batch_total_tokens": 130,
    "waiting_served_ratio": 0.9,
    "max_waiting_tokens": 7,
}
KINDS |= {
    "tgi": KINDS["prefill first"] | TGI,
    "contiguous tgi": RUN | KINDS["prefill first"] | TGI,
}
