"""Stamps what happens in a replica, in columns."""

from array import array
from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.kv_manager import KVUsage
from engine.request import PrefixMisses, RequestId, Sequence, TokenOutput
from engine.scheduler import Step
from sim.ledger import LedgerIntegral
from sim.records import Records

Queues = tuple[int, int]  # sequences running and waiting
NEVER = -1  # a time that has not come
_STEP_COLUMNS = (
    *("start_ns", "duration_ns", "decodes", "prefill_tokens", "running", "waiting", "preempted"),
    *KVUsage._fields,
)
_TIME_COLUMNS = ("arrival_ns", "admitted_ns", "first_token_ns", "finished_ns")
_COUNT_COLUMNS = (
    *("output_tokens", "preemptions", "queried_tokens", "cached_tokens"),
    *("partial_tokens", "unseen_tokens", "evicted_tokens"),
)


class Recorder:
    """Columns of a run of num_requests requests, known by their numbers 0 to num_requests - 1.

    on_finished: told how many more requests are done with, to show progress.
    """

    def __init__(
        self, num_requests: int, usage: KVUsage, on_finished: Callable[[int], None]
    ) -> None:
        self._on_finished = on_finished
        self._times = {name: array("q", [NEVER]) * num_requests for name in _TIME_COLUMNS}
        self._counts = {name: array("q", [0]) * num_requests for name in _COUNT_COLUMNS}
        self._finish_reasons: list[str | None] = [None] * num_requests
        self._last_token_ns = array("q", [NEVER]) * num_requests
        self._steps = {name: array("q") for name in _STEP_COLUMNS}
        self._itl_ns: Counter[int] = Counter()
        self._ledger = LedgerIntegral()
        self._covered_ns = 0  # the rows of steps describe the time up to here
        self._idle: tuple[KVUsage, Queues] = (usage, (0, 0))  # the state between two steps
        self._scheduled_ns = array("q")  # by the number of the step
        self._evicted_for_ns: Counter[int] = Counter()
        self._first_refusal: str | None = None

    def arrived(self, request_id: RequestId, now_ns: int) -> None:
        """A client has sent a request."""
        self._times["arrival_ns"][_number(request_id)] = now_ns

    def refused(self, request_id: RequestId, reason: str) -> None:
        """The engine has refused a request."""
        self._finish_reasons[_number(request_id)] = "refused"
        self._first_refusal = self._first_refusal or reason
        self._on_finished(1)

    def scheduled(self, step: Step, now_ns: int) -> None:
        """The scheduler has admitted and preempted, whether or not there is anything to compute."""
        self._scheduled_ns.append(now_ns)
        for seq, num_cached in step.admitted:
            index = _number(seq.request.request_id)
            if self._times["admitted_ns"][index] == NEVER:
                self._times["admitted_ns"][index] = now_ns
                if seq.prefix_misses is not None:
                    self._looked_up(index, seq, num_cached, seq.prefix_misses)
        for seq in step.preempted:
            self._counts["preemptions"][_number(seq.request.request_id)] += 1

    def _looked_up(self, index: int, seq: Sequence, num_cached: int, misses: PrefixMisses) -> None:
        """What the prefix cache had for a request at its first admission, and why no more."""
        num_partial, num_unseen, evicted_at = misses
        block_size = seq.block_table.block_size
        self._counts["queried_tokens"][index] = seq.num_prompt_tokens
        self._counts["cached_tokens"][index] = num_cached
        self._counts["partial_tokens"][index] = num_partial
        self._counts["unseen_tokens"][index] = num_unseen
        self._counts["evicted_tokens"][index] = len(evicted_at) * block_size
        now_ns = self._scheduled_ns[-1]
        for step in evicted_at:
            self._evicted_for_ns[now_ns - self._scheduled_ns[step]] += 1

    def ran(self, step: Step, start_ns: int, end_ns: int, usage: KVUsage, queues: Queues) -> None:
        """A step has been computed; `usage` is the ledger meanwhile, `queues` as it began."""
        if start_ns > self._covered_ns:
            idle_usage, idle_queues = self._idle
            self._add_row(self._covered_ns, start_ns, (0, 0, *idle_queues, 0), idle_usage)
        num_prefill_tokens = step.num_tokens - step.num_decodes
        counts = (step.num_decodes, num_prefill_tokens, *queues, len(step.preempted))
        self._add_row(start_ns, end_ns, counts, usage)

    def _add_row(self, start_ns: int, end_ns: int, counts: tuple[int, ...], usage: KVUsage) -> None:
        self._ledger.add(usage, end_ns - start_ns)
        self._covered_ns = end_ns
        row = (start_ns, end_ns - start_ns, *counts, *usage)
        for column, value in zip(self._steps.values(), row, strict=True):
            column.append(value)

    def committed(
        self, outputs: list[TokenOutput], now_ns: int, usage: KVUsage, queues: Queues
    ) -> None:
        """A step's outputs are taken; `usage` and `queues` hold until the next step begins."""
        self._idle = (usage, queues)
        last_token_ns = self._last_token_ns
        num_tokens = self._counts["output_tokens"]
        for request_id, _, _, finished, finish_reason in outputs:
            index = _number(request_id)
            before_ns = last_token_ns[index]
            if before_ns == NEVER:
                self._times["first_token_ns"][index] = now_ns
            else:
                self._itl_ns[now_ns - before_ns] += 1
            last_token_ns[index] = now_ns
            num_tokens[index] += 1
            if finished:
                self._times["finished_ns"][index] = now_ns
                self._finish_reasons[index] = finish_reason
                self._on_finished(1)

    def records(self, prompt_tokens: npt.NDArray[np.int64], notes: tuple[str, ...]) -> Records:
        """Everything recorded; prompt_tokens and notes are those of the workload."""
        times = _frame(self._times)
        requests = times.astype("Int64").mask(times == NEVER)
        requests["prompt_tokens"] = prompt_tokens
        for name, column in self._counts.items():
            requests[name] = np.array(column)
        requests["finish_reason"] = self._finish_reasons
        return Records(
            requests=requests.rename_axis("request"),
            steps=_frame(self._steps).rename_axis("step"),
            itl_ns=self._itl_ns,
            evicted_for_ns=self._evicted_for_ns,
            slot_ns=self._ledger.slot_ns,
            notes=notes,
            first_refusal=self._first_refusal,
        )


def _frame(columns: dict[str, "array[int]"]) -> pd.DataFrame:
    return pd.DataFrame({name: np.array(column) for name, column in columns.items()})


def _number(request_id: RequestId) -> int:
    assert isinstance(request_id, int)
    return request_id
