"""What vLLM says of its engine while it starts, with the line on which it says so."""

import re
from dataclasses import dataclass, field

from sim.errors import UserError
from sim.vllm_import.fields import Value, parse_fields
from workloads.source import Source

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

# The arguments of the server: all of them until 0.8, then those that are not the default.
_ARGUMENTS = re.compile(r"(non-default args: \{|\bargs: Namespace\()")
_ENGINE = re.compile(r"Initializing an? (?:(V[01]) )?LLM engine \(v([^)]{1,60})\) with config: ")

# Names of arguments and of the engine's line, and what they are here. Others are not looked at.
_KNOWN = (
    *("model", "served_model_name", "dtype", "quantization", "kv_cache_dtype", "block_size"),
    *("max_model_len", "max_num_seqs", "max_num_batched_tokens", "enable_prefix_caching"),
    *("enable_chunked_prefill", "async_scheduling", "long_prefill_token_threshold"),
    *("gpu_memory_utilization", "kv_cache_memory_bytes", "tensor_parallel_size"),
    *("pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size"),
)
_NAMES = {name: name for name in _KNOWN} | {
    "max_seq_len": "max_model_len",
    "chunked_prefill_enabled": "enable_chunked_prefill",
    "scheduling_policy": "policy",
}

# What single lines say: words that such a line has, so that others are passed over quickly, and a
# pattern whose first group is a number, or that stands for a value.
_MESSAGES: tuple[tuple[str, str, str, Value], ...] = (
    ("vllm_version", "API server version", r"API server version ([0-9]\S{0,60})", None),
    ("max_model_len", "Using max model len", r"Using max model len ([0-9,]+)", None),
    ("max_model_len", "Auto-fit max_model_len", r"reduced from [0-9,]+ to ([0-9,]+)", None),
    ("max_model_len", "Maximum concurrency for", r"concurrency for ([0-9,]+) tokens", None),
    (
        "max_num_batched_tokens",
        "Chunked pre",
        r"enabled with max_num_batched_tokens=([0-9]+)",
        None,
    ),
    ("enable_chunked_prefill", "Chunked pre", r"Chunked prefill is enabled with", True),
    ("async_scheduling", "Asynchronous sched", r"Asynchronous scheduling is enabled", True),
    ("async_scheduling", "Asynchronous sched", r"Asynchronous scheduling is disabled", False),
    ("block_size", "block size to", r"(?:attention|kv cache) block size to ([0-9]+)", None),
    ("gpu_memory_utilization", "x gpu_mem", r"x gpu_memory_utilization \(([0-9.]+)\)", None),
    ("num_gpu_blocks", "num_gpu_blocks is: ", r"num_gpu_blocks is: ([0-9]+)", None),
    ("pool_blocks", " blocks: ", r"# \w+ blocks: ([0-9]+)", None),
    ("pool_tokens", "KV cache size: ", r"KV cache size: ([0-9,]+) tokens", None),
    ("device_name", "device_name=", r"device_name=([\w.-]{1,60}?)(?:,|\.json)", None),
)
_PATTERNS = [(name, words, re.compile(pattern), value) for name, words, pattern, value in _MESSAGES]
_WORDS = tuple(dict.fromkeys(["args: ", "LLM engine (v", *(words for _, words, _, _ in _MESSAGES)]))
_SMALLEST_COUNTS = (
    "num_gpu_blocks",
    "pool_blocks",
    "pool_tokens",
)  # vLLM takes that of all workers
_LONGEST_SHOWN = 90


@dataclass(frozen=True)
class Fact:
    """A value, the number of the line that says it, and what stands there."""

    value: Value
    line: int
    said: str


@dataclass
class StartLog:
    """Facts of the last start in a log, by name.

    generation: `V0` or `V1`, of the engine. notes: what of the log was not taken as it is.
    """

    facts: dict[str, Fact] = field(default_factory=dict)
    generation: str = "V1"
    notes: list[str] = field(default_factory=list)

    def take(self, name: str, fact: Fact) -> None:
        """A later line tells more of what became of a setting than an earlier one."""
        before = self.facts.get(name)
        if before and name in _SMALLEST_COUNTS and before.value != fact.value:
            note = f"workers differ in {name}; the smallest is taken, as vLLM does"
            self.notes = list(dict.fromkeys([*self.notes, note]))
            if _as_number(before.value) < _as_number(fact.value):
                return
        self.facts[name] = fact


def _as_number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def read_start_log(source: Source) -> StartLog:
    """Raises UserError for a text in which no line is one of vLLM's start."""
    log, num_starts = StartLog(), 0
    lines = source.text.splitlines()
    for number, coloured in enumerate(lines, 1):
        if not any(words in coloured for words in _WORDS):
            continue
        line = _COLOUR.sub("", coloured)
        if match := _ARGUMENTS.search(line):
            if "model" in log.facts:  # an earlier start, which says nothing of this one
                log = _without_what_was(log)
            num_starts += 1
            _take_fields(log, line[match.end() :], number, is_bracketed=True, what="argument")
        elif match := _ENGINE.search(line):
            log.generation = match[1] or "V0"
            log.take("vllm_version", Fact(match[2], number, f"engine (v{match[2]})"))
            _take_fields(log, line[match.end() :], number, is_bracketed=False, what="engine")
        else:
            _take_messages(log, line, number)
    if not log.facts:
        raise UserError(
            f"{source.name}: none of its {len(lines):,} lines is of the start of vLLM, expected "
            "such as 'GPU KV cache size: 221,728 tokens'"
        )
    if num_starts > 1:
        log.notes.append(f"the log has {num_starts} starts; the last of them is taken")
    return log


def _without_what_was(log: StartLog) -> StartLog:
    """All that is known where another start begins: its version stands just before."""
    version = log.facts.get("vllm_version")
    return StartLog({} if version is None else {"vllm_version": version})


def _take_fields(log: StartLog, text: str, line: int, *, is_bracketed: bool, what: str) -> None:
    fields = parse_fields(text, is_bracketed=is_bracketed)
    if not fields.is_whole:
        log.notes.append(f"line {line} is cut off; what follows in it is not known")
    for name, value in fields.values.items():
        is_asked_of_vllm = value is None or (isinstance(value, int) and value < 0)
        if name not in _NAMES or (is_asked_of_vllm and what == "argument"):
            continue
        log.take(_NAMES[name], Fact(value, line, f"{what} {name}={value}"))
    if what == "engine" and re.search(r"\bspeculative_config=(?!None)", text):
        log.take("speculative_config", Fact("set", line, "speculative_config"))


def _take_messages(log: StartLog, line: str, number: int) -> None:
    if "# CPU blocks: " in line:
        log.generation = "V0"  # where the line of the engine is missing; V1 has no such blocks
    for name, words, pattern, value in _PATTERNS:
        if words in line and (match := pattern.search(line)):
            said = (
                match[0] if len(match[0]) <= _LONGEST_SHOWN else f"{match[0][:_LONGEST_SHOWN]}..."
            )
            log.take(name, Fact(_number(match[1]) if value is None else value, number, said))


def _number(text: str) -> Value:
    digits = text.replace(",", "")
    if re.fullmatch(r"[0-9]{1,18}", digits):
        return int(digits)
    return float(text) if re.fullmatch(r"[0-9]+\.[0-9]+", text) else text
