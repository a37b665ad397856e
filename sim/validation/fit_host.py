"""Fits what a step costs on the host on the measured runs of one case, for use on others."""

import numpy as np

from sim.errors import UserError
from sim.validation.host_cost import HostCost
from sim.validation.score import Scored


def fit_host_cost(name: str, scored: list[Scored]) -> HostCost:
    """The cost a step and a sequence that the measured time of a token exceeds the predicted by.

    scored: predicted without any. Rows whose requests waited for KV blocks say more of the memory
    and are left out, if there are others. Least squares of relative errors, no cost below 0.

    Raises UserError where there is no row to fit on.
    """
    from scipy.optimize import nnls  # slow to import

    timed = [one for one in scored if _METRICS & set(one.errors)]
    rows = [one for one in timed if not one.is_kv_limited] or timed
    if not rows:
        raise UserError(f"{name}: no row to fit on, for none has the time of a token")
    measured_s, missing_s, running = np.array([_per_step(one) for one in rows]).T
    columns = np.column_stack([np.ones(len(rows)), running]) / measured_s[:, np.newaxis]
    if len(set(np.round(running))) < 3:  # too few to tell the two costs apart
        columns = columns[:, :1]
    (overhead_s, *per_sequence_s), _ = nnls(columns, missing_s / measured_s)
    return HostCost(
        float(overhead_s),
        float(per_sequence_s[0]) if per_sequence_s else 0.0,
        f"fitted on {name}" + (f", {len(rows)} rows" if len(rows) > 1 else ""),
        name,
    )


_METRICS = {"tpot_mean_s", "span_s"}


def _per_step(one: Scored) -> tuple[float, float, float]:
    """Measured time of a step, what the prediction misses of it, and the sequences in it."""
    name = "tpot_mean_s" if "tpot_mean_s" in one.errors else "span_s"
    num_steps = 1.0 if name == "tpot_mean_s" else one.num_steps
    measured_s = one.point.measured[name] / num_steps
    return measured_s, measured_s - one.predicted[name] / num_steps, one.mean_running
