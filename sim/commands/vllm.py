"""Commands that read vLLM: its decisions, its start-up log, its metrics."""

from pathlib import Path
from typing import Annotated

import typer

from sim.commands import completion
from sim.commands.app import AsJson, app


@app.command()
def conformance(
    paths: Annotated[list[Path], typer.Argument(help="Case folders, or folders of cases.")],
    as_json: AsJson = False,
) -> None:
    """Compare every decision of the engine with recordings of vLLM's scheduler.

    Exit status 0 only if all cases are equal.

    Example: kvsim conformance recordings/
    """
    from sim.conformance.compare import compare_all

    if not compare_all(paths, as_json=as_json):
        raise typer.Exit(1)


@app.command()
def record_vllm(
    workload: Annotated[
        Path, typer.Argument(help="A workload.jsonl, or a case whose settings are taken as well.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder of the new case; must not exist.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Give one setting: --set block_size=8 (repeatable)."),
    ] = None,
) -> None:
    """Record what the scheduler of an installed vLLM decides, as a case for `conformance`.

    Needs vLLM, which kvsim does not install; runs no model.

    Example: kvsim record-vllm workload.jsonl recordings/mine --set num_blocks=256
    """
    from sim.conformance.record_vllm import record_case

    record_case(workload, out, overrides or [])


import_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make a scenario of what a running vLLM prints and exports.",
)


app.add_typer(import_app, name="import")


@import_app.command()
def vllm_log(
    file: Annotated[str, typer.Argument(help="Log of its start, plain or gzipped; - for stdin.")],
    out: Annotated[
        Path | None, typer.Option(help="New scenario file; without: standard output.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a scenario of the settings that a vLLM logged when it started, line by line.

    Its workload is a placeholder, to be replaced.

    Example: kvsim import vllm-log server.log --out mine.yaml
    """
    from sim.vllm_import.command import import_log

    import_log(file, out, as_json=as_json)


@import_app.command()
def metrics(
    file: Annotated[
        str, typer.Argument(help="What vLLM answers at /metrics, plain or gzipped; - for stdin.")
    ],
    since: Annotated[
        str | None, typer.Option(help="Earlier scrape; only what came after it counts.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=1e-3, help="How long was counted: since the start, or --since."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New scenario file; without: standard output.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a scenario of the load that a vLLM counted: rate, prompts, outputs, and its cache.

    Example: kvsim import metrics after.txt --since before.txt --seconds 600 --out load.yaml
    """
    from sim.vllm_import.command import import_metrics

    import_metrics(file, since, seconds, out, as_json=as_json)


@app.command()
def diff(
    run_folder: Annotated[
        Path,
        typer.Argument(help="A folder that kvsim run left.", autocompletion=completion.run_folders),
    ],
    file: Annotated[
        str, typer.Argument(help="What vLLM answers at /metrics, plain or gzipped; - for stdin.")
    ],
    since: Annotated[
        str | None, typer.Option(help="Earlier scrape; only what came after it counts.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="Which system of the run, where it has several.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a simulated run with the metrics of a vLLM, under the names that vLLM gives them.

    Example: kvsim diff runs/mine-0123456789 after.txt --since before.txt
    """
    from sim.vllm_import.command import diff as print_difference

    print_difference(run_folder, file, since, system, as_json=as_json)
