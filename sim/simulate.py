"""Runs one system of a scenario: workload, engines, latency model, recorders under one clock."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import simpy

from engine.request import Request, SamplingParams
from sim.build import build_engine
from sim.clients import send
from sim.fleet import Fleet, fleet_records
from sim.instant import Answers
from sim.latency.block_moves import with_block_moves
from sim.latency.build import build_latency
from sim.recorder import Recorder
from sim.records import Records
from sim.replica import Replica
from sim.router import build_router
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.scenario.requests import SloSpec
from sim.slo import with_slos
from sim.sources import build_workload
from sim.watched import WatchedRecorder, Watcher
from workloads import Workload


def simulate(
    scenario: Scenario,
    system: str,
    on_progress: Callable[[float], None] = lambda _: None,
    *,
    stepwise: bool = False,
) -> Records:
    """Serve the scenario's workload with one of its systems, to the end.

    on_progress: told, every now and then, what further share of the run is done.
    stepwise: take every step by itself, the reference for taking many at once: same records.
    Raises UserError or WorkloadError when the scenario names what cannot be had.
    """
    workload = build_workload(scenario)
    return serve(scenario, system, workload, on_progress, stepwise=stepwise)


def serve(
    scenario: Scenario,
    system: str,
    workload: Workload,
    on_progress: Callable[[float], None] = lambda _: None,
    *,
    stepwise: bool = False,
    env: simpy.Environment | None = None,
    watcher: Watcher | None = None,
) -> Records:
    """Serve a workload that is there already, in an environment of one's own; see `simulate`.

    watcher: is told what happens, where every step is taken by itself.
    """
    config = build_config(scenario, system)
    env = env or simpy.Environment()
    latency = with_block_moves(build_latency(scenario).latency, scenario, config)
    num_replicas = scenario.replicas.count
    answers = Answers(env) if num_replicas > 1 else None
    recorders: list[Recorder] = []
    replicas: list[Replica] = []
    for number in range(num_replicas):
        engine = build_engine(scenario, config, workload, stepwise=stepwise)
        watched = watcher and partial(WatchedRecorder, watcher, number, engine)
        recorder = (watched or Recorder)(
            len(workload),
            config.block_size,
            lambda done: on_progress(done / len(workload)),
            num_outputs=workload.num_outputs,
            dates_evictions=config.enable_prefix_caching,
            beside=recorders[0] if recorders else None,
        )
        recorders.append(recorder)
        replicas.append(Replica(env, engine, latency, recorder, answers, number))
    fleet = Fleet(replicas, build_router(scenario.replicas.router, scenario.seed), len(workload))
    send(env, fleet, workload, request_maker(workload))
    with rare_garbage_collection():
        env.run()
    records = fleet_records(recorders, fleet.replica_of, workload.prompt_tokens, workload.notes)
    return _with_classes(records, workload, scenario.workload.slos)


def _with_classes(records: Records, workload: Workload, slos: dict[str, SloSpec]) -> Records:
    """With what tells requests apart, if anything does, and whether they got what is promised."""
    columns: dict[str, Any] = {}
    if workload.previous is not None:
        columns["session"] = workload.session_numbers
        columns["turn"] = workload.turn_numbers
    if workload.class_numbers is not None:
        columns["class"] = np.array(workload.class_names)[workload.class_numbers]
    if workload.priority is not None:
        columns["priority"] = workload.priority
    if not columns:
        return records
    requests = records.requests.assign(**columns)
    return replace(records, requests=with_slos(requests, slos, workload.num_outputs))


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """A run makes hardly any cycles, but to look for them among its objects takes a fifth of it."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def request_maker(workload: Workload) -> Callable[[int], Request]:
    """Makes the requests of a workload by number."""
    # The workload says where an output ends, so the toy LM must not end it by itself.
    sampling = SamplingParams(
        n=workload.num_outputs, beam_search=workload.beams is not None, ignore_eos=True
    )
    max_new_tokens = workload.max_new_tokens.data
    if workload.priority is None:
        return lambda i: Request(i, workload.prompt(i), max_new_tokens[i], sampling)
    priority = workload.priority.data
    return lambda i: Request(i, workload.prompt(i), max_new_tokens[i], sampling, priority[i])
