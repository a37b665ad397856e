"""Settings of an engine. Names and meanings are those of the server that has the setting: vLLM's
where vLLM has it."""

import re
from dataclasses import dataclass, fields

from engine.eviction import EVICTION

BATCHING = ("static", "continuous")
POLICIES = ("fcfs", "priority", "lpm")
PREEMPTIONS = ("recompute", "swap")
PADDINGS = ("none", "batch", "limit")
MEMORY = ("paged", "contiguous")
ORACLES = ("pow2", "exact")  # reservations that know the output
RESERVATIONS = ("max", "limit", *ORACLES)
KV_ROLES = ("kv_both", "kv_producer", "kv_consumer")
CAN_BE_0 = ("long_prefill_token_threshold", "max_batch_total_tokens")
LARGEST = 10_000_000  # of any count; more blocks than that are a slip of the pen


class ConfigError(ValueError):
    """A setting has an impossible value; the message names it, what came and what was expected."""


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """All settings of one engine.

    block_size: token positions a block holds.
    num_blocks: blocks in the pool.
    max_num_seqs: most sequences running at once.
    max_num_batched_tokens: most tokens computed in one step (continuous batching).
    max_model_len: most tokens, prompt and output together, a sequence may reach.
    batching: `static` or `continuous`.
    batch_size, max_wait_s: static batching collects this many requests, or waits this long after
        the oldest of them came. The engine has no clock: who drives it keeps the time and calls
        `Engine.close_batch`.
    padding: what becomes of rows of a static batch that have ended: `none`, they are not computed
        any further; `batch`, they are until the last of the batch has ended; `limit`, all are until
        the one that may get the most tokens would have got them.
    policy: who is admitted first (continuous batching): `fcfs`; `priority`, a lower number first,
        of equals the earlier, which is also preempted last; or `lpm`, whoever has the longest
        prefix in the cache.
    preemption: what becomes of the K/V of a preempted sequence (continuous batching): `recompute`,
        it is dropped; `swap`, it is moved to the memory of the host, and back later, where there
        is room for it, else dropped.
    num_cpu_blocks: room on the host, with `swap`.
    memory: `paged` takes blocks as they are needed, `contiguous` a run of them at admission.
    reservation: blocks of a run, for: `max`, max_model_len tokens; `limit`, the prompt and as many
        tokens as the request may get; `pow2`, the prompt and the output rounded up to a power of
        two; `exact`, what will be filled. The last two need an oracle that knows the output.
    kv_role: what the engine does where prompts and outputs are computed apart: `kv_producer`, ends
        requests with their first token and hands their K/V on; `kv_consumer`, is given the K/V of
        prompts, but for their last token, when it admits them, and computes what a preemption took;
        `kv_both`, all by itself. Handing on takes no time.
    enable_prefix_caching: share full blocks of equal content through the prefix trie.
    eviction: which cached block loses its content first: `lru`, `lfu` or `fifo`.
    mixed_batches: compute prompts and decodes in one step (continuous batching); else, as vLLM V0
        does, prompts alone while any can be admitted.
    max_batch_total_tokens: most tokens of running requests, prompts and all they may get included;
        above 0, prompts wait as with text-generation-inference (TGI).
    waiting_served_ratio: with TGI, prompts pause the decodes when so many times the running
        requests wait and fit ...
    max_waiting_tokens: ... or, however few they are, when so many tokens have been produced since
        the last pause.
    enable_chunked_prefill: let a prompt be computed over several steps.
    long_prefill_token_threshold: most tokens one sequence gets of a step while another is in the
        system; 0 sets no limit.
    watermark: share of the pool that an admission leaves free while others run.
    reserve_full_isl: admit only when blocks for all known tokens are free, not only for the chunk.
    async_scheduling: schedule the next step while one is in flight (continuous batching).
    vllm_version: whose rules the continuous scheduler follows, where they are known to differ.

    Raises ConfigError for a value no engine can run with.
    """

    block_size: int = 16
    num_blocks: int = 512
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 2048
    max_model_len: int = 4096
    batching: str = "continuous"
    batch_size: int = 16
    max_wait_s: float = 0.05
    padding: str = "none"
    policy: str = "fcfs"
    preemption: str = "recompute"
    num_cpu_blocks: int = 512
    memory: str = "paged"
    reservation: str = "max"
    kv_role: str = "kv_both"
    enable_prefix_caching: bool = False
    eviction: str = "lru"
    mixed_batches: bool = True
    max_batch_total_tokens: int = 0
    waiting_served_ratio: float = 1.2
    max_waiting_tokens: int = 20
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    reserve_full_isl: bool = True
    async_scheduling: bool = False
    vllm_version: str = "0.32"

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type is int:
                lowest = 0 if field.name in CAN_BE_0 else 1
                in_range = lowest <= getattr(self, field.name) <= LARGEST
                self._require(field.name, f"from {lowest} to {LARGEST}", in_range)
        self._require("batching", " or ".join(BATCHING), self.batching in BATCHING)
        self._require("policy", " or ".join(POLICIES), self.policy in POLICIES)
        self._require("padding", " or ".join(PADDINGS), self.padding in PADDINGS)
        self._require(
            "padding",
            "none with continuous batching",
            self.batching == "static" or self.padding == "none",
        )
        self._require("memory", " or ".join(MEMORY), self.memory in MEMORY)
        self._require("reservation", " or ".join(RESERVATIONS), self.reservation in RESERVATIONS)
        self._require("kv_role", " or ".join(KV_ROLES), self.kv_role in KV_ROLES)
        self._require(
            "enable_prefix_caching",
            "false with contiguous memory, or kv_role kv_consumer",
            (self.memory == "paged" and self.kv_role != "kv_consumer")
            or not self.enable_prefix_caching,
        )
        self._require(
            "kv_role",
            "kv_both or kv_producer with static batching",
            self.batching == "continuous" or self.kv_role != "kv_consumer",
        )
        self._require("preemption", " or ".join(PREEMPTIONS), self.preemption in PREEMPTIONS)
        self._require(
            "preemption",
            "recompute with static batching, contiguous memory, policy priority, prefix caching, "
            "or async_scheduling",
            self.preemption == "recompute"
            or (
                (self.batching, self.memory, self.policy) == ("continuous", "paged", "fcfs")
                and not (self.enable_prefix_caching or self.async_scheduling)
            ),
        )
        self._require("eviction", " or ".join(EVICTION), self.eviction in EVICTION)
        self._require(
            "async_scheduling",
            "false with static batching",
            self.batching == "continuous" or not self.async_scheduling,
        )
        is_like_v0 = not (self.enable_chunked_prefill or self.async_scheduling)
        self._require(
            "mixed_batches",
            "true with enable_chunked_prefill, async_scheduling, or policy priority",
            self.mixed_batches or (is_like_v0 and self.policy != "priority"),
        )
        self._require(
            "policy",
            "fcfs or priority with static batching, or without enable_prefix_caching",
            self.policy != "lpm" or (self.batching == "continuous" and self.enable_prefix_caching),
        )
        self._check_tgi()
        is_version = re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}([.+a-z].*)?", self.vllm_version)
        self._require("vllm_version", "a version such as 0.32 or 0.11.0", bool(is_version))
        self._require("max_wait_s", "from 0 to 1e9", 0 <= self.max_wait_s <= 1e9)
        self._require("watermark", "from 0 to below 1", 0 <= self.watermark < 1)
        if not self.enable_chunked_prefill:
            self._require(
                "max_num_batched_tokens",
                f">= max_model_len ({self.max_model_len}) while enable_chunked_prefill is false",
                self.max_num_batched_tokens >= self.max_model_len,
            )

    def _check_tgi(self) -> None:
        ratio = self.waiting_served_ratio
        self._require("waiting_served_ratio", "from 0 to 1e9", 0 <= ratio <= 1e9)
        if not self.max_batch_total_tokens:
            return
        is_like_tgi = (
            self.batching == "continuous" and not self.mixed_batches and self.memory == "contiguous"
        )
        self._require(
            "max_batch_total_tokens",
            "0 with static batching, mixed_batches, or paged memory",
            is_like_tgi,
        )
        self._require(
            "max_batch_total_tokens",
            f">= max_model_len ({self.max_model_len}), or some requests could never run",
            self.max_batch_total_tokens >= self.max_model_len,
        )

    def _require(self, name: str, expected: str, holds: bool) -> None:
        if not holds:
            raise ConfigError(f"{name}: got {getattr(self, name)!r}, expected {expected}")

    @property
    def rules(self) -> tuple[int, int]:
        """Major and minor version of vLLM whose rules hold."""
        major, minor = re.findall("[0-9]+", self.vllm_version)[:2]
        return int(major), int(minor)

    @property
    def num_slots(self) -> int:
        """Token positions in the pool."""
        return self.num_blocks * self.block_size
