"""What a step costs on the host, beside its time on the GPU, by where that is known from."""

from typing import NamedTuple


class HostCost(NamedTuple):
    """Seconds a step, and for each of its decodes and prefill chunks; and the source of both."""

    overhead_s: float
    per_sequence_s: float
    source: str


ASSUMED = HostCost(0.001, 0.0, "a round assumption, the default of scenarios")

# Who measured -> the cost. Clients of a server wait for its work on every sequence too. What is
# fitted is what `--host-cost-from` prints for that folder.
_KNOWN = {
    "asynchronous engine": HostCost(
        0.0, 0.0, "with asynchronous scheduling the host works while the GPU does"
    ),
    "client of a synchronous server": HostCost(
        0.00163, 0.0000166, "fitted on h100-64gb-llama-3.1-8b-burst, 21 rows"
    ),
    "client of an asynchronous server": HostCost(
        0.00081, 0.000036, "fitted on h100-llama-70b-fp8-closedloop, 42 rows"
    ),
    "offline": HostCost(0.00199, 0.0000774, "fitted on h100-static-batch, 361 rows"),
}
# What the library of kernels leaves out besides, sampling for one, is in the fit with it.
_SILICON = HostCost(0.00127, 0.00003, "fitted on h100-llama-70b-fp8-closedloop, 42 rows")


def default_host_cost(measured_by: str, latency_kind: str) -> HostCost:
    """The cost for times taken as `sim.validation.case.Case.measured_by` says."""
    if (measured_by, latency_kind) == ("client of an asynchronous server", "silicon"):
        return _SILICON
    return _KNOWN.get(measured_by, ASSUMED)
