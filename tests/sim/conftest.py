"""Small worlds to simulate in, scenario files to make mistakes in, and the command as a process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import simpy

from engine import (
    Engine,
    EngineConfig,
    ReplayEngine,
    ReplayRunner,
    Request,
    Runner,
    SamplingParams,
)
from engine.step import Step
from sim.catalogue.hardware import Hardware
from sim.catalogue.model import Model
from sim.clients import send
from sim.experiment import plan_jobs, run_job
from sim.latency.linear import LinearLatency
from sim.latency.model import LatencyModel
from sim.recorder import Recorder
from sim.records import Records
from sim.replica import Replica
from sim.run_folder import write_run
from sim.scenario import Scenario
from sim.scenario.file import load_scenario
from workloads import ClosedLoop, Workload

ROOT = Path(__file__).parents[2]

SMALL_SCENARIO = """\
name: small
latency: {kind: constant, step_time_s: 0.01}
workload:
  requests: 5
  arrivals: {constant: {rate: 10}}
  prompts: {unique: 8}
  outputs: 4
"""


def small_scenario(**changed: Any) -> Scenario:
    """Five requests of 8 + 4 tokens, 100 ms apart, steps of 10 ms; `changed` replaces top keys."""
    small: dict[str, Any] = {
        "name": "small",
        "latency": {"kind": "constant", "step_time_s": 0.01},
        "workload": {
            "requests": 5,
            "arrivals": {"constant": {"rate": 10}},
            "prompts": {"unique": 8},
            "outputs": 4,
        },
    }
    return Scenario.parse(small | changed)


def hand_made_workload(
    *lengths: tuple[int, int],
    arrival_ms: list[int] | None = None,
    closed_loop: ClosedLoop | None = None,
    content_ids: list[int] | None = None,
    max_new_tokens: int | None = None,
    num_outputs: int = 1,
) -> Workload:
    """Requests of (prompt, output) tokens, one segment each; equal content ids are equal text.

    max_new_tokens: the limit that each states; None: the length of its output.
    """
    prompt_tokens, output_tokens = np.array(lengths, dtype=np.int64).T
    num_requests = len(lengths)
    numbers = np.arange(num_requests, dtype=np.int64)
    limits = output_tokens
    if max_new_tokens is not None:
        limits = np.full(num_requests, max_new_tokens, dtype=np.int64)
    arrival_ns = None
    if arrival_ms is not None:
        arrival_ns = np.array(arrival_ms, dtype=np.int64) * 1_000_000
    return Workload(
        arrival_ns=arrival_ns,
        closed_loop=closed_loop,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        max_new_tokens=limits,
        segment_offsets=np.arange(num_requests + 1, dtype=np.int64),
        segment_ids=numbers if content_ids is None else np.array(content_ids, dtype=np.int64),
        segment_tokens=prompt_tokens,
        answer_ids=1000 + num_outputs * numbers,
        num_outputs=num_outputs,
    )


def serve_workload(
    workload: Workload,
    *,
    latency: LatencyModel | None = None,
    runner: Runner | None = None,
    **settings: Any,
) -> Records:
    """Serve every request with one engine to the end, by default in steps of 10 ms.

    Without a runner it is done twice, by an engine that hands out every answer step by step and by
    one that takes many steps at once: what they leave is the same.
    """
    small: dict[str, Any] = {"block_size": 4, "num_blocks": 64, "max_model_len": 64}
    config = EngineConfig(**(small | settings))
    latency = latency or LinearLatency(step_s=0.01)
    if runner is not None:
        return served(workload, Engine(config, runner, with_text=False), latency)
    answers = {
        (i, output) if workload.num_outputs > 1 else i: workload.answer(i, output)
        for i in range(len(workload))
        for output in range(workload.num_outputs)
    }
    stepwise = served(workload, Engine(config, ReplayRunner(answers), with_text=False), latency)
    records = served(
        workload, ReplayEngine(config, workload.output_tokens.tolist().__getitem__), latency
    )
    assert_equal(records, stepwise)
    return records


def served(workload: Workload, engine: Engine | ReplayEngine, latency: LatencyModel) -> Records:
    """What comes of a workload that an engine serves to the end."""
    recorder = Recorder(
        len(workload),
        engine.config.block_size,
        lambda _: None,
        num_outputs=workload.num_outputs,
    )
    env = simpy.Environment()
    replica = Replica(env, engine, latency, recorder)

    def make_request(i: int) -> Request:
        limit = int(workload.max_new_tokens[i])
        sampling = SamplingParams(n=workload.num_outputs, ignore_eos=True)
        return Request(i, workload.prompt(i), limit, sampling)

    send(env, replica, workload, make_request)
    env.run()
    engine.check()
    return recorder.records(workload.prompt_tokens, workload.notes)


def assert_equal(records: Records, others: Records) -> None:
    """Every fact in them is the same."""
    pd.testing.assert_frame_equal(records.requests, others.requests)
    pd.testing.assert_frame_equal(records.steps, others.steps)
    for name in ("notes", "first_refusal"):
        assert getattr(records, name) == getattr(others, name)
    for part, other_part in zip(
        [records, *records.replicas], [others, *others.replicas], strict=True
    ):
        for name in ("itl_ns", "evicted_for_ns"):
            columns = zip(getattr(part, name), getattr(other_part, name), strict=True)
            assert all(column.tolist() == other.tolist() for column, other in columns), name
        for name in ("slot_ns", "saved_slot_ns"):
            assert getattr(part, name) == getattr(other_part, name)


def run_of(text: str, folder: Path) -> Path:
    """The folder that `kvsim run` leaves of a scenario file with this text, without figures."""
    (folder / "file.yaml").write_text(text, "utf-8")
    scenario = load_scenario(folder / "file.yaml")
    results = [run_job(job) for job in plan_jobs(scenario)]
    with patch("sim.plots.run_figures.draw_figures"):
        write_run(folder, scenario, results)
    return folder


# A model and a GPU to work sums out by hand with. Of a layer: qkv 8 x 16, o 8 x 8, gate_up 8 x 32,
# down 16 x 8; output 8 x 100. A token's KV takes 2 layers x 2 (K, V) x 2 heads x 2 numbers
# x 2 bytes = 32 bytes, a pair of query and token 2 layers x 4 heads x 2 numbers x 4 = 64 FLOP.
TINY_MODEL: dict[str, Any] = {
    "title": "tiny",
    "source": "made up",
    "num_layers": 2,
    "d_model": 8,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_size": 2,
    "d_ff": 16,
    "vocab_size": 100,
}
TINY_GPU: dict[str, Any] = {
    "name": "tiny",
    "title": "a tiny GPU",
    "source": "made up",
    "peak_flop_per_s": {"bf16": 2e9, "fp8": 4e9, "fp32": 1e9},
    "memory_bytes": 1e9,
    "bandwidth_bytes_per_s": 2e9,
    "interconnect": "link",
    "interconnect_bytes_per_s": 2e9,
}


def tiny_model(**changed: Any) -> Model:
    return Model(**TINY_MODEL | changed)


def tiny_gpu(**changed: Any) -> Hardware:
    return Hardware(**TINY_GPU | changed)


def step_of(num_decodes: int = 0, context: int = 0, prefills: list | None = None) -> Step:
    """A step of decodes with so much context together, and chunks of (tokens, before them)."""
    step = Step(0)
    step.add_decodes(num_decodes, context)
    step.prefills += prefills or []
    return step


class Command:
    """`kvsim` as a process in a folder of its own, which holds small.yaml."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "small.yaml").write_text(SMALL_SCENARIO, "utf-8")

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, "-c", "from sim.cli import main; main()", *args]

    def __call__(self, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*args),
            cwd=self.folder,
            env=os.environ | {"COLUMNS": "100"} | environment,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )

    def left(self, folder: str = "runs") -> list[str]:
        """What lies in a folder for runs, hidden files included; empty where there is none."""
        path = self.folder / folder
        return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []


