"""What a step costs on the host, beside its time on the GPU, by where that is known from."""

from typing import NamedTuple

from engine.config import EngineConfig


class HostCost(NamedTuple):
    """Seconds a step, and for each of its decodes and prefill chunks; and the source of both."""

    overhead_s: float
    per_sequence_s: float
    source: str


# Versions of vLLM up to, but not including, the first number; of none of them was any case used
# that is validated.
_BY_VERSION = (
    (
        (0, 6),
        HostCost(
            0.0038,
            0.0,
            "29 % of 13 ms a token, which vLLM's blog of 5 September 2024 gives for scheduling in "
            "0.5.3",
        ),
    ),
    (
        (0, 11),
        HostCost(
            0.003,
            0.0,
            "what lies between TPOT of 0.6.0 at 2 requests/s and the reading of its weights, same "
            "blog",
        ),
    ),
)
_RECENT = HostCost(0.001, 0.0, "a round assumption, the default of scenarios")
# `kvsim validate h100-llama-70b-fp8-closedloop --latency silicon --fit-host` printed it.
_SILICON = HostCost(
    0.0008, 0.00004, "fitted on TPOT of the rows of h100-llama-70b-fp8-closedloop without KV limit"
)


def default_host_cost(config: EngineConfig, latency_kind: str) -> HostCost:
    """The cost for a version of vLLM and a kind of step times."""
    for version, cost in _BY_VERSION:
        if config.rules < version:
            return cost
    return _SILICON if latency_kind == "silicon" else _RECENT
