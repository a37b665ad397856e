"""Commands that set the engine in real time beside its simulation."""

from pathlib import Path
from typing import Annotated

import typer

from sim.commands import completion
from sim.commands.app import AsJson, ScenarioFile, Settings, app


@app.command()
def calibrate(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="Whose toy model, engine and lengths of requests.",
            autocompletion=completion.scenario_files,
        ),
    ] = None,
    overrides: Settings = None,
    out: Annotated[Path, typer.Option(help="CSV file for the steps; replaced if there.")] = Path(
        "steps.csv"
    ),
    as_json: AsJson = False,
) -> None:
    """Time the toy engine's steps on this machine and fit a latency model to them.

    A scenario uses it as `latency: {kind: fitted, files: [steps.csv]}`.

    Example: kvsim calibrate scenarios/twin.yaml --out steps.csv
    """
    from sim.twin.command import calibrate_scenario

    calibrate_scenario(scenario, overrides or [], out, as_json=as_json)


@app.command()
def twin(
    scenario: ScenarioFile,
    overrides: Settings = None,
    as_json: AsJson = False,
    in_cpu_time: Annotated[
        bool,
        typer.Option(
            "--cpu-time", help="Stop the clock of the real run while other processes have the CPU."
        ),
    ] = False,
) -> None:
    """Run a scenario in real time on the toy engine and simulated, and compare the two.

    The simulation has the step times that are measured on this machine before and after.

    Example: kvsim twin scenarios/twin.yaml --set workload.requests=1000
    """
    from sim.twin.command import twin_scenario

    twin_scenario(scenario, overrides or [], as_json=as_json, in_cpu_time=in_cpu_time)
