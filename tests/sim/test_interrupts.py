"""Ctrl-C, once and twice, in this process and in its workers."""

import os
import subprocess
import sys

# In a process of its own: workers outlive what started them first.
WORKERS = """
import signal
from sim.parallel import over_cores

def hears_ctrl_c(_):
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])

if __name__ == "__main__":
    print(*[heard for _, heard in over_cores(hears_ctrl_c, range(4))])
"""

# Where the tests run in the background, their processes are born deaf to it.
PRESSED = """
import os, shutil, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import sim.simulate
press = lambda: os.kill(os.getpid(), signal.SIGINT)
build, rmtree = sim.simulate.build_workload, shutil.rmtree

def build_workload(*args):
    press()
    return build(*args)

left = iter(range({presses} - 1))

def remove(*args, **kwargs):
    for _ in left:
        press()
    rmtree(*args, **kwargs)

sim.simulate.build_workload, shutil.rmtree = build_workload, remove
from sim.cli import main
main()
"""


def pressed(kvsim, presses: int) -> subprocess.CompletedProcess[str]:
    """`kvsim run small.yaml`, with Ctrl-C while it simulates, and again while it cleans up."""
    code = PRESSED.format(presses=presses)
    argv = [sys.executable, "-c", code, "run", "small.yaml"]
    return subprocess.run(
        argv, cwd=kvsim.folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_second_ctrl_c_does_not_disturb_the_cleaning_up(kvsim):
    done = pressed(kvsim, 2)
    assert done.returncode == 130
    assert done.stderr.splitlines() == [
        "kvsim: cleaning up; once more to end at once",
        "kvsim: interrupted; nothing was kept",
    ]
    assert [path.name for path in kvsim.folder.iterdir()] == ["small.yaml"]


def test_third_ctrl_c_ends_at_once(kvsim):
    done = pressed(kvsim, 3)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "nothing was kept" not in done.stderr


def test_workers_do_not_hear_it(tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS, "utf-8")
    environment = os.environ | {"LOKY_MAX_CPU_COUNT": "2"}
    done = subprocess.run(
        [sys.executable, "workers.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["False"] * 4, "")
