"""Settings of an engine. Names and meanings are those of the server that has the setting: vLLM's
where vLLM has it."""

import re
from dataclasses import dataclass, fields

from engine.eviction import EVICTION

ORACLES = ("pow2", "exact")  # reservations that know the output
RESERVATIONS = ("max", "limit", *ORACLES)
CHOICES = {
    "batching": ("static", "continuous"),
    "padding": ("none", "batch", "limit"),
    "policy": ("fcfs", "priority", "lpm"),
    "preemption": ("recompute", "swap"),
    "memory": ("paged", "contiguous"),
    "reservation": ("none", *RESERVATIONS),
    "kv_role": ("kv_both", "kv_producer", "kv_consumer"),
    "eviction": tuple(EVICTION),
}
CAN_BE_0 = ("long_prefill_token_threshold", "max_batch_total_tokens")
LARGEST = 10_000_000  # of any count; more blocks than that are a slip of the pen
# (setting, its values, another setting, what that must be with them)
NEEDS: tuple[tuple[str, tuple[object, ...] | range, str, tuple[object, ...]], ...] = (
    ("padding", ("batch", "limit"), "batching", ("static",)),
    ("async_scheduling", (True,), "batching", ("continuous",)),
    ("memory", ("contiguous",), "reservation", RESERVATIONS),
    ("enable_prefix_caching", (True,), "memory", ("paged",)),
    ("kv_role", ("kv_consumer",), "enable_prefix_caching", (False,)),
    ("kv_role", ("kv_consumer",), "batching", ("continuous",)),
    ("preemption", ("swap",), "batching", ("continuous",)),
    ("preemption", ("swap",), "memory", ("paged",)),
    ("preemption", ("swap",), "reservation", ("none",)),
    ("preemption", ("swap",), "policy", ("fcfs",)),
    ("preemption", ("swap",), "enable_prefix_caching", (False,)),
    ("preemption", ("swap",), "async_scheduling", (False,)),
    ("mixed_batches", (False,), "enable_chunked_prefill", (False,)),
    ("mixed_batches", (False,), "async_scheduling", (False,)),
    ("mixed_batches", (False,), "policy", ("fcfs", "lpm")),
    ("policy", ("lpm",), "batching", ("continuous",)),
    ("policy", ("lpm",), "enable_prefix_caching", (True,)),
    ("max_batch_total_tokens", range(1, LARGEST + 1), "batching", ("continuous",)),
    ("max_batch_total_tokens", range(1, LARGEST + 1), "mixed_batches", (False,)),
    ("max_batch_total_tokens", range(1, LARGEST + 1), "reservation", RESERVATIONS),
)


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
    memory: `paged` takes whatever blocks are free, `contiguous` a run of them, at admission.
    reservation: what a request is given when it is admitted: `none`, blocks for what is computed,
        and more as it grows (where batches are static, for all that it may get); `max`, for
        max_model_len tokens; `limit`, for the prompt and as many tokens as the request may get;
        `pow2`, for the prompt and the output rounded up to a power of two; `exact`, for what will
        be filled. The last two need an oracle that knows the output.
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
    reservation: str = "none"
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
        for name, choices in CHOICES.items():
            self._require(name, " or ".join(choices), getattr(self, name) in choices)
        for name, value, other, needed in NEEDS:
            if getattr(self, name) in value and getattr(self, other) not in needed:
                self._refuse_together(name, other, needed)
        is_version = re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}([.+a-z].*)?", self.vllm_version)
        self._require("vllm_version", "a version such as 0.32 or 0.11.0", bool(is_version))
        self._require("max_wait_s", "from 0 to 1e9", 0 <= self.max_wait_s <= 1e9)
        self._require("watermark", "from 0 to below 1", 0 <= self.watermark < 1)
        ratio = self.waiting_served_ratio
        self._require("waiting_served_ratio", "from 0 to 1e9", 0 <= ratio <= 1e9)
        if not self.enable_chunked_prefill:
            self._require_a_whole_request("max_num_batched_tokens", "while no prompt is in chunks")
        if self.max_batch_total_tokens:
            self._require_a_whole_request("max_batch_total_tokens", "or some could never run")

    def _require_a_whole_request(self, name: str, why: str) -> None:
        least = self.max_model_len
        self._require(name, f">= max_model_len ({least}), {why}", getattr(self, name) >= least)

    def _refuse_together(self, name: str, other: str, needed: tuple[object, ...]) -> None:
        raise ConfigError(
            f"{name}: got {getattr(self, name)!r}, which needs {other} "
            f"{' or '.join(str(value) for value in needed)}, not {getattr(self, other)!r}"
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
