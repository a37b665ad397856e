"""All that a scenario may say: every key with its type, range and default."""

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from sim import catalogue
from sim.errors import UserError
from sim.scenario.engine import DeploymentSpec, EngineSettings, SystemKeys, ToyLMSettings
from sim.scenario.latency import Latency, RooflineSpec
from sim.scenario.replicas import Replicas, ReplicasSpec
from sim.scenario.spec import Spec, one_of_catalogue, to_json
from sim.scenario.workload import WorkloadSpec

_FOLDER_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,59}"

# What a sweep may vary: the first part of its key paths -> how many parts follow it at least.
_SWEPT = {
    "model": 0,
    "hardware": 0,
    "runner": 0,
    "engine": 1,
    "deployment": 1,
    "replicas": 0,
    "latency": 1,
    "toy_lm": 1,
    "workload": 1,
    "systems": 2,
}


def named_systems(systems: Any) -> Any:
    """A mapping of systems; a list of names stands for the presets of these names."""
    if isinstance(systems, list) and all(isinstance(name, str) for name in systems):
        return {name: {"preset": name} for name in systems}
    return systems


def _known(load: Callable[[str], object], name: str) -> str:
    """A name that can be loaded. Raises ValueError, as pydantic expects of a validator."""
    try:
        load(name)
    except UserError as error:
        raise ValueError(str(error)) from None
    return name


def _known_preset(system: str, preset: Any) -> None:
    if not isinstance(preset, str):
        raise ValueError(f"{system}.preset: got {preset!r}, expected the name of a preset")
    try:
        catalogue.load_system(preset)
    except UserError as error:
        raise ValueError(f"{system}.preset: {error}") from None


class Scenario(Spec):
    """Everything that decides a result."""

    name: str = Field(
        description="Names the run folder: A-Z, a-z or a digit, then also . _ -; at most 60.",
        json_schema_extra={"pattern": f"^{_FOLDER_NAME}$"},
    )
    seed: int = Field(1, ge=0, le=2**63, description="Of all random streams.")
    replications: int = Field(
        1, ge=1, le=1000, description="Runs of every point, with seeds seed, seed + 1, ..."
    )
    model: str = Field(
        "llama-3.1-8b",
        description="Whose time is charged: a name of the catalogue, or the path of a config.json.",
        json_schema_extra={
            "anyOf": [{"enum": [*catalogue.names("models")]}, {"pattern": r"\.json$"}]
        },
    )
    hardware: Annotated[str, one_of_catalogue("hardware")] = Field(
        "a100-80gb", description="The GPU it runs on, of the catalogue."
    )
    deployment: DeploymentSpec = Field(
        DeploymentSpec(), description="How the model lies on the GPUs, and what it leaves there."
    )
    replicas: Replicas = Field(
        ReplicasSpec(),
        description="How many equal engines serve the requests, or `{count, router}`.",
    )
    latency: Latency = Field(
        RooflineSpec(kind="roofline"), description="How long a step takes, by kind."
    )
    runner: Literal["toy-lm", "replay"] = Field(
        "replay",
        description="toy-lm computes every token; replay follows the workload without tensors.",
    )
    toy_lm: ToyLMSettings = Field(
        ToyLMSettings(), description="The transformer that computes, with runner toy-lm."
    )
    engine: EngineSettings = Field(
        EngineSettings(), description="Settings of the engine, for all systems."
    )
    workload: WorkloadSpec = Field(description="What requests come, and when.")
    systems: Annotated[
        dict[str, dict[str, Any]],
        Field(min_length=1),
        BeforeValidator(
            named_systems,
            json_schema_input_type=list[Annotated[str, one_of_catalogue("systems")]]
            | dict[str, SystemKeys],
        ),
    ] = Field(
        {"default": {}},
        description="What is compared: a list of presets, or name -> the engine settings in which "
        "this system differs, `preset: NAME` for those of a system of the field.",
    )
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        {},
        description="Key paths and the values they take; all combinations are run.",
        json_schema_extra={
            "propertyNames": {"pattern": rf"^({'|'.join(_SWEPT)})(\.|$)"},
        },
    )

    @field_validator("name")
    @classmethod
    def _can_name_a_folder(cls, name: str) -> str:
        if not re.fullmatch(_FOLDER_NAME, name):
            raise ValueError(
                f"got {name!r}, expected A-Z, a-z or a digit, then also . _ -; at most 60"
            )
        return name

    @field_validator("model")
    @classmethod
    def _is_a_model(cls, name: str) -> str:
        if catalogue.is_config_path(name):
            catalogue.load_model(name)  # its mistakes name the file and pass as they are
            return name
        return _known(catalogue.load_model, name)

    @field_validator("hardware")
    @classmethod
    def _is_a_gpu(cls, name: str) -> str:
        return _known(catalogue.load_hardware, name)

    @field_validator("systems")
    @classmethod
    def _can_be_shown_and_compared(cls, systems: dict[str, dict[str, Any]]) -> dict[str, Any]:
        for name, settings in systems.items():
            if not re.fullmatch(r"[^\W_][\w .,:+/()=%-]{0,39}", name):
                raise ValueError(
                    f"got the name {name!r}, expected a letter or digit, then "
                    "letters, digits, spaces and any of . , : + / ( ) = % - _, at most 40"
                )
            if "preset" in settings:
                _known_preset(name, settings["preset"])
            if "max_model_len" in settings:
                raise ValueError(
                    f"max_model_len only in `engine`, for it shapes the requests that all systems "
                    f"see; {name!r} has one of its own"
                )
        return systems

    @field_validator("sweep")
    @classmethod
    def _can_be_swept(cls, sweep: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for key_path, values in sweep.items():
            first, *rest = key_path.split(".")
            if len(rest) < _SWEPT.get(first, 99):
                raise ValueError(
                    f"got {key_path!r}, expected model, hardware, runner, replicas, or a key of "
                    "engine, deployment, replicas, latency, toy_lm, workload or systems.NAME"
                )
            if any(value in values[:place] for place, value in enumerate(values)):
                raise ValueError(f"got a value of {key_path} twice, expected different ones")
        return sweep

    @model_validator(mode="after")
    def _sweeps_systems_that_are_there(self) -> Self:
        for key_path in self.sweep:
            first, *rest = key_path.split(".")
            if first == "systems" and rest[0] not in self.systems:
                raise ValueError(
                    f"sweep: got {key_path!r}, expected one of the systems "
                    f"{', '.join(self.systems)}"
                )
        return self

    @classmethod
    def load(cls, path: Path | str, *settings: str) -> "Scenario":
        """Of a YAML file, with settings such as "engine.block_size=8", as `kvsim run --set` takes.

        Raises UserError with one line for each mistake.
        """
        from sim.scenario.file import load_scenario  # which needs this class

        return load_scenario(Path(path), list(settings))

    @classmethod
    def parse(cls, data: Any) -> Self:
        """A scenario from plain data. Raises pydantic's ValidationError for all that is wrong."""
        return cls.model_validate_json(to_json(data))

    def engine_settings(self, system: str) -> dict[str, Any]:
        """The settings of one system: the common ones, those of its preset, and its own."""
        own = dict(self.systems[system])
        preset = own.pop("preset", None)
        return {
            **asdict(self.engine),
            **(catalogue.load_system(preset).engine if preset else {}),
            **own,
        }
