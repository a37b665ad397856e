"""Sweeps by real clusters of Dask and Ray, started here: the bytes are those of this machine."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from sim import clusters
from sim.clusters import over_cluster

pytestmark = pytest.mark.slow

GRID = ("--set", "engine.max_num_seqs=1,2,4,8,16,32", "--set", "latency.step_time_s=0.01,0.02")
LONG = ("--set", "workload.requests=40000")
ENDLESS = ("--set", "latency.step_time_s=1e9", "--set", "workload.outputs=20")
DASK = """
import sys, time
from distributed import LocalCluster
if __name__ == "__main__":
    num, port = map(int, sys.argv[1:])
    LocalCluster(
        n_workers=num, threads_per_worker=2, scheduler_port=port, dashboard_address=None
    )
    time.sleep(300)
"""


def needs(module: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed: make extras")


def free_port() -> int:
    """Above those that Ray gives to its workers."""
    for port in range(20_000 + secrets.randbelow(5000), 32_000):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError


def wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as one:
            if not one.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.2)
    raise AssertionError(f"nobody listens on {port}")


def ended(process: subprocess.Popen) -> None:
    """And whatever it started."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@pytest.fixture(scope="module")
def new_dask(tmp_path_factory):
    """Starts a scheduler with so many worker processes: its address."""
    needs("distributed")
    script = tmp_path_factory.mktemp("dask") / "cluster.py"
    script.write_text(DASK)
    started = []

    def start(num_workers: int) -> str:
        port = free_port()
        argv = [sys.executable, str(script), str(num_workers), str(port)]
        started.append(subprocess.Popen(argv, start_new_session=True))
        wait_for(port)
        return f"tcp://127.0.0.1:{port}"

    yield start
    for process in started:
        ended(process)


@pytest.fixture(scope="module")
def ray_head():
    """The address of a head with two workers, and what a client needs in its environment."""
    needs("ray")
    port = free_port()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    options = [
        *("--head", "--block", "--port", str(port), "--num-cpus", "2", "--disable-usage-stats"),
        *("--include-dashboard=false", "--object-store-memory", "100000000"),
    ]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("ray")), "start", *options],
        env=os.environ | token,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(port)
    yield f"127.0.0.1:{port}", token
    ended(process)


