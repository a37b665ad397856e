"""Commands that run a scenario, and look at what it left."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sim.commands.app import (
    AsJson,
    At,
    RunFolder,
    ScenarioFile,
    Seed,
    Settings,
    System,
    WithReport,
    app,
    chosen_format,
)
from sim.errors import UserError


class RunFormat(StrEnum):
    """How the results of a run are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PROMETHEUS = "prometheus"


class Batching(StrEnum):
    """When a request may join the batch."""

    STATIC = "static"
    CONTINUOUS = "continuous"


@app.command()
def run(
    scenario: ScenarioFile,
    overrides: Settings = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first run.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for run folders.")] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")] = False,
    stepwise: Annotated[
        bool,
        typer.Option(
            "--stepwise",
            help="Take every step by itself, as toy-lm does anyway: slower, the same results.",
        ),
    ] = False,
    output_format: Annotated[
        RunFormat, typer.Option("--format", help="What is printed.")
    ] = RunFormat.TABLE,
    as_json: AsJson = False,
    report: WithReport = False,
) -> None:
    """Run every system of a scenario, print the comparison and leave a folder of results.

    Example: kvsim run scenarios/chat.yaml --set engine.num_blocks=256
    """
    from sim.run_command import run_scenario

    seed_override = [f"seed={seed}"] if seed is not None else []
    folder = run_scenario(
        scenario,
        [*(overrides or []), *seed_override],
        out,
        quiet=quiet,
        stepwise=stepwise,
        output_format=chosen_format(output_format, as_json=as_json),
    )
    if report:
        from sim.report.command import write_report

        write_report(folder, quiet=quiet)


@app.command()
def demo(
    prompts: Annotated[list[str], typer.Argument(help="Texts to continue.")],
    _prompts_follow: Annotated[
        bool, typer.Option("--prompts", help="May stand before the prompts.")
    ] = False,
    max_new: Annotated[int, typer.Option(min=1, help="Most tokens to produce per prompt.")] = 16,
    block_size: Annotated[int, typer.Option(min=1, help="Token positions in a block.")] = 4,
    num_blocks: Annotated[int, typer.Option(min=1, help="Blocks in the pool.")] = 64,
    batching: Annotated[Batching, typer.Option(help="How requests are batched.")] = (
        Batching.CONTINUOUS
    ),
    prefix_sharing: Annotated[
        bool,
        typer.Option(
            "--prefix-sharing/--no-prefix-sharing", help="Share blocks of equal prefixes."
        ),
    ] = True,
    watch: Annotated[
        bool, typer.Option("--watch", help="Draw the blocks instead, as the model writes.")
    ] = False,
    delay: Annotated[
        float, typer.Option(min=0, help="Seconds for which --watch shows each step.")
    ] = 0.2,
    as_json: AsJson = False,
) -> None:
    """Continue prompts with the toy transformer and show the paged cache at every step.

    Its weights are random: the text means nothing, the blocks are real.

    Example: kvsim demo --prompts "hello world" "hello there" "goodbye" --max-new 16 --watch
    """
    from sim.demo import Demo, print_demo

    if watch and as_json:
        raise UserError("--json: got it with --watch, expected one of the two")
    shown = Demo(
        prompts,
        max_new_tokens=max_new,
        block_size=block_size,
        num_blocks=num_blocks,
        batching=batching.value,
        enable_prefix_caching=prefix_sharing,
    )
    if watch:
        from sim.blocks.demo import watch_demo

        watch_demo(shown, delay)
    else:
        print_demo(shown, as_json=as_json)


@app.command()
def explain(
    folder: RunFolder,
    request: Annotated[
        int | None, typer.Argument(min=0, help="Number of a request, to see its life alone.")
    ] = None,
    system: System = None,
    seed: Seed = None,
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Say where the time of requests went: queueing, for what; prompts; decodes; preemptions.

    Example: kvsim explain runs/azure-conv-0123456789 --system continuous
    """
    from sim.explain.command import explain as explain_run

    explain_run(folder, request, system, seed, at or [], as_json=as_json)
