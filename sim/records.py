"""What a run leaves: one row per request, one per step, and the totals that need no rows."""

from collections import Counter
from dataclasses import dataclass

import pandas as pd

from engine.kv_manager import KVUsage


@dataclass(frozen=True)
class Records:
    """The facts of one run of one system. Times are whole nanoseconds on the simulated clock.

    requests: indexed by request number; arrival_ns, admitted_ns (first admission), first_token_ns,
        finished_ns (each NA where it never came), prompt_tokens, output_tokens (produced),
        preemptions, finish_reason ("stop", "length", "refused"). At the first admission, with
        prefix caching: queried_tokens, of them cached_tokens, and the others by the reason of the
        miss: partial_tokens, unseen_tokens, evicted_tokens (see engine.request.PrefixMisses).
    steps: start_ns, duration_ns, decodes, prefill_tokens, running and waiting (when the row
        begins), preempted, then the slots of each ledger class meanwhile. A spell in which the
        engine idles is a row without tokens, so the rows cover all time without a gap.
    itl_ns: gaps between consecutive output tokens of a request -> how often.
    evicted_for_ns: time since the eviction of a block that was missed -> how often.
    slot_ns: each ledger class integrated over time, in slots x ns; they add up to the pool x the
        span. Idle time counts.
    notes: what was changed while the workload was made.
    first_refusal: why the engine refused the first request that it refused.
    """

    requests: pd.DataFrame
    steps: pd.DataFrame
    itl_ns: Counter[int]
    evicted_for_ns: Counter[int]
    slot_ns: KVUsage
    notes: tuple[str, ...] = ()
    first_refusal: str | None = None
