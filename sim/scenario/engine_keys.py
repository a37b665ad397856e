"""What each key of `engine` and `toy_lm` means, for the JSON Schema of a scenario.

`engine` needs NumPy alone, so the words are not beside its settings, as they are of all other keys.
"""

from typing import Any

from engine.config import CAN_BE_0, CHOICES, LARGEST
from sim import catalogue

ENGINE = {
    "block_size": "Token positions in a block.",
    "num_blocks": "Blocks in the pool; auto: what the memory of the GPUs holds.",
    "max_num_seqs": "Most sequences running at once.",
    "max_num_batched_tokens": "Most tokens computed in a step (continuous batching).",
    "max_model_len": "Most tokens, prompt and output together, of a sequence.",
    "batching": "When a request may join the batch.",
    "batch_size": "Static batching: requests in a batch.",
    "max_wait_s": "Static batching: longest wait for company, in seconds.",
    "padding": "Static batching: rows that have ended are not computed any more (none), until the "
    "last has ended (batch), or until every row would have reached its limit (limit).",
    "policy": "Who is admitted first: fcfs; priority, a lower number first, of equals the earlier; "
    "lpm, as SGLang, whoever has the longest prefix in the cache.",
    "preemption": "What becomes of the K/V of a preempted request: dropped and computed again "
    "(recompute), or moved to the memory of the host and back (swap).",
    "num_cpu_blocks": "Blocks that the host's memory has room for, with preemption `swap`.",
    "memory": "Blocks wherever they are free (paged), or runs of them, which need a reservation "
    "(contiguous).",
    "reservation": "What a request is given at admission: blocks for what it computes, and more as "
    "it grows (none), or once and for all for max_model_len tokens (max), the prompt and what it "
    "may get (limit), the prompt and the output rounded up to a power of two (pow2), or what will "
    "be filled (exact); the last two are oracles.",
    "kv_role": "Where prompts and outputs have engines of their own: requests end with their first "
    "token (kv_producer), or the K/V of prompts are given, in no time (kv_consumer); kv_both does "
    "both.",
    "enable_prefix_caching": "Share full blocks of equal content.",
    "eviction": "Which cached block loses its content first: lru, as vLLM, lfu, or fifo.",
    "mixed_batches": "Prompts and decodes in one step; else prompts alone first, as vLLM V0.",
    "max_batch_total_tokens": "As text-generation-inference: most tokens of running requests, "
    "prompts and all they may get included; 0: no limit.",
    "waiting_served_ratio": "With max_batch_total_tokens: prompts pause the decodes when so many "
    "times the running requests wait and fit.",
    "max_waiting_tokens": "With max_batch_total_tokens: or when so many tokens have been produced "
    "since the last pause.",
    "enable_chunked_prefill": "Compute a prompt over several steps.",
    "long_prefill_token_threshold": "Most tokens of a step for one sequence among others; 0: no "
    "limit.",
    "watermark": "Share of the pool, from 0 to below 1, that an admission leaves free while others "
    "run.",
    "reserve_full_isl": "Admit only when the whole prompt fits, not just its first chunk.",
    "async_scheduling": "Schedule the next step while one runs.",
    "vllm_version": "Whose rules hold, where they are known to differ; in quotes, such as '0.32'.",
}
TOY_LM = {
    "num_layers": "Layers.",
    "d_model": "Numbers of the state of a token.",
    "num_heads": "Attention heads.",
    "num_kv_heads": "Heads of keys and values, a divisor of num_heads.",
    "head_size": "Numbers of a head, even.",
    "d_ff": "Width of the feed-forward layer.",
    "vocab_size": "Token ids, at least the tokenizer's 257.",
    "tied_embeddings": "The output matrix is the embedding.",
    "rope_theta": "Base of the rotary embedding.",
    "norm_eps": "Added to the mean square in a norm.",
    "seed": "Of the weights.",
}


def describe_engine(schema: dict[str, Any]) -> None:
    """Put meanings, choices and ranges into the JSON Schema of the engine's settings."""
    _describe(schema, ENGINE)
    for key, choices in CHOICES.items():
        schema["properties"][key]["enum"] = list(choices)
    for key, of_key in schema["properties"].items():
        if of_key.get("type") == "integer":
            of_key |= {"minimum": 0 if key in CAN_BE_0 else 1, "maximum": LARGEST}


def describe_system(schema: dict[str, Any]) -> None:
    """The same of a system: it has no defaults, and no max_model_len, but perhaps a preset."""
    preset = {"enum": catalogue.names("systems"), "description": "Settings of a system by name."}
    del schema["properties"]["preset"], schema["properties"]["max_model_len"]
    describe_engine(schema)
    for of_key in schema["properties"].values():
        of_key.pop("default")
    schema["properties"] = {"preset": preset, **schema["properties"]}


def describe_toy_lm(schema: dict[str, Any]) -> None:
    """Put meanings into the JSON Schema of the toy transformer's sizes."""
    _describe(schema, TOY_LM)


def _describe(schema: dict[str, Any], words: dict[str, str]) -> None:
    for key, of_key in schema["properties"].items():
        of_key["description"] = words[key]
