"""How fast a replay is: a million requests, or as many as asked for, on one replica or several.

Lengths as in the Azure conversation trace of 2023 (means of 1,155 prompt and 211 output tokens),
Poisson arrivals near the capacity of one A100 with an 8-billion-parameter model, by the roofline,
and a cache large enough for it. Prints rates, seconds by phase, events and peak memory.

    python -m benchmarks.million --requests 100000
"""

import resource
import time
from typing import Annotated, Any

import simpy
import typer

from sim.metrics import summarise
from sim.scenario import Scenario
from sim.simulate import serve
from sim.sources import build_workload

_RATE = 6.7  # requests per second; 7.5 are too many


def main(
    requests: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="How many requests.")
    ] = 1_000_000,
    output_factor: Annotated[
        float, typer.Option(min=0.01, max=10, help="Scales the output lengths.")
    ] = 1.0,
    rate: Annotated[
        float, typer.Option(min=0.01, max=1e6, help="Requests per second, for each replica.")
    ] = _RATE,
    replicas: Annotated[int, typer.Option(min=1, max=1024, help="How many engines.")] = 1,
    router: Annotated[str, typer.Option(help="Who shares the requests out.")] = "round-robin",
    shared_tokens: Annotated[
        int,
        typer.Option(
            min=0, max=1100, help="Tokens of each prompt that are one of 20 system prompts."
        ),
    ] = 0,
    prefix_caching: Annotated[bool, typer.Option(help="Share equal prefixes.")] = False,
    asynchronous: Annotated[bool, typer.Option(help="Asynchronous scheduling.")] = False,
    stepwise: Annotated[bool, typer.Option(help="Take every step by itself.")] = False,
    num_blocks: Annotated[
        int, typer.Option(min=1025, max=10_000_000, help="Blocks of 16 tokens in the cache.")
    ] = 26_700,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the workload.")] = 1,
) -> None:
    """Generate, simulate and summarise one run, and print what each cost."""
    scenario = Scenario.parse(
        {
            "name": "million",
            "seed": seed,
            "engine": {
                "num_blocks": num_blocks,
                "max_num_seqs": 256,
                "max_model_len": 16384,
                "enable_prefix_caching": prefix_caching,
                "async_scheduling": asynchronous,
            },
            "replicas": {"count": replicas, "router": router},
            "workload": _workload(requests, rate * replicas, output_factor, shared_tokens),
        }
    )
    env = simpy.Environment()
    started_s = time.perf_counter()
    workload = build_workload(scenario)
    generated_s = time.perf_counter()
    records = serve(scenario, "default", workload, env=env, stepwise=stepwise)
    simulated_s = time.perf_counter()
    summary = summarise(records)
    summarised_s = time.perf_counter()

    simulate_s = simulated_s - generated_s
    num_events = next(env._eid)  # SimPy numbers what it schedules
    _line("requests", requests)
    _line("simulated requests/s", requests / simulate_s)
    _line("simulated output tokens/s", _number(summary["output_tokens"]) / simulate_s)
    _line("steps per request", _number(summary["steps"]) / requests, 2)
    _line("SimPy events per request", num_events / requests, 2)
    steps = records.steps
    running = float((steps["running"] * steps["duration_ns"]).sum() / steps["duration_ns"].sum())
    _line("running at once, mean", running, 1)
    _line("pool held, %", 100 * _number(summary["block_utilisation"]), 1)
    _line("preemptions", _number(summary["preemptions"]))
    _line("generate, s", generated_s - started_s, 2)
    _line("simulate, s", simulate_s, 2)
    _line("summarise, s", summarised_s - simulated_s, 2)
    _line("altogether, s", summarised_s - started_s, 2)
    _line("peak memory, MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)


def _workload(
    requests: int, rate: float, output_factor: float, shared_tokens: int
) -> dict[str, Any]:
    outputs = {"mean": 211 * output_factor, "sigma": 0.86, "max": round(1000 * output_factor)}
    own = {"mean": 1155 - shared_tokens, "sigma": 0.98, "max": 14050 - shared_tokens}
    prompts: dict[str, Any] = {"unique": {"lognormal": own}}
    if shared_tokens:
        prompts["shared"] = {"groups": 20, "tokens": shared_tokens}
    return {
        "requests": requests,
        "arrivals": {"poisson": {"rate": rate}},
        "prompts": prompts,
        "outputs": {"lognormal": outputs},
    }


def _number(value: float | None) -> float:
    assert value is not None
    return value


def _line(name: str, value: float, decimals: int = 0) -> None:
    print(f"{name:28}{value:14,.{decimals}f}")


if __name__ == "__main__":
    typer.run(main)
