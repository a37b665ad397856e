"""Classes of requests: who is served first, and who is counted apart."""

from dataclasses import dataclass, replace

import numpy as np

from workloads.checks import problem
from workloads.errors import WorkloadError
from workloads.streams import stream
from workloads.workload import Workload

LARGEST_PRIORITY = 1_000_000


@dataclass(frozen=True)
class RequestClass:
    """share: of the sessions, by the sum of all shares. priority: the lower, the earlier.

    Raises WorkloadError for a share that is not above 0, and a priority too large.
    """

    share: float
    priority: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1e9:
            raise WorkloadError(problem("share", self.share, "a number above 0"))
        if not -LARGEST_PRIORITY <= self.priority <= LARGEST_PRIORITY:
            expected = f"an integer from -{LARGEST_PRIORITY} to {LARGEST_PRIORITY}"
            raise WorkloadError(problem("priority", self.priority, expected))


def classified(workload: Workload, classes: dict[str, RequestClass], seed: int) -> Workload:
    """The same requests, each session of a class that is drawn with `seed` by the shares.

    Raises WorkloadError for no classes, and for requests that have priorities already.
    """
    if not classes:
        raise WorkloadError(problem("classes", classes, "at least one"))
    if workload.priority is not None:
        raise WorkloadError("classes: got some beside a trace that has priorities, expected none")
    shares = np.array([one.share for one in classes.values()])
    ends = np.cumsum(shares) / shares.sum()
    session = workload.session_numbers
    draws = stream(seed, "classes").random(int(session[-1]) + 1)
    numbers = np.searchsorted(ends[:-1], draws, side="right").astype(np.int64)[session]
    priorities = np.array([one.priority for one in classes.values()], dtype=np.int64)
    return replace(
        workload,
        priority=priorities[numbers],
        class_numbers=numbers,
        class_names=tuple(classes),
    )
