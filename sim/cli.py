"""Where the command `kvsim` starts and ends: signals, mistakes, exit statuses."""

import re
import sys
from io import TextIOWrapper

from sim.errors import InterruptedRun
from sim.interrupts import end_on_signals, ignore_signals

# All that takes a while to import is imported where Ctrl-C is answered.

_INTERRUPTED = 130  # exit status after Ctrl-C, which typer turns into it; 128 + SIGINT


_LONG_WORD = re.compile(r"\S{400,}")  # than any path: a value that a mistake tells


def main() -> None:
    """Entry point: user mistakes are one line on stderr and exit status 2."""
    end_on_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every character
    status = _run_app()
    if status == _INTERRUPTED:
        ignore_signals()  # else one more, while Python ends, kills it
    sys.exit(status)


def _run_app() -> int:
    try:
        from sim.commands import app

        status: int = app(args=sys.argv[1:] or ["--help"], standalone_mode=False) or 0
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except InterruptedRun as error:
        return _complain(str(error), _INTERRUPTED)
    except OSError as error:  # such as a full disk behind stdout
        return _complain(f"cannot write: {(error.strerror or str(error)).lower()}", status=1)
    except MemoryError:
        return _complain("not enough memory for so much", status=2)
    except Exception as error:
        message = _mistake(error)
        if message is None:
            raise
        return _complain(message, status=2)
    if status == _INTERRUPTED:
        _complain("interrupted; nothing was kept", status)
    return status


def _complain(message: str, status: int) -> int:
    for line in message.splitlines():
        print(f"kvsim: {_LONG_WORD.sub(_cut, line)}", file=sys.stderr)
    return status


def _cut(word: re.Match[str]) -> str:
    return f"{word[0][:60]}…"


def _mistake(error: Exception) -> str | None:
    """What the user did wrong, in words; None if it was not the user."""
    import typer

    from engine.config import ConfigError
    from engine.request import RequestError
    from sim.errors import UserError
    from workloads.errors import WorkloadError

    if isinstance(error, typer.TyperException):
        return error.format_message()
    is_mistake = isinstance(error, UserError | ConfigError | RequestError | WorkloadError)
    return str(error) if is_mistake else None
