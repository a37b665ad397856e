"""What is stamped of each request, in columns: the same for all engines that serve some of them."""

from array import array
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from sim.attribution import Columns
from sim.records import FINISH_REASONS

NEVER = -1  # a time that has not come
_TIME_COLUMNS = ("arrival_ns", "admitted_ns", "first_token_ns", "finished_ns")
_COUNT_COLUMNS = (
    *("preemptions", "queried_tokens", "cached_tokens"),
    *("partial_tokens", "unseen_tokens", "evicted_tokens", "recomputed_tokens", "restored_tokens"),
)


class RequestColumns:
    """Columns of num_requests requests, known by their numbers 0 to num_requests - 1.

    num_outputs: of each request.
    on_finished: told, each time a hundredth of the run is, how many more requests are done with.

    times, counts: by name, [requests]. num_unfinished: outputs of each request, [requests].
    output_tokens, last_token_ns: of output i of request r at r * num_outputs + i.
    first_refusal: why the first request was refused that was.
    """

    def __init__(
        self, num_requests: int, on_finished: Callable[[int], None], num_outputs: int
    ) -> None:
        self._on_finished = on_finished
        self._num_between_reports = max(num_requests // 100, 1)
        self._num_unreported = 0
        self.times = {name: array("q", [NEVER]) * num_requests for name in _TIME_COLUMNS}
        self.counts = {name: array("q", [0]) * num_requests for name in _COUNT_COLUMNS}
        self._finish_reasons = array("b", [NEVER]) * num_requests
        self.num_outputs = num_outputs
        self.num_unfinished = array("q", [num_outputs]) * num_requests
        self.output_tokens = array("q", [0]) * (num_requests * num_outputs)
        self.last_token_ns = array("q", [NEVER]) * (num_requests * num_outputs)
        self.first_refusal: str | None = None

    def done_with(self, index: int, reason: str) -> None:
        """A request has ended, or is refused."""
        self._finish_reasons[index] = FINISH_REASONS.index(reason)
        self._num_unreported += 1
        if self._num_unreported == self._num_between_reports:
            self._on_finished(self._num_unreported)
            self._num_unreported = 0

    def frame(self, prompt_tokens: npt.NDArray[np.int64], parts: Columns) -> pd.DataFrame:
        """The table `requests` of Records, which shares the memory of the columns.

        parts: of the times of each request.
        """
        output_tokens = np.frombuffer(self.output_tokens, np.int64)
        output_tokens = output_tokens.reshape(-1, self.num_outputs)
        codes = np.frombuffer(self._finish_reasons, np.int8)
        return pd.DataFrame(
            {
                **{name: _with_gaps(column) for name, column in self.times.items()},
                "prompt_tokens": prompt_tokens,
                "output_tokens": output_tokens.sum(axis=1),
                **{name: np.frombuffer(column, np.int64) for name, column in self.counts.items()},
                **parts,
                "finish_reason": pd.Categorical.from_codes(codes, pd.Index(FINISH_REASONS)),
            },
            index=pd.RangeIndex(len(codes), name="request"),
            copy=False,
        )


def _with_gaps(times_ns: "array[int]") -> pd.arrays.IntegerArray:
    """NA where it never came."""
    values = np.frombuffer(times_ns, np.int64)
    return pd.arrays.IntegerArray(values, values == NEVER)
