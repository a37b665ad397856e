"""What happens at one instant of the simulated clock, and in which order."""

import simpy
from simpy.events import EventPriority

from engine.request import RequestId

# At an instant all that comes by the clock is first (SimPy's own priorities are 0 and 1); then
# steps end, in the order of the replicas; then clients hear of it and may send what they send next;
# then steps begin. So nothing depends on the order in which replicas came to an instant.
ENDS = 2
ANSWERS = EventPriority(1 << 20)
BEGINS = EventPriority(ANSWERS + 1)


class Late(simpy.Event):
    """A time after all of lower priority that happens at its instant."""

    def __init__(self, env: simpy.Environment, delay_ns: int, priority: EventPriority) -> None:
        # As simpy.Timeout does it, without the constructor of Event, for there are many.
        self.env = env
        self.callbacks = []
        self._value = None
        self._ok = True
        env.schedule(self, priority, delay_ns)


class Answers:
    """The clients of all replicas who wait for the ends of their requests."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._awaited: dict[RequestId, simpy.Event] = {}
        self._last_ns = -1

    def of(self, request_id: RequestId) -> simpy.Event:
        """The end of a request that is in an engine, as an event."""
        return self._awaited.setdefault(request_id, self._env.event())

    def give(self, request_id: RequestId) -> None:
        """A request has ended: whoever waits for it hears of it when all steps have that end now.

        Does nothing where nobody does.
        """
        event = self._awaited.pop(request_id, None)
        if event is not None:
            event._ok, event._value = True, None  # as Event.succeed does it, but later
            self._env.schedule(event, ANSWERS)
            self._last_ns = self._env.now  # type: ignore[assignment]  # whole, as every delay is

    @property
    def are_given_now(self) -> bool:
        """Whether somebody hears at this instant: then all steps have ended that end now."""
        return self._last_ns == self._env.now

    @property
    def are_awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._awaited)
