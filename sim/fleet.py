"""Several replicas behind a router: to clients, one that takes requests."""

from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import simpy

from engine.kv_manager import KVUsage
from engine.request import Request, RequestId
from sim.recorder import Recorder
from sim.records import Records, ReplicaTotals
from sim.replica import Replica
from sim.router import Router
from sim.value_counts import merged


class Fleet:
    """Sends each request to the replica that the router names; a lone one gets all of them."""

    def __init__(self, replicas: Sequence[Replica], router: Router, num_requests: int) -> None:
        self._replicas = replicas
        self._router = router
        self._replica_of = array("h", [0]) * num_requests

    def submit(self, request: Request) -> bool:
        """Give a request to its replica now; False when that refuses it."""
        number = self._router(request, self._replicas) if len(self._replicas) > 1 else 0
        self._replica_of[int(request.request_id)] = number
        return self._replicas[number].submit(request)

    def answered(self, request_id: RequestId) -> simpy.Event:
        """The end of a request that is in an engine, as an event."""
        return self._replicas[self._replica_of[int(request_id)]].answered(request_id)

    @property
    def replica_of(self) -> npt.NDArray[np.int16]:
        """The replica that each request was sent to, [requests]."""
        return np.frombuffer(self._replica_of, np.int16)


def fleet_records(
    recorders: Sequence[Recorder],
    replica_of: npt.NDArray[np.int16],
    prompt_tokens: npt.NDArray[np.int64],
    notes: tuple[str, ...],
) -> Records:
    """What the replicas leave together, over the time until the last of them has ended.

    See Recorder.records; a lone replica leaves just that.
    """
    end_ns = max(recorder.end_ns for recorder in recorders)
    for recorder in recorders:
        recorder.idled_until(end_ns)
    parts = [recorder.records(prompt_tokens, notes) for recorder in recorders]
    if len(parts) == 1:
        return parts[0]
    steps = [part.steps.assign(replica=number) for number, part in enumerate(parts)]
    totals = [
        ReplicaTotals(part.itl_ns, part.evicted_for_ns, part.slot_ns, part.saved_slot_ns)
        for part in parts
    ]
    return replace(
        parts[0],
        requests=parts[0].requests.assign(replica=replica_of),
        steps=pd.concat(steps),
        itl_ns=merged([total.itl_ns for total in totals]),
        evicted_for_ns=merged([total.evicted_for_ns for total in totals]),
        slot_ns=KVUsage(*map(sum, zip(*(total.slot_ns for total in totals), strict=True))),
        saved_slot_ns=sum(total.saved_slot_ns for total in totals),
        replicas=tuple(totals),
    )
