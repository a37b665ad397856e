"""Systems against the first one, on the same requests."""

import numpy as np
import pandas as pd

from sim.metrics import half_width_95


def differences(frame: pd.DataFrame, metrics: tuple[str, ...]) -> pd.DataFrame:
    """Of each system but the first, at every point: by how much it differs from the first.

    frame: see `as_frame`. Returns the columns system, the swept keys, metric, seeds, difference
    (the mean over the seeds of the difference under the same seed), half_width (of its 95 %
    interval, by Student's t; empty for one seed), and share: the difference by the mean of the
    first system.
    """
    keys = list(frame.columns[1 : frame.columns.get_loc("seed")])
    first, *others = frame["system"].unique()
    base = frame[frame["system"] == first]
    rows = []
    for system in others:
        both = frame[frame["system"] == system].merge(
            base, on=[*keys, "seed"], suffixes=("", "_first")
        )
        groups = both.groupby(keys, sort=False, dropna=False) if keys else [((), both)]
        for labels, group in groups:
            for metric in metrics:
                values = group[metric].to_numpy(float) - group[f"{metric}_first"].to_numpy(float)
                values = values[~np.isnan(values)]
                if not len(values):
                    continue
                mean = float(values.mean())
                reference = float(group[f"{metric}_first"].mean())
                rows.append(
                    {
                        "system": system,
                        **dict(zip(keys, labels, strict=True)),
                        "metric": metric,
                        "seeds": len(values),
                        "difference": mean,
                        "half_width": half_width_95(values),
                        "share": mean / reference if reference else None,
                    }
                )
    return pd.DataFrame(rows)
