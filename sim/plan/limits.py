"""What requests wait for: a place among the running, room in a step, or KV blocks."""

import pandas as pd

from engine.config import EngineConfig
from sim.metrics import Row
from sim.records import Records

_FULL = 0.95  # of the token budget of a step: the last chunk may not fit exactly
LIMITS = {
    "sequences": "max_num_seqs: all places among the running sequences are taken",
    "budget": "max_num_batched_tokens: steps are full",
    "blocks": "KV blocks: there is no room in the pool",
}


def shares_waiting(records: Records, config: EngineConfig, start_ns: int) -> Row:
    """Shares of the time from start_ns to the last arrival in which requests wait, by what for.

    Told by the state of the steps: as many run as may; else the step is full; else, since somebody
    waits all the same, no blocks are left.
    """
    steps = records.steps
    stop_ns = int(records.requests["arrival_ns"].max())
    steps = steps[(steps["start_ns"] >= start_ns) & (steps["start_ns"] <= stop_ns)]
    total_ns = float(steps["duration_ns"].sum())  # of all replicas
    is_waiting = steps["waiting"] > 0
    most = config.batch_size if config.batching == "static" else config.max_num_seqs
    has_no_place = is_waiting & (steps["running"] >= most)
    tokens_per_step = (steps["decodes"] + steps["prefill_tokens"]) / steps["steps"].clip(lower=1)
    is_full = tokens_per_step >= _FULL * config.max_num_batched_tokens
    is_full &= is_waiting & ~has_no_place
    found = {"sequences": has_no_place, "budget": is_full}
    found["blocks"] = is_waiting & ~has_no_place & ~is_full
    return {f"waiting_{name}_share": _share(steps, rows, total_ns) for name, rows in found.items()}


def _share(steps: pd.DataFrame, rows: "pd.Series[bool]", total_ns: float) -> float:
    return float(steps.loc[rows, "duration_ns"].sum()) / total_ns if total_ns else 0.0


_LITTLE = 0.1


def binding(row: Row, promise: str) -> str:
    """The constraint that stands behind a promise that is used up, in words."""
    shares = {name: float(row[f"waiting_{name}_share"] or 0) for name in LIMITS}
    name = max(shares, key=shares.__getitem__)
    if promise.startswith("tpot") or shares[name] < _LITTLE:
        what = "steps take too long" if promise.startswith("tpot") else "hardly anybody waits"
        return f"compute: {what}, {_waits(shares)}"
    return f"{LIMITS[name]}; {_waits(shares)}"


def _waits(shares: dict[str, float]) -> str:
    words = ", ".join(f"{share:.0%} for {name}" for name, share in shares.items())
    return f"of the time requests wait {words}"
