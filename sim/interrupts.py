"""Ctrl-C and SIGTERM: they end this process once, and never those that work for it."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TERMINATED = 143  # exit status; 128 + SIGTERM
_PATIENCE_S = 5  # for ending; a signal may get lost inside a library, so then the next one counts
_AGAIN_S = 0.05


def end_on_signals() -> None:
    """The first Ctrl-C is a KeyboardInterrupt, the first SIGTERM an exit.

    What comes while this process is ending changes nothing: it would break off the cleaning up.
    """
    last_s = -float("inf")
    report = sys.unraisablehook

    def end(number: int, _: object) -> None:
        nonlocal last_s
        if time.monotonic() - last_s < _PATIENCE_S:
            return
        last_s = time.monotonic()
        if number == signal.SIGTERM:
            sys.exit(_TERMINATED)
        raise KeyboardInterrupt

    def unless_lost(lost: "sys.UnraisableHookArgs") -> None:
        """Python only reports what is raised where it cleans up: so the signal is sent again."""
        nonlocal last_s
        if lost.exc_type not in (KeyboardInterrupt, SystemExit):
            report(lost)
            return
        number = signal.SIGINT if lost.exc_type is KeyboardInterrupt else signal.SIGTERM
        last_s = -float("inf")
        again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    sys.unraisablehook = unless_lost
    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is to be ignored
        signal.signal(signal.SIGINT, end)


def ignore_signals() -> None:
    """From now on neither changes anything, for this process is at its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Workers started meanwhile never see Ctrl-C: this process ends them, without tracebacks."""
    from multiprocessing import resource_tracker  # slow to import, and every command starts here

    resource_tracker.ensure_running()  # whose start, among that of workers, would let them see it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
