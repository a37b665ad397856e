"""Integrates the ledger of KV slots over time."""

from engine.kv_manager import KVUsage


class LedgerIntegral:
    """Sum of slots x nanoseconds for each class. Whole numbers, so the order of sums is nothing."""

    def __init__(self, usage: KVUsage) -> None:
        self.usage = usage
        self._since_ns = 0
        self._slot_ns = [0] * len(usage)

    def change(self, now_ns: int, usage: KVUsage) -> None:
        """From now on the pool is in this state."""
        elapsed_ns = now_ns - self._since_ns
        if elapsed_ns:
            self._slot_ns = [
                total + slots * elapsed_ns
                for total, slots in zip(self._slot_ns, self.usage, strict=True)
            ]
            self._since_ns = now_ns
        self.usage = usage

    @property
    def slot_ns(self) -> KVUsage:
        """The integral from time 0 to the last change."""
        return KVUsage(*self._slot_ns)
