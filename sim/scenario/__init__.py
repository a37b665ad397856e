"""What a scenario may say: the schema, and the files that scenarios are read from."""

from sim.scenario.engine import DeploymentSpec, engine_config
from sim.scenario.latency import (
    LATENCY_KINDS,
    ConstantSpec,
    FittedSpec,
    LinearSpec,
    ProfileSpec,
    RooflineSpec,
    SiliconSpec,
)
from sim.scenario.scenario import Scenario

__all__ = [
    "LATENCY_KINDS",
    "ConstantSpec",
    "DeploymentSpec",
    "FittedSpec",
    "LinearSpec",
    "ProfileSpec",
    "RooflineSpec",
    "Scenario",
    "SiliconSpec",
    "engine_config",
]
