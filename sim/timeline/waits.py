"""For what those in the queue of a replica wait, and for how long."""

from collections.abc import Hashable

from engine.step import Blocked
from sim.timeline.parts import Wait

UNTIL_STEP = "the step in flight"
REASONS = {
    Blocked.SLOTS: "a slot",
    Blocked.BLOCKS: "KV blocks",
    Blocked.BUDGET: "token budget",
    Blocked.BATCH: "the batch",
}


class Waits:
    """The waits of a replica that last.

    Of each reason there is a sum over all time; a wait takes the differences. Until the scheduler
    has decided with it in the queue it waits for the step in flight.
    """

    def __init__(self) -> None:
        self._open: dict[Hashable, Wait] = {}
        self._since: dict[Hashable, dict[str, int]] = {}  # the sums as a wait began, or was seen
        self._unseen: list[Hashable] = []
        self._sums_ns: dict[str, int] = {}
        self._reason: str | None = None
        self._now_ns = 0

    def begin(self, key: Hashable, wait: Wait) -> None:
        """Somebody waits from now on."""
        self._open[key] = wait
        self._unseen.append(key)

    def decided(self, blocked_by: Blocked | None, now_ns: int) -> None:
        """The scheduler has decided; those who still wait do so for this reason."""
        self._sum_up(now_ns)
        self._reason = None if blocked_by is None else REASONS[blocked_by]
        for key in self._unseen:
            wait = self._open.get(key)
            if wait:
                self._charge_step(wait, now_ns)
                self._since[key] = dict(self._sums_ns)
        self._unseen.clear()

    def end(self, key: Hashable, now_ns: int) -> Wait | None:
        """Somebody waits no longer; None: nothing is known of it."""
        wait = self._open.pop(key, None)
        if wait is not None:
            self._sum_up(now_ns)
            wait.end_ns = now_ns
            self._charge(key, wait, now_ns)
        return wait

    def drop(self, key: Hashable) -> None:
        """Forget who was never in the queue."""
        self._open.pop(key, None)

    def lasting(self, now_ns: int) -> list[Wait]:
        """Those that have not ended, as far as they have come. The last that is asked for."""
        self._sum_up(now_ns)
        for key, wait in self._open.items():
            self._charge(key, wait, now_ns)
        return list(self._open.values())

    @property
    def num_lasting(self) -> int:
        """How many there are."""
        return len(self._open)

    def _sum_up(self, now_ns: int) -> None:
        if self._reason is not None and now_ns > self._now_ns:
            self._sums_ns[self._reason] = self._sums_ns.get(self._reason, 0) + now_ns - self._now_ns
        self._now_ns = max(now_ns, self._now_ns)

    def _charge(self, key: Hashable, wait: Wait, now_ns: int) -> None:
        since = self._since.pop(key, None)
        if since is None:
            self._charge_step(wait, now_ns)
            return
        for reason, sum_ns in self._sums_ns.items():
            if sum_ns > since.get(reason, 0):
                wait.waits_ns[reason] = sum_ns - since.get(reason, 0)

    @staticmethod
    def _charge_step(wait: Wait, now_ns: int) -> None:
        if now_ns > wait.start_ns:
            wait.waits_ns[UNTIL_STEP] = now_ns - wait.start_ns
