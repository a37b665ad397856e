"""The ledger of KV slots over time: how it runs on while sequences decode, and its integral."""

from operator import mul
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kv_manager import KVUsage

Int64Array = npt.NDArray[np.int64]


class UsageArrays(NamedTuple):
    """The classes of `KVUsage`, an entry a step."""

    live: Int64Array
    tail: Int64Array
    reserved: Int64Array
    over_reserved: Int64Array
    cached: Int64Array
    unusable: Int64Array
    free: Int64Array


def decoded_on(usage: UsageArrays, num_tokens: Int64Array, begun_slots: Int64Array) -> UsageArrays:
    """The ledger after sequences filled num_tokens more slots, and began blocks of begun_slots.

    Blocks are begun where they were reserved or, where none are, in the order of the free queue:
    empty ones before cached ones. All of shape [steps].
    """
    from_reserve = np.minimum(usage.reserved, begun_slots)
    num_free = usage.free + usage.cached - (begun_slots - from_reserve)
    cached = np.minimum(usage.cached, num_free)
    return UsageArrays(
        live=usage.live + num_tokens,
        tail=usage.tail + begun_slots - num_tokens,
        reserved=usage.reserved - from_reserve,
        over_reserved=usage.over_reserved,
        cached=cached,
        unusable=usage.unusable,
        free=num_free - cached,
    )


class LedgerIntegral:
    """Sum of slots x nanoseconds for each class: whole numbers, so their order means nothing."""

    def __init__(self) -> None:
        self._slot_ns = [0] * len(KVUsage._fields)

    def add(self, usage: UsageArrays, duration_ns: Int64Array) -> None:
        """The pool has been in each of these states for so long."""
        self._slot_ns = [
            total + integral(slots, duration_ns)
            for total, slots in zip(self._slot_ns, usage, strict=True)
        ]

    @property
    def slot_ns(self) -> KVUsage:
        """The integral so far."""
        return KVUsage(*self._slot_ns)


def integral(slots: Int64Array, duration_ns: Int64Array) -> int:
    """Sum of slots x nanoseconds, exact also where it does not fit into 64 bits.

    Both of shape [rows], not empty and nowhere negative.
    """
    if int(slots.max()) * int(duration_ns.max()) * len(slots) < 2**63:
        return int(slots @ duration_ns)
    return sum(map(mul, slots.tolist(), duration_ns.tolist()))
