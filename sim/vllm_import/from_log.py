"""A scenario of a deployment, from the log of its start."""

import math
import re
from dataclasses import dataclass
from typing import Any

from engine.config import EngineConfig
from sim.scenario.engine import DeploymentSpec
from sim.scenario.scenario import Scenario
from sim.vllm_import.draft import Draft, find_hardware, scenario_name, set_model
from sim.vllm_import.number_types import TYPES, set_quantization, set_type
from sim.vllm_import.start_log import Fact, StartLog

_COPIED = (
    *("max_num_seqs", "max_num_batched_tokens", "max_model_len", "enable_prefix_caching"),
    *("enable_chunked_prefill", "async_scheduling", "policy", "long_prefill_token_threshold"),
)
_V0_LEAST_BATCHED = 2048
_SINGLE = ("pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size")


def draft_of_log(log: StartLog, name: str) -> Draft:
    """A scenario in which every key says which line it is from. name: of the file, for messages."""
    return _FromLog(log, Draft(name)).draft()


@dataclass
class _FromLog:
    log: StartLog
    out: Draft

    def draft(self) -> Draft:
        version = self._value("vllm_version")
        what = f"of vLLM {version}, engine {self.log.generation}" if version else "of vLLM"
        self.out.note(f"From the start-up log {self.out.source} {what}, by kvsim import vllm-log.")
        for note in self.log.notes:
            self.out.note(f"Note: {note}.")
        self._model()
        self._engine()
        self._deployment()
        self._not_modelled()
        self._left()
        self._workload()
        return self.out

    def _fact(self, name: str) -> Fact | None:
        return self.log.facts.get(name)

    def _value(self, name: str) -> Any:
        fact = self._fact(name)
        return None if fact is None else fact.value

    def _copy(self, key: str, fact: Fact, value: Any) -> None:
        self.out.set(key, value, _from(fact))

    def _model(self) -> None:
        facts = [fact for name in ("model", "served_model_name") if (fact := self._fact(name))]
        names = [str(fact.value) for fact in facts]
        self.out.set("name", scenario_name(names[0] if names else ""), "of this scenario")
        set_model(self.out, names, _from(facts[0]) if facts else "not in the log")
        device = self._fact("device_name")
        key = find_hardware(str(device.value)) if device else None
        default = Scenario.model_fields["hardware"].default
        comment = _from(device) if device and key else "not in the log: REPLACE by your GPU"
        self.out.set("hardware", key or default, comment)

    def _engine(self) -> None:
        self._block_size_and_pool()
        for name in _COPIED:
            fact = self._fact(name)
            if fact is not None and fact.value is not None:
                self._copy(f"engine.{name}", fact, fact.value)
        if self.log.generation == "V0":
            self._rules_of_v0()
        whole_prompts = self.out.values.get("engine.enable_chunked_prefill", (True, ""))[0] is False
        if whole_prompts and "engine.max_num_batched_tokens" not in self.out.values:
            longest = self._value("max_model_len") or EngineConfig.max_model_len
            self.out.set(
                "engine.max_num_batched_tokens",
                max(longest, _V0_LEAST_BATCHED),
                "not in the log; vLLM's default while no prompt is in chunks",
            )
        version = self._fact("vllm_version")
        if version is None:
            return
        if re.match(r"(0\.(?!0|1\.dev)[0-9]|[1-9]\.[0-9])", str(version.value)):
            self._copy("engine.vllm_version", version, str(version.value))
        else:
            self.out.note(f"Not a version that tells the rules: {_from(version)}")

    def _block_size_and_pool(self) -> None:
        size = self._fact("block_size")
        block_size = int(size.value) if size and isinstance(size.value, int) else 0
        if size and block_size:
            self._copy("engine.block_size", size, block_size)
        pool = self._pool(block_size or EngineConfig.block_size)
        if pool is None:
            return
        fact, num_blocks = pool
        null = self.log.generation == "V1"
        comment = f"{_from(fact)}{', less the null block that no request gets' if null else ''}"
        self.out.set("engine.num_blocks", max(num_blocks - null, 1), comment)

    def _pool(self, block_size: int) -> tuple[Fact, int] | None:
        """The line that tells it best, and the blocks as vLLM counts them.

        Tokens, where both are there and differ: several kinds of layers share the blocks.
        """
        counted = next(filter(None, map(self._fact, ("num_gpu_blocks", "pool_blocks"))), None)
        tokens = self._fact("pool_tokens")
        by_tokens = self._blocks_for(tokens, block_size) if tokens else []
        if counted and isinstance(counted.value, int):
            if not by_tokens or counted.value in by_tokens:
                return counted, counted.value
            self.out.note(
                f"Note: blocks of {block_size} tokens by line {tokens.line if tokens else 0}, for "
                f"{_from(counted)} does not fit it."
            )
        return (tokens, by_tokens[0]) if tokens and by_tokens else None

    def _blocks_for(self, tokens: Fact, block_size: int) -> list[int]:
        """As many as versions may mean by these tokens, the likeliest first."""
        num_tokens, longest = tokens.value, self._value("max_model_len")
        if not isinstance(num_tokens, int):
            return []
        exact = [num_tokens // block_size] if num_tokens % block_size == 0 else []
        if not isinstance(longest, int) or longest < 1:
            return exact or [num_tokens // block_size]
        # Recent versions print blocks / (blocks of the longest request) x its tokens, rounded down.
        return [*exact, math.ceil(num_tokens * -(-longest // block_size) / longest)]

    def _rules_of_v0(self) -> None:
        self.out.set("engine.watermark", 0.01, "what vLLM V0 keeps free at an admission")
        if self._value("enable_chunked_prefill"):
            self.out.note("Note: V0 with chunked prefill is simulated with the steps of V1.")
            return
        self.out.set("engine.mixed_batches", False, "vLLM V0 computes prompts alone")
        for name in ("enable_chunked_prefill", "enable_prefix_caching"):
            if f"engine.{name}" not in self.out.values:
                self.out.set(f"engine.{name}", False, "vLLM V0, and no line says otherwise")

    def _deployment(self) -> None:
        for name in ("tensor_parallel_size", "gpu_memory_utilization", "kv_cache_memory_bytes"):
            fact = self._fact(name)
            if fact is not None and fact.value is not None:
                is_share = name == "gpu_memory_utilization" and isinstance(fact.value, int)
                self._copy(
                    f"deployment.{name}", fact, float(fact.value) if is_share else fact.value
                )
        for name in ("dtype", "kv_cache_dtype"):
            if fact := self._fact(name):
                set_type(self.out, name, str(fact.value), _from(fact))
        if fact := self._fact("quantization"):
            model = str(self._value("model"))
            set_quantization(self.out, str(fact.value), model, _from(fact))

    def _not_modelled(self) -> None:
        for name in _SINGLE:
            fact = self._fact(name)
            if fact is not None and isinstance(fact.value, int) and fact.value > 1:
                what = "one of its engines is" if name.startswith("data") else "without it, it is"
                self.out.note(f"Not in kvsim: {_from(fact)}; {what} simulated.")
        if fact := self._fact("speculative_config"):
            self.out.note(f"Not in kvsim: line {fact.line}, speculative decoding.")

    def _left(self) -> None:
        """Settings of which the log says nothing."""
        left = []
        for name in ("block_size", "num_blocks", *_COPIED[:6]):
            if f"engine.{name}" not in self.out.values:
                left.append(f"engine.{name} ({getattr(EngineConfig, name)})")
        for name in ("tensor_parallel_size", "gpu_memory_utilization", *TYPES):
            if self._fact(name) is None:
                left.append(f"deployment.{name} ({DeploymentSpec.model_fields[name].default})")
        if left:
            self.out.note(f"Not in the log, left at kvsim's default: {', '.join(left)}.")
        if "engine.max_num_seqs" not in self.out.values:
            self.out.note("vLLM's own max_num_seqs is 256, or 1024 on GPUs of 70 GiB but the A100.")
        if "engine.num_blocks" not in self.out.values:
            self.out.note("num_blocks: auto would be what vLLM finds on that GPU.")

    def _workload(self) -> None:
        replace = "a placeholder: REPLACE by your load (kvsim import metrics; docs/import.md)"
        self.out.set("workload.preset", "chat", replace)
        self.out.set("workload.requests", 1000, "a placeholder")
        self.out.set("workload.arrivals", {"poisson": {"rate": 1.0}}, "requests/s: REPLACE")


def _from(fact: Fact) -> str:
    return f"line {fact.line}: {fact.said}"
