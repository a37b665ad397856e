"""What SimPy alone manages: a process that sleeps, again and again, and does nothing else.

The floor under any simulation with it; `million` prints how many events a request takes.

    python -m benchmarks.floor
"""

import time
from collections.abc import Generator

import simpy

_NUM_EVENTS = 500_000


def main() -> None:
    """Print the best of five, in events per second."""
    print(f"{max(_events_per_s() for _ in range(5)):,.0f} events/s")


def _events_per_s() -> float:
    env = simpy.Environment()
    env.process(_sleeper(env))
    started_s = time.perf_counter()
    env.run()
    return _NUM_EVENTS / (time.perf_counter() - started_s)


def _sleeper(env: simpy.Environment) -> Generator[simpy.Event, None, None]:
    for _ in range(_NUM_EVENTS):
        yield env.timeout(1)


if __name__ == "__main__":
    main()
