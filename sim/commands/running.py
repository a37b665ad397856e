"""Commands that run a scenario, and look at what it left."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sim.commands.app import OutputFormat, app


class Batching(StrEnum):
    """When a request may join the batch."""

    STATIC = "static"
    CONTINUOUS = "continuous"


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario file, such as scenarios/chat.yaml.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key: --set engine.block_size=8 (repeatable)."),
    ] = None,
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
        OutputFormat, typer.Option("--format", help="What is printed.")
    ] = OutputFormat.TABLE,
) -> None:
    """Run every system of a scenario, print the comparison and leave a folder of results.

    Example: kvsim run scenarios/chat.yaml --set engine.num_blocks=256
    """
    from sim.run_command import run_scenario

    seed_override = [f"seed={seed}"] if seed is not None else []
    run_scenario(
        scenario,
        [*(overrides or []), *seed_override],
        out,
        quiet=quiet,
        stepwise=stepwise,
        output_format=output_format.value,
    )


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
) -> None:
    """Continue prompts with the toy transformer and show the paged cache at every step.

    Its weights are random: the text means nothing, the blocks are real.

    Example: kvsim demo --prompts "hello world" "hello there" "goodbye" --max-new 16
    """
    from sim.demo import demo_lines

    for line in demo_lines(
        prompts,
        max_new_tokens=max_new,
        block_size=block_size,
        num_blocks=num_blocks,
        batching=batching.value,
        enable_prefix_caching=prefix_sharing,
    ):
        print(line)


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(help="Folder that `kvsim run` has left.")],
    request: Annotated[
        int | None, typer.Argument(min=0, help="Number of a request, to see its life alone.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="Which system of several.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Which seed of several.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="Which point of a sweep: --at engine.block_size=8 (repeatable)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
) -> None:
    """Say where the time of requests went: queueing, for what; prompts; decodes; preemptions.

    Example: kvsim explain runs/azure-conv-0123456789 --system continuous
    """
    from sim.explain.command import explain as explain_run

    explain_run(folder, request, system, seed, at or [], as_json=as_json)
