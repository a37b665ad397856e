"""What copying blocks costs, against bytes by bandwidths worked out by hand."""

from typing import Any

import pytest

from engine.kv_manager import Moves
from engine.step import Step
from sim.latency.block_moves import with_block_moves
from sim.latency.linear import LinearLatency
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.simulate import simulate

OPT_13B_TOKEN_BYTES = 819_200  # published: "800 KB"
BLOCK_BYTES = 16 * OPT_13B_TOKEN_BYTES


def scenario(latency: dict[str, Any], n: int = 1, **settings: Any) -> Scenario:
    return Scenario.parse(
        {
            "name": "moves",
            "model": "opt-13b",
            "hardware": "a100-80gb",
            "latency": latency,
            "engine": {"num_blocks": 40, "max_model_len": 256} | settings,
            "deployment": {"swap_bandwidth_bytes_per_s": 10e9},
            "workload": {
                "requests": 30,
                "arrivals": {"constant": {"rate": 1e9}},
                "prompts": {"unique": 60},
                "outputs": 60,
                "n": n,
            },
        }
    )


def moved(spec: Scenario, moves: Moves) -> int:
    """Nanoseconds of a step of 10 ms that moves blocks, beyond these."""
    latency = with_block_moves(LinearLatency(step_s=0.01), spec, build_config(spec, "default"))
    step = Step(0)
    step.add_decodes(1, 1)
    step.moves = moves
    return latency.step_time_ns(step) - 10_000_000


def test_swapped_blocks_take_bytes_by_bandwidth():
    spec = scenario({"kind": "constant", "step_time_s": 0.01}, preemption="swap")
    expected = 3 * BLOCK_BYTES / 10e9 * 1e9
    assert moved(spec, Moves([(0, 1), (1, 2)], [(3, 4)], [])) == pytest.approx(expected, abs=1)


def test_copies_within_the_gpu_are_read_and_written():
    """At 71 % of the 2.039 TB/s of an A100 80 GB; free where times are of no GPU."""
    moves = Moves([], [], [(0, 1)] * 5)
    on_gpu = scenario({"kind": "roofline"}, n=2)
    assert moved(on_gpu, moves) == pytest.approx(
        5 * 2 * BLOCK_BYTES / 2.039e12 / 0.71 * 1e9, rel=0.01
    )
    assert moved(scenario({"kind": "constant", "step_time_s": 0.01}, n=2), moves) == 0


def test_a_slower_bus_makes_the_same_run_longer():
    """What is decided is the same, and each preemption costs its blocks there and back."""
    ends = []
    for bandwidth in (1e9, 1e12):
        spec = scenario({"kind": "constant", "step_time_s": 0.01}, preemption="swap")
        deployment = spec.deployment.model_copy(update={"swap_bandwidth_bytes_per_s": bandwidth})
        records = simulate(spec.model_copy(update={"deployment": deployment}), "default")
        ends.append((records.requests["finished_ns"].max(), records.requests["preemptions"].sum()))
    (slow_ns, slow_preemptions), (fast_ns, fast_preemptions) = ends
    assert slow_preemptions == fast_preemptions > 0
    block_ns = BLOCK_BYTES * (1 / 1e9 - 1 / 1e12) * 1e9
    num_moves = (slow_ns - fast_ns) / block_ns
    assert num_moves == pytest.approx(round(num_moves), abs=0.01)
    assert num_moves >= 2 * slow_preemptions
