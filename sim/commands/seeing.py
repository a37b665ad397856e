"""Commands that show what a run has found."""

from pathlib import Path
from typing import Annotated

import typer

from sim.commands import completion
from sim.commands.app import At, RunFolder, Seed, System, app


@app.command()
def plot(
    folder: RunFolder,
    figure: Annotated[
        str,
        typer.Option(
            help="Its name; `kvsim list figures` has them all, with what they need.",
            autocompletion=completion.figures,
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write, .png or .svg.")],
    at: At = None,
) -> None:
    """Draw one figure of a run.

    Example: kvsim plot runs/chat-0123456789 --figure queues --out queues.svg
    """
    from sim.plots.command import plot as plot_run

    plot_run(folder, figure, out, at or [])


@app.command()
def report(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder that `kvsim run`, `sweep` or `plan` has left.",
            autocompletion=completion.run_folders,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="File to write; report.html in the folder if not given.")
    ] = None,
) -> None:
    """Write one HTML file that shows what was found: it needs no network and can be sent.

    Example: kvsim report runs/chat-0123456789
    """
    from sim.report.command import write_report

    write_report(folder, out)


@app.command()
def timeline(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(help="File to write, .json or .json.gz.")],
    system: System = None,
    seed: Seed = None,
    at: At = None,
    window: Annotated[
        str | None, typer.Option(help="FROM,TO in seconds of the run; all of it if not given.")
    ] = None,
    events: Annotated[
        int, typer.Option(min=1, help="The window ends where so many events are used up.")
    ] = 100_000,
) -> None:
    """Write what happened in a run, step by step, for ui.perfetto.dev or chrome://tracing.

    Example: kvsim timeline runs/azure-conv-0123456789 --out timeline.json.gz
    """
    from sim.rerun import parse_window
    from sim.timeline.command import write_timeline

    write_timeline(
        folder,
        system,
        seed,
        at or [],
        window=parse_window(window),
        most_events=events,
        out=out,
    )


@app.command()
def blocks(
    folder: RunFolder,
    out: Annotated[
        Path, typer.Option(help="File to write: .png, .svg or .html; .gif or .html with --animate.")
    ],
    system: System = None,
    seed: Seed = None,
    at: At = None,
    time: Annotated[
        float | None,
        typer.Option(min=0, help="Second of the run; the most telling moment if not given."),
    ] = None,
    animate: Annotated[bool, typer.Option("--animate", help="A film of the run.")] = False,
    window: Annotated[
        str | None, typer.Option(help="FROM,TO in seconds of the run; all of it if not given.")
    ] = None,
) -> None:
    """Draw the pool, block by block: who holds what, what is shared, empty, cached or free.

    Example: kvsim blocks runs/azure-conv-0123456789 --out blocks.png
    """
    from sim.blocks.command import draw_blocks
    from sim.rerun import parse_window

    draw_blocks(
        folder,
        system,
        seed,
        at or [],
        time_s=time,
        animate=animate,
        window=parse_window(window),
        out=out,
    )
