"""What the prefix cache found of prompts, and why not more, in shares."""

import pandas as pd

from sim.one_run import OneRun

LABELS = {
    "hit": "found",
    "partial": "not in full blocks",
    "unseen": "never seen",
    "evicted": "seen and evicted",
}


def prefix_shares(runs: list[OneRun]) -> pd.DataFrame:
    """A row for each system that has looked for anything; columns as LABELS, which add up to 1."""
    columns = ("cached_tokens", "partial_tokens", "unseen_tokens", "evicted_tokens")
    sums = {run.system: run.requests[[*columns]].sum() for run in runs if has_looked(run)}
    shares = {system: (row / row.sum()).to_list() for system, row in sums.items()}
    return pd.DataFrame.from_dict(shares, orient="index", columns=[*LABELS])


def has_looked(run: OneRun) -> bool:
    """Whether any prompt was looked up in a prefix cache."""
    return bool(run.requests["queried_tokens"].sum())
