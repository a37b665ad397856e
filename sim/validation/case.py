"""What was measured, and the scenario that should have predicted it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pandas as pd

from sim.scenario import Scenario
from workloads import Workload


class MeasuredBy(Enum):
    """Who took the times, and of what kind of engine as far as that is recorded."""

    ENGINE = "the engine"
    ASYNC_ENGINE = "an engine that schedules asynchronously"
    CLIENT_OF_SYNC_SERVER = "a client of a server that schedules synchronously"
    CLIENT_OF_ASYNC_SERVER = "a client of a server that schedules asynchronously"
    OFFLINE = "a program that runs a batch without a server"


def count_reasons(reasons: Iterable[str]) -> list[str]:
    """Each reason once, with the number of rows that it kept from being simulated."""
    return [
        f"{count} row{'s' if count > 1 else ''}: {reason}"
        for reason, count in Counter(reasons).most_common()
    ]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured run.

    labels: what tells it from the other runs of its case.
    scenario: the same run, simulated; its workload is `workload` where there is one.
    measured: by the names and in the units of `sim.metrics.summarise`.
    requests: ttft_s, tpot_s (NA for one token) and e2e_s of every request, where they are known.
    """

    labels: dict[str, Any]
    scenario: Scenario
    workload: Workload | None = None
    measured: dict[str, float]
    requests: pd.DataFrame | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """The runs of one folder.

    kind: in words.
    assumptions: what the folder does not say, and is taken to be.
    is_gpu_known: whether step times can be had from the catalogue.
    skipped: rows that are not simulated, with the reason.
    peers: how others did on the same runs: name -> metric -> relative error.
    """

    name: str
    kind: str
    measured_by: MeasuredBy
    points: list[Point]
    is_gpu_known: bool = True
    assumptions: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    peers: dict[str, dict[str, float]] = field(default_factory=dict)
