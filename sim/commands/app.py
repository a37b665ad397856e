"""The command `kvsim` itself, and what its commands have in common."""

from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from sim.commands import completion

# What a command needs is imported in it, so that `kvsim --help` does not wait for numpy.

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Simulate KV-cache serving of language models: what will this cache, scheduler and "
    "hardware do under this load?",
)


WithReport = Annotated[
    bool, typer.Option("--report", help="Leave a report.html in the folder, too.")
]


class OutputFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


# What many commands take.
ScenarioFile = Annotated[
    Path,
    typer.Argument(
        help="Scenario file, such as scenarios/chat.yaml.",
        autocompletion=completion.scenario_files,
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Override one key: --set engine.block_size=8 (repeatable).",
        autocompletion=completion.settings,
    ),
]
# Which run of which folder.
RunFolder = Annotated[
    Path,
    typer.Argument(
        help="Folder that `kvsim run` has left.",
        autocompletion=completion.run_folders,
        show_default=False,
    ),
]
System = Annotated[str | None, typer.Option(help="Which system of several.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Which seed of several.")]
At = Annotated[
    list[str] | None,
    typer.Option(help="Which point of a sweep: --at engine.block_size=8 (repeatable)."),
]
# Of every command that prints results. Beside --format it is short for --format json.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"kvsim {version('kvsim')}")
        raise typer.Exit


@app.callback()
def _main(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None: ...


def chosen_format(output_format: StrEnum, *, as_json: bool) -> str:
    """The value of --format, or json. Raises UserError where the two contradict each other."""
    from sim.errors import UserError

    if as_json and output_format.value not in ("table", "json"):
        raise UserError(
            f"--json: got --format {output_format.value} beside it, expected one of the two"
        )
    return "json" if as_json else str(output_format.value)
