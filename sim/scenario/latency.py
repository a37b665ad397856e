"""The keys of `latency`: how long a step takes, by kind."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from sim.scenario.spec import LONGEST_S, Spec, at_key

Overhead = Annotated[
    float, Field(ge=0, le=LONGEST_S, description="What a step costs besides, in seconds.")
]
PerSequence = Annotated[
    float,
    Field(ge=0, le=1, description="What each decode and prefill chunk costs besides, in seconds."),
]


class ConstantSpec(Spec):
    """Every step takes step_time_s."""

    kind: Literal["constant"] = Field(description="Every step takes the same.")
    step_time_s: float = Field(gt=0, le=LONGEST_S, description="Of every step, in seconds.")


class LinearSpec(Spec):
    """A fixed cost a step and costs of what is in it."""

    kind: Literal["linear"] = Field(description="A sum of costs of what is in a step.")
    step_s: float = Field(ge=0, le=LONGEST_S, description="Of a step, in seconds.")
    per_decode_s: float = Field(
        0.0, ge=0, le=1, description="Of each decoding sequence, in seconds."
    )
    per_decode_doubling_s: float = Field(
        0.0, ge=0, le=1, description="Times log2(1 + decoding sequences), in seconds."
    )
    per_context_token_s: float = Field(
        0.0, ge=0, le=1, description="Of each token that decodes attend to, in seconds."
    )
    per_prefill_s: float = Field(
        0.0, ge=0, le=1, description="Of each prompt, or chunk of one, in seconds."
    )
    per_prefill_token_s: float = Field(
        0.0, ge=0, le=1, description="Of each prompt token, in seconds."
    )
    per_prefill_pair_s: float = Field(
        0.0, ge=0, le=1, description="Of each pair of a prompt token and one before, in seconds."
    )
    wake_s: float = Field(
        0.0, ge=0, le=LONGEST_S, description="Of waking up an engine that idles, in seconds."
    )


class FittedSpec(Spec):
    """Linear, with the constants that fit the measured steps in CSV files."""

    kind: Literal["fitted"] = Field(description="Least squares on steps that were timed.")
    files: list[str] = Field(
        min_length=1, description="Paths of CSV files of measured steps (`kvsim calibrate`)."
    )


class RooflineSpec(Spec):
    """Roofline of the model on the hardware."""

    kind: Literal["roofline"] = Field(
        description="Sizes of the model by shares of the peaks of the GPU."
    )
    constants: Literal["gpu", "common"] = Field(
        "gpu",
        description="Shares of the peaks that operators reach, from the catalogue: those of the "
        "`gpu`, or those `common` to GPUs that were not measured.",
    )
    flop_efficiency: float | None = Field(
        None, ge=0.001, le=1, description="Of the peak FLOP/s, one share for every operator."
    )
    bandwidth_efficiency: float | None = Field(
        None, ge=0.001, le=1, description="Of the peak bandwidth, one share for every operator."
    )
    overhead_s: Overhead = 0.001
    per_sequence_s: PerSequence = 0.0


class ProfileSpec(Spec):
    """Tables of measured operators in a folder."""

    kind: Literal["profile"] = Field(description="Tables of operators that were timed.")
    folder: str = Field(description="Path of a folder of tables (`kvsim profile-gpu`).")
    overhead_s: Overhead = 0.001
    per_sequence_s: PerSequence = 0.0


class SiliconSpec(Spec):
    """Measured kernels in the library aiconfigurator-core."""

    kind: Literal["silicon"] = Field(description="Measured kernels of aiconfigurator-core.")
    overhead_s: Overhead = 0.001
    per_sequence_s: PerSequence = 0.0


def _kind(value: Any) -> Any:
    if isinstance(value, dict) and "kind" not in value:
        kinds = ", ".join(map(repr, LATENCY_KINDS))
        raise at_key("kind", f"missing, expected one of {kinds}")
    return {"kind": value} if isinstance(value, str) else value


LATENCY_KINDS = ("constant", "linear", "fitted", "roofline", "profile", "silicon")
_OfAnyKind = Annotated[
    ConstantSpec | LinearSpec | FittedSpec | RooflineSpec | ProfileSpec | SiliconSpec,
    Field(discriminator="kind"),
]
Latency = Annotated[
    _OfAnyKind,
    # A bare word will do for the kinds that need nothing else.
    BeforeValidator(_kind, json_schema_input_type=Literal["roofline", "silicon"] | _OfAnyKind),
]
