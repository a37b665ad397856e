"""A sweep of 24 points on one core and on two, in turns: how many times as fast.

python -m benchmarks.sweep --turns 3
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SCENARIO = """\
name: sweep
latency: {kind: constant, step_time_s: 0.01}
workload:
  requests: 12000
  arrivals: {poisson: {rate: 20}}
  prompts: {unique: 200}
  outputs: {exponential: {mean: 100, max: 1000}}
"""
_GRID = (
    *("--set", "engine.max_num_seqs=8,16,32,64,128,256"),
    *("--set", "engine.block_size=8,16,32,64"),
)


def main() -> None:
    """Print each turn, and the median; CPU time tells how much others on the machine took away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    num_turns = parser.parse_args().turns
    ratios = []
    for _ in range(num_turns):
        load = os.getloadavg()[0]
        (one_s, one_cpu_s), (two_s, two_cpu_s) = _seconds({0}), _seconds({0, 1})
        ratios.append(one_s / two_s)
        print(
            f"one core {one_s:.1f} s (CPU {one_cpu_s:.1f} s), two {two_s:.1f} s "
            f"(CPU {two_cpu_s:.1f} s): {ratios[-1]:.2f} times as fast; load before {load:.1f}",
            flush=True,
        )
    print(f"median {sorted(ratios)[num_turns // 2]:.2f}")


def _seconds(cores: set[int]) -> tuple[float, float]:
    """Of the whole command, imports, table and figures included; and of CPU time."""
    command = "import os; os.sched_setaffinity(0, {}); from sim.cli import main; main()"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.yaml"
        path.write_text(_SCENARIO, "utf-8")
        started_s, used_s = time.perf_counter(), _cpu_s()
        args = ["sweep", str(path), *_GRID, "--out", folder, "--quiet"]
        subprocess.run(
            [sys.executable, "-c", command.format(cores), *args],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return time.perf_counter() - started_s, _cpu_s() - used_s


def _cpu_s() -> float:
    """Of processes that ended."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
