"""Integrates the ledger of KV slots over time."""

from engine.kv_manager import KVUsage


class LedgerIntegral:
    """Sum of slots x nanoseconds for each class: whole numbers, so their order means nothing."""

    def __init__(self) -> None:
        self._slot_ns = [0] * len(KVUsage._fields)

    def add(self, usage: KVUsage, duration_ns: int) -> None:
        """The pool has been in this state for so long."""
        self._slot_ns = [
            total + slots * duration_ns for total, slots in zip(self._slot_ns, usage, strict=True)
        ]

    @property
    def slot_ns(self) -> KVUsage:
        """The integral so far."""
        return KVUsage(*self._slot_ns)
