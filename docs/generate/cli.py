"""docs/reference/cli.md, from the command line itself."""

import re
from collections.abc import Iterator
from typing import Any

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
    for path, name, about in _commands("kvsim", command):
        text = _listed(text, name, f"* [`{name}`](#{path}-{name}): {about}")
    return MADE.format(source="sim/commands/") + text.strip() + "\n"


def _listed(text: str, name: str, line: str) -> str:
    """With a line of a list of commands that is not cut short."""
    return re.sub(rf"^\* `{name}`: .*$", lambda _: line, text, count=1, flags=re.M)


def _commands(path: str, group: Any) -> Iterator[tuple[str, str, str]]:
    """Of each command, with those below it: the anchor of its group, its name, what it does."""
    for name, command in group.commands.items():
        yield path, name, " ".join((command.help or "").partition("\n\n")[0].split())
        if hasattr(command, "commands"):
            yield from _commands(f"{path}-{name}", command)
