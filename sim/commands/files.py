"""Commands that help to write a scenario: its schema, a first one, and what it can name."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sim.commands.app import AsJson, app


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="New scenario file.")] = Path("scenario.yaml"),
    trace: Annotated[
        Path | None, typer.Option(help="Of requests, to be replayed instead of made-up ones.")
    ] = None,
) -> None:
    """Write a first scenario, with a comment on each key, and the schema that editors check it by.

    Example: kvsim init starter.yaml
    """
    from sim.starter.command import write_starter

    write_starter(file, trace)


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files: every key with its meaning, range and default.

    Example: kvsim schema > scenario.schema.json
    """
    from sim.scenario.json_schema import schema_text

    print(schema_text(), end="")


class Kind(StrEnum):
    """What can be listed."""

    SCENARIOS = "scenarios"
    SYSTEMS = "systems"
    GPUS = "gpus"
    MODELS = "models"
    WORKLOADS = "workloads"
    FIGURES = "figures"
    METRICS = "metrics"


@app.command("list")
def list_kind(
    kind: Annotated[Kind | None, typer.Argument(help="Without: the names of all kinds.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what a scenario can name, and what runs are measured by.

    Example: kvsim list gpus
    """
    from sim.listing.command import print_all, print_kind

    if kind is None:
        print_all(as_json=as_json)
    else:
        print_kind(kind.value, as_json=as_json)


@app.command()
def systems(as_json: AsJson = False) -> None:
    """Show the serving systems that a scenario can name, and what settings they stand for.

    In a scenario: `systems: [orca-max, vllm]`, or with other settings besides
    `systems: {small: {preset: vllm, max_num_seqs: 8}}`.

    Example: kvsim systems
    """
    from sim.listing.command import print_kind

    print_kind("systems", as_json=as_json)


@app.command()
def workloads(as_json: AsJson = False) -> None:
    """Show the kinds of requests that a scenario can name, and what settings they stand for.

    In a scenario: `workload: {preset: chat, requests: 1000, arrivals: {poisson: {rate: 5}}}`.

    Example: kvsim workloads
    """
    from sim.listing.command import print_kind

    print_kind("workloads", as_json=as_json)
