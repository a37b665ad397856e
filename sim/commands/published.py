"""Commands about what is known of systems: measurements, publications."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sim.commands import completion
from sim.commands.app import AsJson, app


class LatencyKind(StrEnum):
    """Where step times come from."""

    ROOFLINE = "roofline"
    ROOFLINE_COMMON = "roofline-common"
    PROFILE = "profile"
    SILICON = "silicon"
    FITTED = "fitted"


@app.command()
def validate(
    paths: Annotated[list[Path], typer.Argument(help="Folders of measured runs.")],
    latency: Annotated[
        LatencyKind | None,
        typer.Option(help="Step times; without it the best there is for each folder."),
    ] = None,
    fit: Annotated[
        list[Path] | None,
        typer.Option("--fit", help="Measured steps to fit step times on (repeatable)."),
    ] = None,
    host_cost_from: Annotated[
        Path | None,
        typer.Option(help="Folder of measured runs on which the host's cost a step is fitted."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the rows and the figure.")] = Path(
        "runs/validation"
    ),
    as_json: AsJson = False,
) -> None:
    """Predict runs that were measured on real systems, and print how far off that is.

    Example: kvsim validate measured/rtx4090-llama-3.1-8b --latency roofline
    """
    from sim.validation.command import validate_cases

    validate_cases(
        paths,
        latency.value if latency else None,
        fit or [],
        host_cost_from,
        out,
        as_json_text=as_json,
    )


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Publications, such as vllm-0.6.0; without: all.",
            autocompletion=completion.published,
        ),
    ] = None,
    scenarios: Annotated[
        Path, typer.Option(help="Folder of published figures and of their scenarios.")
    ] = Path("scenarios/published"),
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key of every scenario (repeatable)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for pages and figures.")] = Path(
        "runs/reproduced"
    ),
    as_json: AsJson = False,
) -> None:
    """Simulate what publications printed, and set ours beside theirs.

    Example: kvsim reproduce pagedattention-memory
    """
    from sim.reproduce.command import reproduce as reproduce_papers

    reproduce_papers(names or [], scenarios, overrides or [], out, as_json=as_json)


@app.command()
def fit_roofline(
    hardware: Annotated[
        str,
        typer.Argument(
            help="GPU of the catalogue.", autocompletion=completion.names_of("hardware")
        ),
    ],
    folders: Annotated[list[Path], typer.Argument(help="Folders of tables measured on it.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="Model whose layers were measured, where they were.",
            autocompletion=completion.names_of("models"),
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit what share of its peaks a GPU reaches, as sim/catalogue/efficiency.toml has it.

    Example: kvsim fit-roofline rtx-4090 my-profile --model llama-3.1-8b
    """
    from sim.fit_roofline.command import print_efficiency

    print_efficiency(hardware, folders, model, as_json=as_json)


class Device(StrEnum):
    """Where operators are timed."""

    CUDA = "cuda"
    CPU = "cpu"


@app.command()
def profile_gpu(
    model: Annotated[
        str,
        typer.Argument(
            help="A model of the catalogue, such as llama-3.1-8b.",
            autocompletion=completion.names_of("models"),
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the tables; must not exist.")],
    device: Annotated[Device, typer.Option(help="What is timed.")] = Device.CUDA,
    tp: Annotated[
        int, typer.Option(min=1, help="GPUs that share the model; one of them is timed.")
    ] = 1,
    max_tokens: Annotated[int, typer.Option(min=16, help="Most tokens of a step.")] = 2048,
) -> None:
    """Time the operators of a model's layer on this machine's GPU, as a profile for `run`.

    Needs torch (pip install 'kvsim[gpu]') and minutes, but no weights: they are random.

    Example: kvsim profile-gpu llama-3.1-8b --out profiles/mine
    """
    from sim.profile_gpu.command import profile_gpu as profile

    profile(model, out, device=device.value, tensor_parallel_size=tp, max_tokens=max_tokens)
