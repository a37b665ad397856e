"""What a run leaves: one row per request, one per step, and the totals that need no rows."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from engine.kv_manager import KVUsage
from sim.value_counts import Int64Array

FINISH_REASONS = ("stop", "length", "refused")
Distribution = tuple[Int64Array, Int64Array]  # distinct values in rising order, how often each


class ReplicaTotals(NamedTuple):
    """What is only told in total, of one replica; see Records."""

    itl_ns: Distribution
    evicted_for_ns: Distribution
    slot_ns: KVUsage
    saved_slot_ns: int


@dataclass(frozen=True)
class Records:
    """The facts of one run of one system. Times are whole nanoseconds on the simulated clock.

    requests: indexed by request number; arrival_ns, admitted_ns (first admission), first_token_ns,
        finished_ns (each NA where it never came), prompt_tokens, output_tokens (produced),
        preemptions, finish_reason (one of FINISH_REASONS). At the first admission, with
        prefix caching: queried_tokens, of them cached_tokens, and the others by the reason of the
        miss: partial_tokens, unseen_tokens, evicted_tokens (see engine.request.PrefixMisses). What
        preemptions took of the computed tokens: restored_tokens (from the prefix cache or the
        host, at the next admission), recomputed_tokens (all others). Where the time went, by the
        parts of sim.attribution.
    steps: start_ns, duration_ns, steps (1), decodes, prefill_tokens, preempted, running and waiting
        (when the row begins), then the slots of each ledger class meanwhile, and those that sharing
        saves. A spell in which the engine idles is a row of 0 steps, so the rows cover all time
        without a gap. In a long run a row stands for several steps (see sim.step_table.StepTable).
    itl_ns: gaps between consecutive output tokens of a request.
    evicted_for_ns: time since the eviction of a block that was missed.
    slot_ns: each ledger class integrated over time, in slots x ns; they add up to the pool x the
        time that `steps` covers. Idle time counts.
    saved_slot_ns: the same of the slots that sharing saves (those of all block tables, less those
        held).
    notes: what was changed while the workload was made.
    num_outputs: of each request; output_tokens are those of all of them.
    first_refusal: why the engine refused the first request that it refused.
    replicas: of several, the totals of each, in the order of their numbers; empty where there is
        one. Of several, `requests` and `steps` have a column `replica`; the steps are those of one
        replica after those of another, each over the whole time; a refused request belongs to the
        replica that it was sent to; and the totals are sums.
    """

    requests: pd.DataFrame
    steps: pd.DataFrame
    itl_ns: Distribution
    evicted_for_ns: Distribution
    slot_ns: KVUsage
    saved_slot_ns: int
    notes: tuple[str, ...] = ()
    num_outputs: int = 1
    first_refusal: str | None = None
    replicas: tuple[ReplicaTotals, ...] = ()

    def of_replica(self, number: int) -> "Records":
        """The same of one of several replicas, as if it were alone."""
        requests, steps = (
            frame[frame["replica"] == number].drop(columns="replica")
            for frame in (self.requests, self.steps)
        )
        totals = self.replicas[number]._asdict()
        return replace(self, requests=requests, steps=steps, replicas=(), **totals)
