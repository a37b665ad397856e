"""What requests are promised, and which of them got it."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from sim.metrics import tpot_ns
from sim.scenario.requests import SloSpec


def with_slos(requests: pd.DataFrame, slos: dict[str, SloSpec], num_outputs: int) -> pd.DataFrame:
    """The requests with a column `met_slo`, if any class is promised something.

    slos: by the name of the class. met_slo: whether a request met every promise of its class; one
    that was not served did not, and a single token has no TPOT to miss. Empty for a class without.
    """
    if not slos:
        return requests
    met = pd.Series(pd.NA, index=requests.index, dtype="boolean")
    for name, slo in slos.items():
        is_of_class = (requests["class"] == name).to_numpy()
        met[is_of_class] = _met(requests[is_of_class], slo, num_outputs)
    return requests.assign(met_slo=met)


def _met(requests: pd.DataFrame, slo: SloSpec, num_outputs: int) -> npt.NDArray[np.bool_]:
    arrival_ns, first_ns, last_ns = (
        requests[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("arrival_ns", "first_token_ns", "finished_ns")
    )
    taken_s = {
        "ttft_s": (first_ns - arrival_ns) / 1e9,
        "tpot_s": tpot_ns(requests, num_outputs) / 1e9,
        "e2e_s": (last_ns - arrival_ns) / 1e9,
    }
    met: npt.NDArray[np.bool_] = ~np.isnan(last_ns)
    for name, seconds in taken_s.items():
        promised_s = getattr(slo, name)
        if promised_s is not None:
            met &= ~(seconds > promised_s)
    return met
