"""Commands that run many points, or search."""

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sim.commands import completion
from sim.commands.app import AsJson, OutputFormat, ScenarioFile, WithReport, app, chosen_format


class BackendName(StrEnum):
    """Who makes the runs."""

    LOCAL = "local"
    DASK = "dask"
    RAY = "ray"


@app.command()
def sweep(
    scenario: ScenarioFile,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Values of one key: --set engine.block_size=8,16,32 (repeatable; all "
            "combinations are run); a single value is set in all runs.",
            autocompletion=completion.settings,
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Runs of each point, as many seeds.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only so many points, spread evenly over the grid.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="Such as 5%: go on until the half-widths of all 95 % intervals (output tokens/s, "
            "mean TTFT and TPOT) are that share of their means."
        ),
    ] = None,
    warmup: Annotated[
        str,
        typer.Option(help="What is not counted of the start: auto (MSER-5), none, or seconds."),
    ] = "auto",
    backend: Annotated[BackendName, typer.Option(help="Who makes the runs.")] = BackendName.LOCAL,
    address: Annotated[
        str | None, typer.Option(help="Of the scheduler of a Dask or Ray cluster.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the folders of sweeps.")] = Path("sweeps"),
    output_format: Annotated[
        OutputFormat, typer.Option("--format", help="How the results are printed.")
    ] = OutputFormat.TABLE,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")] = False,
    report: WithReport = False,
) -> None:
    """Run a scenario at many points, several times each, over all cores or a cluster.

    Every result is kept under what decides it: the same command, after an interruption or with
    other values, computes only what is missing.

    Example: kvsim sweep scenarios/chat.yaml --set engine.block_size=8,16,32 --seeds 5
    """
    from sim.parallel import Backend
    from sim.sweep.command import Options, sweep_scenario

    options = Options(
        sample=sample,
        seeds=seeds,
        precision=precision,
        warmup=warmup,
        backend=Backend(backend.value, address),
        out=out,
        output_format=chosen_format(output_format, as_json=as_json),
        quiet=quiet,
    )
    folder = sweep_scenario(scenario, settings or [], options)
    if report:
        from sim.report.command import write_report

        write_report(folder, quiet=quiet)


class Find(StrEnum):
    """What a plan looks for."""

    RATE = "rate"
    CONCURRENCY = "concurrency"
    REPLICAS = "replicas"
    NUM_BLOCKS = "num_blocks"


def _rate(text: str) -> float:
    """Raises UserError; Typer's own bounds say neither what came nor that inf is none."""
    from sim.errors import UserError

    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 1e-6 <= rate < math.inf:
        expected = "expected requests per second above 0 (1e-06 or more), and finite"
        raise UserError(f"--rate: got {text}, {expected}")
    return rate


@app.command()
def plan(
    scenario: ScenarioFile,
    slo: Annotated[
        str,
        typer.Option(
            help="What is promised: ttft_p99<1s,tpot_p99<50ms; of each request: ttft<1s,tpot<50ms "
            "(see --attainment); or in multiples of the request alone: ttft_p90<5x."
        ),
    ],
    find: Annotated[
        Find, typer.Option(help="The highest rate or concurrency, or fewest replicas or blocks.")
    ] = Find.RATE,
    rate: Annotated[
        float | None,
        typer.Option(
            parser=_rate,
            metavar="<float range>",
            help="Requests (or sessions) per second to serve.  [x>=1e-06]",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="One value is set; several are alternatives, each searched: "
            "--set hardware=a100-80gb,h100-80gb --set deployment.tensor_parallel_size=1,2",
            autocompletion=completion.settings,
        ),
    ] = None,
    optimize: Annotated[
        bool,
        typer.Option(
            "--optimize",
            help="Of the alternatives try only some, which Optuna proposes, and search the best "
            "three; pip install 'kvsim[optimize]'.",
        ),
    ] = False,
    trials: Annotated[
        int | None, typer.Option(min=1, help="How many --optimize tries.  [default: 20]")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="Which system, where the scenario has several.")
    ] = None,
    attainment: Annotated[
        str | None,
        typer.Option(
            help="Share of the requests that must keep promises of each request.  [default: 90%]"
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=3, max=100, help="Runs of a value where two do not tell.")
    ] = 4,
    most_seeds: Annotated[
        int | None,
        typer.Option(min=3, max=1000, help="At most, where fewer do not tell.  [default: 10]"),
    ] = None,
    warmup: Annotated[
        str,
        typer.Option(help="What is not counted of the start: auto (MSER-5), none, or seconds."),
    ] = "auto",
    gpu_price: Annotated[
        str | None,
        typer.Option(help="Of a GPU hour, 3, or of each type, h100-80gb=3,a100-80gb=1.5."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--neighbours/--no-neighbours", help="Try settings beside the answer.")
    ] = True,
    backend: Annotated[BackendName, typer.Option(help="Who makes the runs.")] = BackendName.LOCAL,
    address: Annotated[
        str | None, typer.Option(help="Of the scheduler of a Dask or Ray cluster.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the folders of plans.")] = Path("plans"),
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")] = False,
    report: WithReport = False,
) -> None:
    """Find the most that keeps promises of latency, or the least that is needed, and how surely.

    Example: kvsim plan scenarios/azure_conv.yaml --slo "ttft_p99<1s,tpot_p99<50ms"
    """
    from sim.errors import UserError
    from sim.parallel import Backend
    from sim.plan.command import Options, plan_scenario
    from sim.whole_file import refuse_unwritable

    if trials is not None and not optimize:
        raise UserError(f"--trials: got {trials} without --optimize, expected both")
    if most_seeds is not None and most_seeds < seeds:
        raise UserError(f"--most-seeds: got {most_seeds}, expected {seeds} (--seeds) or more")
    refuse_unwritable(out, out)
    options = Options(
        slo=slo,
        find=find.value,
        rate=rate,
        system=system,
        attainment=attainment,
        seeds=(seeds, most_seeds or max(seeds, 10)),
        warmup=warmup,
        gpu_price=gpu_price,
        compare=compare,
        trials=(trials or 20) if optimize else None,
        backend=Backend(backend.value, address),
        out=out,
        as_json=as_json,
        quiet=quiet,
    )
    folder = plan_scenario(scenario, settings or [], options)
    if report:
        from sim.report.command import write_report

        write_report(folder, quiet=quiet)
