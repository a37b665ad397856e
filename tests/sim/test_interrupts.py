"""Ctrl-C, SIGTERM and SIGKILL, while a process works and while others work for it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim.parallel import over_cores

# Where the tests run in the background, their processes are born deaf to Ctrl-C.
START = """
import os, runpy, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from sim.interrupts import end_on_signals
end_on_signals()
"""
WORK = """
import pathlib, time
pathlib.Path(__file__).with_suffix(".begun").touch()
time.sleep(60)
"""


@pytest.fixture
def working(tmp_path: Path):
    """A process of a group of its own, with two workers that are at work."""
    paths = [tmp_path / "0.py", tmp_path / "1.py"]
    for path in paths:
        path.write_text(WORK)
    code = f"""{START}
sys.modules["psutil"] = None  # without it workers are ended in another way
from sim.parallel import over_cores
try:
    list(over_cores(runpy.run_path, {[str(path) for path in paths]}))
except KeyboardInterrupt:
    print("ended")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.begun"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def living(group: int) -> list[str]:
    argv = ["ps", "-o", "stat=,args=", "-g", str(group)]
    lines = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
    return [line for line in lines if not line.startswith("Z")]


@pytest.mark.parametrize("first", ["SIGINT", "SIGTERM"])
def test_only_the_first_signal_counts(first):
    """What comes while it cleans up breaks nothing off."""
    code = f"""{START}
try:
    os.kill(os.getpid(), signal.{first})
    time.sleep(5)
except (KeyboardInterrupt, SystemExit) as error:
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
    print("cleaned up after", type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    raised = {"SIGINT": "KeyboardInterrupt", "SIGTERM": "SystemExit"}[first]
    assert (done.stdout, done.stderr) == (f"cleaned up after {raised}\n", "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_python_cleans_up_is_not_lost(name):
    """What is raised in `__del__` goes nowhere."""
    code = f"""{START}
class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0)
try:
    Dying()
    time.sleep(5)
except (KeyboardInterrupt, SystemExit):
    print("ended")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_ctrl_c_at_the_very_end_is_too_late(tmp_path):
    """All is said; Python waits for what is still under way."""
    code = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from sim.cli import main
def late():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.5)
threading._register_atexit(late)
sys.argv = ["kvsim", "--version"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("kvsim")


def test_ctrl_c_twice_ends_all_workers_without_a_word(working):
    """As a terminal does it: to every process of the group."""
    for _ in range(2):
        os.killpg(working.pid, signal.SIGINT)
        time.sleep(0.05)
    assert working.communicate(timeout=20) == ("ended\n", "")
    assert living(working.pid) == []


def test_what_is_no_longer_wanted_ends_without_a_word(recwarn):
    """As where a result cannot be kept."""
    outcomes = over_cores(time.sleep, [0, 60, 60])
    next(outcomes)
    outcomes.close()
    assert [str(warning.message) for warning in recwarn] == []


def test_on_a_single_core_the_process_itself_works_to_the_end():
    code = (
        "from sim.parallel import over_cores; import time; list(over_cores(time.sleep, [0, 1.5]))"
    )
    environment = os.environ | {"LOKY_MAX_CPU_COUNT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == 0


def test_workers_end_with_the_process_that_is_killed(working):
    working.kill()
    deadline = time.monotonic() + 20
    while living(working.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert living(working.pid) == []
