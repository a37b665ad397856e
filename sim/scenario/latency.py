"""The keys of `latency`: how long a step takes, by kind."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from sim.scenario.spec import LONGEST_S, Spec


class ConstantSpec(Spec):
    """Every step takes step_time_s."""

    kind: Literal["constant"]
    step_time_s: float = Field(gt=0, le=LONGEST_S)


class LinearSpec(Spec):
    """A fixed cost a step and costs of what is in it; see `sim.latency.linear`."""

    kind: Literal["linear"]
    step_s: float = Field(ge=0, le=LONGEST_S)
    per_decode_s: float = Field(0.0, ge=0, le=1)
    per_decode_doubling_s: float = Field(0.0, ge=0, le=1)
    per_context_token_s: float = Field(0.0, ge=0, le=1)
    per_prefill_s: float = Field(0.0, ge=0, le=1)
    per_prefill_token_s: float = Field(0.0, ge=0, le=1)
    per_prefill_pair_s: float = Field(0.0, ge=0, le=1)
    wake_s: float = Field(0.0, ge=0, le=LONGEST_S)


class FittedSpec(Spec):
    """Linear, with the constants that fit the measured steps in CSV files."""

    kind: Literal["fitted"]
    files: list[str] = Field(min_length=1)


class RooflineSpec(Spec):
    """Roofline of the model on the hardware.

    constants: shares of the peaks that operators reach, from the catalogue: those of the `gpu`, or
    those `common` to GPUs that were not measured. flop_efficiency, bandwidth_efficiency: one share
    for every operator instead. overhead_s, per_sequence_s: what a step, and each of its decodes and
    prefill chunks, costs besides.
    """

    kind: Literal["roofline"]
    constants: Literal["gpu", "common"] = "gpu"
    flop_efficiency: float | None = Field(None, ge=0.001, le=1)
    bandwidth_efficiency: float | None = Field(None, ge=0.001, le=1)
    overhead_s: float = Field(0.001, ge=0, le=LONGEST_S)
    per_sequence_s: float = Field(0.0, ge=0, le=1)


class ProfileSpec(Spec):
    """Tables of measured operators in a folder; overheads as in RooflineSpec."""

    kind: Literal["profile"]
    folder: str
    overhead_s: float = Field(0.001, ge=0, le=LONGEST_S)
    per_sequence_s: float = Field(0.0, ge=0, le=1)


class SiliconSpec(Spec):
    """Measured kernels in the library aiconfigurator-core; overheads as in RooflineSpec."""

    kind: Literal["silicon"]
    overhead_s: float = Field(0.001, ge=0, le=LONGEST_S)
    per_sequence_s: float = Field(0.0, ge=0, le=1)


def _kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


LATENCY_KINDS = ("constant", "linear", "fitted", "roofline", "profile", "silicon")
Latency = Annotated[
    ConstantSpec | LinearSpec | FittedSpec | RooflineSpec | ProfileSpec | SiliconSpec,
    Field(discriminator="kind"),
    BeforeValidator(_kind),
]
