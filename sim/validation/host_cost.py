"""What a step costs on the host, beside its time on the GPU, by where that is known from."""

from typing import NamedTuple

from sim.validation.case import MeasuredBy


class HostCost(NamedTuple):
    """Seconds a step, and for each of its decodes and prefill chunks; and the source of both.

    fitted_on: the case that it was fitted on, which it therefore does not predict.
    """

    overhead_s: float
    per_sequence_s: float
    source: str
    fitted_on: str = ""


# Where nobody recorded how the engine schedules, what its host costs is not known: no measurement,
# but what a scenario has that says nothing.
ASSUMED = HostCost(0.001, 0.0, "an assumption, the default of scenarios")


def _fitted(overhead_s: float, per_sequence_s: float, case: str, num_rows: int) -> HostCost:
    """What `--host-cost-from` prints for the folder of a case."""
    source = f"fitted on {case} of docs/validation.md, {num_rows} rows"
    return HostCost(overhead_s, per_sequence_s, source, fitted_on=case)


# Who measured -> the cost. Clients of a server wait for its work on every sequence too.
_KNOWN = {
    MeasuredBy.ENGINE: ASSUMED,
    MeasuredBy.ASYNC_ENGINE: HostCost(
        0.0, 0.0, "with asynchronous scheduling the host works while the GPU does"
    ),
    MeasuredBy.CLIENT_OF_SYNC_SERVER: _fitted(
        0.00162, 0.0000166, "h100-64gb-llama-3.1-8b-burst", 21
    ),
    MeasuredBy.CLIENT_OF_ASYNC_SERVER: _fitted(
        0.000814, 0.000037, "h100-llama-70b-fp8-closedloop", 42
    ),
    MeasuredBy.OFFLINE: _fitted(0.00199, 0.0000773, "h100-static-batch", 365),
}
# What the library of kernels leaves out besides, sampling for one, is in the fit with it.
_SILICON = _fitted(0.00127, 0.00003, "h100-llama-70b-fp8-closedloop", 42)


def default_host_cost(measured_by: MeasuredBy, latency_kind: str) -> HostCost:
    """The cost for times that were taken so."""
    if (measured_by, latency_kind) == (MeasuredBy.CLIENT_OF_ASYNC_SERVER, "silicon"):
        return _SILICON
    return _KNOWN[measured_by]
