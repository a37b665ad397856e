"""Commands about requests."""

from pathlib import Path
from typing import Annotated

import typer

from sim.commands.app import AsJson, app


@app.command()
def trace(
    file: Annotated[str, typer.Argument(help="A file of requests, plain or gzipped; - for stdin.")],
    format_name: Annotated[
        str | None, typer.Option("--format", help="Its format, where its content does not show it.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="tokenizer.json or tokenizer.model that counts the tokens of texts."),
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of a block; as the trace knows content if not given."),
    ] = None,
    convert: Annotated[
        Path | None, typer.Option(help="New file in kvsim's own format, .csv or .jsonl.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Figure of what a prefix cache finds, .png or .svg.")
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="New scenario with a workload that resembles it, .yaml.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in a trace: requests, rates, lengths, and how much of them could be shared.

    Example: kvsim trace conversation_trace.jsonl.gz --figure sharing.png
    """
    from sim.trace.command import show_trace

    show_trace(
        file, format_name, block_size, convert, figure, fit, tokenizer=tokenizer, as_json=as_json
    )