@pytest.fixture(scope="session")
def new_scenario() -> Callable[..., Scenario]:
    """Makes a Scenario: `new_scenario(seed=2)`."""
    return small_scenario


@pytest.fixture(scope="session")
def new_workload() -> Callable[..., Workload]:
    """Makes a Workload: `new_workload((4, 3), (4, 2), arrival_ms=[0, 15])`."""
    return hand_made_workload


@pytest.fixture(scope="session")
def serve() -> Callable[..., Records]:
    """Serves a Workload: `serve(workload, max_num_seqs=1)`."""
    return serve_workload


@pytest.fixture(scope="session")
def assert_equal_records() -> Callable[[Records, Records], None]:
    """Compares two Records fact by fact."""
    return assert_equal


@pytest.fixture(scope="session")
def new_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a run folder: `new_run(text_of_a_scenario_file)`."""
    return lambda text: run_of(text, tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def new_step() -> Callable[..., Step]:
    """Makes a Step: `new_step(3, 5000, [(100, 0)])`."""
    return step_of


@pytest.fixture(scope="session")
def new_model() -> Callable[..., Model]:
    """Makes a tiny Model: `new_model(num_experts=4)`."""
    return tiny_model


@pytest.fixture(scope="session")
def new_gpu() -> Callable[..., Hardware]:
    """Makes a tiny GPU: `new_gpu(memory_bytes=2e9)`."""
    return tiny_gpu


@pytest.fixture
def kvsim(tmp_path: Path) -> Command:
    """Runs the command: `kvsim("run", "small.yaml", "--quiet")`."""
    return Command(tmp_path)


@pytest.fixture(scope="module")
def kvsim_of_module(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The same for what several tests of a module look at."""
    return Command(tmp_path_factory.mktemp("kvsim"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture
def data_dir() -> Path:
    folder = os.environ.get("KVSIM_DATA")
    if not folder:
        pytest.skip("KVSIM_DATA is not set: it names the folder with traces/")
    return Path(folder)
