"""What a step costs on the host, beside its time on the GPU, by where that is known from."""

from typing import NamedTuple


class HostCost(NamedTuple):
    """Seconds a step, and for each of its decodes and prefill chunks; and the source of both."""

    overhead_s: float
    per_sequence_s: float
    source: str


ASSUMED = HostCost(0.001, 0.0, "a round assumption, the default of scenarios")
_FITTED_ON = "fitted on h100-llama-70b-fp8-closedloop, 42 rows"

# Kind of case -> kind of step times -> cost. Clients of a server over HTTP wait for the server's
# work on every sequence as well. Both fits are what `--host-cost-from` prints for that folder.
_KNOWN = {
    "asynchronous engine": {
        kind: HostCost(0.0, 0.0, "with asynchronous scheduling the host works while the GPU does")
        for kind in ("roofline", "profile", "silicon")
    },
    "client": {
        "roofline": HostCost(0.0007, 0.000023, _FITTED_ON),
        "silicon": HostCost(0.00127, 0.00003, _FITTED_ON),
    },
    "offline": {
        kind: HostCost(
            0.0038,
            0.0,
            "29 % of 13 ms a token, what vLLM's blog of 5 September 2024 gives for scheduling in "
            "0.5.3",
        )
        for kind in ("roofline", "profile", "silicon")
    },
}


def default_host_cost(measured_by: str, latency_kind: str) -> HostCost:
    """The cost for times taken as `sim.validation.case.Case.measured_by` says."""
    return _KNOWN.get(measured_by, {}).get(latency_kind, ASSUMED)
