"""The step-latency model that a scenario asks for, and in words where its times come from."""

from pathlib import Path

from sim import catalogue
from sim.catalogue.efficiency import Efficiency
from sim.latency.allreduce import AllReduce, NoAllReduce
from sim.latency.fitted import describe, describe_residuals, fit_files
from sim.latency.linear import LinearLatency
from sim.latency.model import LatencyModel
from sim.latency.operators import Attention, OperatorLatency, Products
from sim.latency.profile import load_profile
from sim.latency.roofline import RooflineAttention, RooflineProducts
from sim.latency.silicon import SiliconAttention, SiliconKernels, SiliconProducts
from sim.scenario import (
    ConstantSpec,
    FittedSpec,
    LinearSpec,
    ProfileSpec,
    RooflineSpec,
    Scenario,
    SiliconSpec,
)


def build_latency(scenario: Scenario) -> LatencyModel:
    """The step-latency model.

    Raises UserError where tables or a library are missing, or do not cover the deployment.
    """
    spec = scenario.latency
    if isinstance(spec, ConstantSpec):
        return LinearLatency(step_s=spec.step_time_s)
    if isinstance(spec, LinearSpec):
        return LinearLatency(**spec.model_dump(exclude={"kind"}))
    if isinstance(spec, FittedSpec):
        return fit_files(spec.files).latency
    return _of_operators(scenario, spec)


def _of_operators(
    scenario: Scenario, spec: RooflineSpec | ProfileSpec | SiliconSpec
) -> OperatorLatency:
    return OperatorLatency(
        *_operators(scenario, spec),
        overhead_s=spec.overhead_s,
        per_sequence_s=spec.per_sequence_s,
    )


def _operators(
    scenario: Scenario, spec: RooflineSpec | ProfileSpec | SiliconSpec
) -> tuple[Products, Attention, AllReduce | NoAllReduce]:
    deployment = scenario.build_deployment()
    if isinstance(spec, SiliconSpec):
        kernels = SiliconKernels(deployment, scenario.hardware)
        return SiliconProducts(kernels), SiliconAttention(kernels), NoAllReduce()
    efficiency = _efficiency(scenario.hardware, spec)
    allreduce = AllReduce(deployment, efficiency)
    if isinstance(spec, ProfileSpec):
        profile = load_profile(Path(spec.folder), deployment, efficiency)
        return profile.products, profile.attention, allreduce
    products = RooflineProducts(deployment, efficiency)
    return products, RooflineAttention(deployment, efficiency), allreduce


def _efficiency(hardware: str, spec: RooflineSpec | ProfileSpec) -> Efficiency:
    """The catalogue's constants of a GPU, or those that the scenario gives instead."""
    if isinstance(spec, ProfileSpec):
        return catalogue.load_efficiency(hardware)
    efficiency = catalogue.load_efficiency(hardware if spec.constants == "gpu" else "common")
    if spec.flop_efficiency is not None:
        efficiency = efficiency.with_flop(spec.flop_efficiency)
    if spec.bandwidth_efficiency is not None:
        efficiency = efficiency.with_bandwidth(spec.bandwidth_efficiency)
    return efficiency


def describe_latency(scenario: Scenario, model: str | None = None) -> str:
    """Where the step times come from, in words.

    model: what to call the model on its GPUs, where the scenario is one of several.
    """
    spec = scenario.latency
    if isinstance(spec, ConstantSpec | LinearSpec):
        return spec.kind
    if isinstance(spec, FittedSpec):
        fit = fit_files(spec.files)
        names = " and ".join("/".join(Path(file).parts[-2:]) for file in spec.files)
        return f"{describe(fit.latency)}, fitted on {names}: {describe_residuals(fit.residuals)}"
    host = f"{spec.overhead_s * 1000:.3g} ms a step"
    if spec.per_sequence_s:
        host += f" and {spec.per_sequence_s * 1000:.3g} ms a sequence"
    return f"{_describe_operators(scenario, spec, model)}; {host} besides"


def _describe_operators(
    scenario: Scenario, spec: RooflineSpec | ProfileSpec | SiliconSpec, model: str | None
) -> str:
    deployment = scenario.build_deployment()
    weights = deployment.activation_dtype if deployment.weights == "none" else deployment.weights
    alone = f"{scenario.model} on {deployment.tensor_parallel_size} x {scenario.hardware}"
    what = f"{model or alone}, {weights} weights, {deployment.kv_dtype} KV"
    if isinstance(spec, SiliconSpec):
        return f"kernels measured by aiconfigurator-core, {what}"
    efficiency = _efficiency(scenario.hardware, spec)
    if isinstance(spec, ProfileSpec):
        missing = load_profile(Path(spec.folder), deployment, efficiency).missing
        return f"tables of {Path(spec.folder).name}, {what}" + (
            f"; roofline for {missing}" if missing else ""
        )
    arithmetic = deployment.arithmetic
    return (
        f"roofline of {what}, products at {efficiency.flop[arithmetic]:.0%} of peak FLOP/s and "
        f"{efficiency.bandwidth[arithmetic]:.0%} of bandwidth ({efficiency.source})"
    )
