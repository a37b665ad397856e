"""Commands that show what a run has found."""

from pathlib import Path
from typing import Annotated

import typer

from sim.commands.app import app


@app.command()
def plot(
    run: Annotated[Path, typer.Argument(help="Folder that `kvsim run` has left.")],
    figure: Annotated[
        str, typer.Option(help="Its name; `kvsim list figures` has them all, with what they need.")
    ],
    out: Annotated[Path, typer.Option(help="File to write, .png or .svg.")],
    at: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE of what was swept (repeatable); the last point if not given."),
    ] = None,
) -> None:
    """Draw one figure of a run.

    Example: kvsim plot runs/chat-09cd4a8103 --figure queues --out queues.svg
    """
    from sim.plots.command import plot as plot_run

    plot_run(run, figure, out, at or [])


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `kvsim run` has left.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write; report.html in the folder if not given.")
    ] = None,
) -> None:
    """Write one HTML file that shows what was found: it needs no network and can be sent.

    Example: kvsim report runs/chat-09cd4a8103
    """
    from sim.report.command import write_report

    write_report(folder, out)