def swept(kvsim, out: str, *args: str, **environment: str) -> dict[str, bytes]:
    """Of each table and result its bytes."""
    done = kvsim("sweep", "small.yaml", *GRID, "--out", out, "--quiet", *args, **environment)
    assert done.returncode == 0, done.stderr
    folder = kvsim.folder / out / "small"
    paths = [folder / "table.csv", *(folder / "results").rglob("*.json")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def wait_for_results(folder: Path, num: int) -> None:
    for _ in range(900):
        if len(list(folder.rglob("[!.]*.json"))) >= num:
            return
        time.sleep(0.1)
    raise AssertionError(f"{folder} never held {num} results")


def interrupted(kvsim, *args: str, **environment: str) -> None:
    """Ctrl-C after some results is one line."""
    process = subprocess.Popen(
        kvsim.argv("sweep", "small.yaml", *GRID, *LONG, "--quiet", *args),
        cwd=kvsim.folder,
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    results = kvsim.folder / "sweeps/small/results"
    wait_for_results(results, 2)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    (line,) = err.splitlines()
    assert line.startswith("kvsim: interrupted; ")
    assert len(list(results.rglob("[!.]*.json"))) == int(line.split()[2]) >= 2


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    return line


def test_a_dask_cluster_gives_the_same_bytes(kvsim, new_dask):
    at = ("--backend", "dask", "--address", new_dask(2))
    assert swept(kvsim, "dask", *at) == swept(kvsim, "local")
    done = kvsim(
        "sweep",
        "small.yaml",
        *at,
        "--set",
        "latency.step_time_s=1e9",
        "--set",
        "workload.outputs=20",
        "--quiet",
    )
    assert "goes past 292 years" in one_line(done)  # a mistake that only a worker sees
    interrupted(kvsim, *at)


def test_dask_on_this_machine_gives_the_same_bytes(kvsim):
    needs("distributed")
    assert swept(kvsim, "dask", "--backend", "dask") == swept(kvsim, "local")


def test_a_dask_scheduler_without_workers_is_one_line(kvsim, new_dask):
    done = kvsim("sweep", "small.yaml", "--backend", "dask", "--address", new_dask(0), "--quiet")
    assert "has no workers, expected at least one" in one_line(done)


def test_a_dask_scheduler_that_goes_away_is_one_line(kvsim, tmp_path):
    needs("distributed")
    script = tmp_path / "cluster.py"
    script.write_text(DASK)
    port = free_port()
    scheduler = subprocess.Popen(
        [sys.executable, str(script), "1", str(port)],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    wait_for(port)
    process = subprocess.Popen(
        kvsim.argv(
            *("sweep", "small.yaml", *GRID, *LONG, "--quiet"),
            *("--backend", "dask", "--address", f"127.0.0.1:{port}"),
        ),
        cwd=kvsim.folder,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    wait_for_results(kvsim.folder / "sweeps/small/results", 1)
    os.killpg(scheduler.pid, signal.SIGKILL)
    scheduler.wait(30)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    (line,) = err.splitlines()
    assert line.startswith("kvsim: --backend dask: ")


def test_a_ray_cluster_gives_the_same_bytes(kvsim, ray_head):
    address, token = ray_head
    at = ("--backend", "ray", "--address", address)
    assert swept(kvsim, "ray", *at, **token) == swept(kvsim, "local")
    assert "goes past 292 years" in one_line(
        kvsim("sweep", "small.yaml", *at, *ENDLESS, "--quiet", **token)
    )
    interrupted(kvsim, *at, **token)


def test_ray_on_this_machine_gives_the_same_bytes(kvsim):
    needs("ray")
    assert swept(kvsim, "ray", "--backend", "ray") == swept(kvsim, "local")


def test_what_is_left_after_a_mistake_is_cancelled(monkeypatch):
    """As after Ctrl-C. Ray is played here: four tasks, done one by one."""
    cancelled: list[int] = []
    ray = SimpleNamespace(
        remote=lambda work: SimpleNamespace(remote=lambda _, place, item: place),
        wait=lambda pending: (pending[:1], pending[1:]),
        get=lambda places: [(place, None, None) for place in places],
        cancel=cancelled.append,
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(clusters, "_join_ray", lambda address: None)
    attempts = over_cluster(str, "abcd", "ray", None)
    assert next(attempts)[0] == 0
    attempts.close()
    assert cancelled == [1, 2, 3]
    assert len(list(over_cluster(str, "abcd", "ray", None))) == 4
    assert cancelled == [1, 2, 3]


@pytest.mark.parametrize(
    ("backend", "module", "what"),
    [("dask", "distributed", "Dask scheduler"), ("ray", "ray", "Ray head")],
)
def test_nobody_at_the_address_is_one_line(kvsim, backend, module, what):
    needs(module)
    for address in (f"127.0.0.1:{free_port()}", "nonsense"):
        at = ("--backend", backend, "--address", address)
        done = kvsim("sweep", "small.yaml", *at, "--quiet")
        assert f"--address: got {address}, which is no {what}: " in one_line(done)


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_what_is_not_installed_is_one_line(kvsim, backend, module):
    folder = kvsim.folder / "missing" / module
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError")
    path = os.pathsep.join([str(folder.parent), os.environ.get("PYTHONPATH", "")])
    done = kvsim("sweep", "small.yaml", "--backend", backend, "--quiet", PYTHONPATH=path)
    assert "not installed, expected pip install 'kvsim[cluster]'" in one_line(done)


def test_an_address_needs_a_backend(kvsim):
    done = kvsim("sweep", "small.yaml", "--address", "127.0.0.1:8786", "--quiet")
    assert "--address: got 127.0.0.1:8786, expected --backend dask or ray" in one_line(done)
