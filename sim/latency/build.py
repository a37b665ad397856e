"""The step-latency model that a scenario asks for, and in words where its times come from."""

from pathlib import Path
from typing import NamedTuple

from sim import catalogue
from sim.deployment import Deployment
from sim.latency.fitted import describe, describe_residuals, fit_files
from sim.latency.linear import LinearLatency
from sim.latency.model import LatencyModel
from sim.latency.operators import OperatorLatency, Operators
from sim.latency.profile import profile_operators
from sim.latency.roofline import roofline_operators
from sim.latency.silicon import silicon_operators
from sim.scenario import (
    ConstantSpec,
    FittedSpec,
    LinearSpec,
    ProfileSpec,
    RooflineSpec,
    Scenario,
    SiliconSpec,
)
from sim.scenario.deployed import build_deployment


class Described(NamedTuple):
    """A latency model, and in words where its times are from."""

    latency: LatencyModel
    source: str


def build_latency(scenario: Scenario) -> Described:
    """The step times of a scenario.

    Raises UserError where tables or a library are missing, or do not cover the deployment.
    """
    spec = scenario.latency
    if isinstance(spec, ConstantSpec):
        return Described(LinearLatency(step_s=spec.step_time_s), spec.kind)
    if isinstance(spec, LinearSpec):
        return Described(LinearLatency(**spec.model_dump(exclude={"kind"})), spec.kind)
    if isinstance(spec, FittedSpec):
        return _fitted(spec)
    deployment = build_deployment(scenario)
    operators = build_operators(deployment, spec)
    host = {"overhead_s": spec.overhead_s, "per_sequence_s": spec.per_sequence_s}
    source = f"{operators.source}; {_describe(deployment)}; {_describe_host(spec)}"
    return Described(OperatorLatency(operators, **host), source)


def build_operators(
    deployment: Deployment, spec: RooflineSpec | ProfileSpec | SiliconSpec
) -> Operators:
    """The operators of a deployed model; see `build_latency`."""
    if isinstance(spec, SiliconSpec):
        return silicon_operators(deployment)
    hardware = deployment.hardware.name
    if isinstance(spec, ProfileSpec):
        efficiency = catalogue.load_efficiency(hardware)
        return profile_operators(Path(spec.folder), deployment, efficiency)
    is_common = spec.constants == "common"
    load = catalogue.common_efficiency if is_common else catalogue.load_efficiency
    efficiency = load(hardware)
    if spec.flop_efficiency is not None:
        efficiency = efficiency.with_flop(spec.flop_efficiency)
    if spec.bandwidth_efficiency is not None:
        efficiency = efficiency.with_bandwidth(spec.bandwidth_efficiency)
    return roofline_operators(deployment, efficiency)


def _fitted(spec: FittedSpec) -> Described:
    fit = fit_files(spec.files)
    names = " and ".join("/".join(Path(file).parts[-2:]) for file in spec.files)
    residuals = describe_residuals(fit.residuals)
    return Described(fit.latency, f"{describe(fit.latency)}, fitted on {names}: {residuals}")


def _describe(deployment: Deployment) -> str:
    weights = deployment.activation_dtype if deployment.weights == "none" else deployment.weights
    return (
        f"{deployment.model.title} on {deployment.tensor_parallel_size} x "
        f"{deployment.hardware.name}, {weights} weights, {deployment.kv_dtype} KV"
    )


def _describe_host(spec: RooflineSpec | ProfileSpec | SiliconSpec) -> str:
    host = f"{spec.overhead_s * 1000:.3g} ms a step"
    if spec.per_sequence_s:
        host += f" and {spec.per_sequence_s * 1000:.3g} ms a sequence"
    return f"{host} besides"
