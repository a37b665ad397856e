"""docs/reference/cli.md, from the command line itself."""

import re

import typer.main
from typer.cli import get_docs_for_click

from docs.generate.markdown import MADE
from sim.commands import app


def cli_page() -> str:
    """Every command with its options, as typer lists them; examples as commands."""
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="kvsim")
    text = get_docs_for_click(obj=command, ctx=context, name="kvsim", title="Commands")
    text = re.sub(r"\*\*Usage\*\*:\n\n```console\n\$ (.*)\n```", r"Usage: `\1`", text)
    text = re.sub(r"^ *Example: (.*)$", r"```sh\n\1\n```", text, flags=re.M)
    return MADE.format(source="sim/commands/") + text.strip() + "\n"
