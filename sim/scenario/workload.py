"""The keys of `workload`: what requests come, and when."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

import workloads as w
from sim import catalogue
from sim.errors import UserError
from sim.scenario.arrivals import ArrivalsSpec
from sim.scenario.distributions import Lengths
from sim.scenario.requests import (
    BeamSearchSpec,
    ClassName,
    ClassSpec,
    PromptsSpec,
    SessionsSpec,
    ShapeSpec,
    SloSpec,
)
from sim.scenario.spec import MOST, Spec, at_key, one_of, one_of_catalogue, to_json
from workloads.checks import LARGEST_COUNT
from workloads.classes import LARGEST_PRIORITY

LARGEST_N = 1000  # outputs of a prompt
_SYNTHETIC = ("preset", "prompts", "outputs", "sessions")

Mistake = tuple[str, str]  # the key, and what came and was expected


class SourceSpec(Spec):
    """Synthetic (requests, arrivals, prompts, outputs), or a trace (its first `requests`)."""

    requests: int | None = Field(
        None, ge=1, le=MOST, description="How many; of a trace the first so many, without: all."
    )
    arrivals: ArrivalsSpec | None = Field(
        None, description="When requests come, or sessions start; of a trace where it has no times."
    )
    preset: Annotated[str, one_of_catalogue("workloads")] | None = Field(
        None,
        description="Prompts, outputs and sessions of a kind of load, where they are not said.",
    )
    prompts: PromptsSpec | None = Field(None, description="What prompts are made of.")
    outputs: Lengths | None = Field(None, description="Length of the output, in tokens.")
    sessions: SessionsSpec | None = Field(
        None, description="Requests are turns of conversations, which start when arrivals say."
    )
    trace: str | None = Field(
        None, description="Path of a file of requests, plain or .gz, in place of synthetic ones."
    )
    resample: str | None = Field(
        None,
        description="Path of a file of rows that `kvsim trace --fit` writes, drawn in place of "
        "prompts, outputs and sessions.",
    )
    format: Annotated[str, one_of(w.FORMATS)] | None = Field(
        None, description="Of the trace, where its content does not show it."
    )
    tokenizer: str | None = Field(
        None,
        description="Path of a tokenizer.json or tokenizer.model that counts the tokens of a trace "
        "of texts; without: bytes.",
    )
    shape: ShapeSpec | None = Field(None, description="What is made of the trace first.")
    max_new_tokens: int | None = Field(
        None,
        ge=1,
        le=LARGEST_COUNT,
        description="Output limit that requests state; without: `max` of the outputs, else what "
        "engine.max_model_len leaves.",
    )

    @field_validator("preset")
    @classmethod
    def _is_a_preset(cls, name: str | None) -> str | None:
        if name is not None:
            try:
                catalogue.load_workload(name)
            except UserError as error:
                raise ValueError(str(error)) from None
        return name

    def with_preset(self) -> Self:
        """The same without a preset, its settings written out where the source has none."""
        if self.preset is None:
            return self
        return self.model_validate_json(to_json(self._written_out))

    @property
    def _written_out(self) -> dict[str, Any]:
        """Keys that are said, and those of the preset; one that is said to be null is none."""
        preset = catalogue.load_workload(self.preset).settings if self.preset else {}
        own = self.model_dump(mode="json", exclude_unset=True, exclude={"preset"})
        merged = {**preset, **own}
        for key in ("prompts", "sessions"):
            if isinstance(preset.get(key), dict) and isinstance(own.get(key), dict):
                merged[key] = _without_none({**preset[key], **own[key]})
        return _without_none(merged)

    def mistake(self, needed: tuple[str, ...]) -> Mistake | None:
        """What is wrong with the keys taken together, synthetic ones being `needed`."""
        own = self.model_dump(mode="json", exclude_none=True)
        for name in ("trace", "resample"):
            extra = [key for key in (*_SYNTHETIC, "resample") if key in own and key != name]
            if name in own and extra:
                return "", f"expected either {name} or {', '.join(extra)}, not both"
        if self.trace is not None:
            return None
        given, instead = self._written_out, "a trace, or"
        if self.resample is not None:
            needed = tuple(name for name in needed if name in ("requests", "arrivals"))
            instead = "with resample"
        if missing := [name for name in needed if name not in given]:
            names = ", ".join(needed)
            return "", f"expected {instead} all of {names}; missing: {', '.join(missing)}"
        for part, key in (("prompts", "unique"), ("sessions", "turns")):
            if part in given and key not in given[part]:
                return f"{part}.{key}", "missing"
        for name in ("format", "tokenizer", "shape"):
            if name in given:
                return name, "got one without a trace, expected none"
        return None


def _without_none(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


class MixedSourceSpec(SourceSpec):
    """A source of a mix, whose name is the class of its requests."""

    share: float | None = Field(
        None,
        gt=0,
        le=1e9,
        description="Of the sessions, by the sum of all shares, where the mix has arrivals.",
    )
    priority: int | None = Field(
        None,
        ge=-LARGEST_PRIORITY,
        le=LARGEST_PRIORITY,
        description="Lower goes first, with engine.policy `priority`; without: as in its trace.",
    )
    slo: SloSpec | None = Field(None, description="What its requests are promised.")


class WorkloadSpec(SourceSpec):
    """One source of requests, or a mix of several.

    With `arrivals` beside `mix` each session that arrives is one of a source drawn by the shares;
    else each source comes at its own times.
    """

    SYNTHETIC: ClassVar = ("requests", "arrivals", "prompts", "outputs")

    n: int = Field(
        1,
        ge=1,
        le=LARGEST_N,
        description="Outputs of each prompt, all of one length, which share its blocks.",
    )
    beam_search: BeamSearchSpec | None = Field(
        None, description="The n outputs are the beams of a search."
    )
    classes: dict[ClassName, ClassSpec] = Field(
        {}, description="Name -> share, priority and promises; each session is of one of them."
    )
    mix: dict[ClassName, MixedSourceSpec] = Field(
        {}, description="Name -> a source of its own, in place of one source."
    )

    def written_out(self) -> "WorkloadSpec":
        """The same without presets, also in the sources of a mix."""
        mix = {name: source.with_preset() for name, source in self.mix.items()}
        return self.with_preset().model_copy(update={"mix": mix})

    @property
    def slos(self) -> dict[str, SloSpec]:
        """What the requests of each class are promised."""
        named: dict[str, Any] = {**self.classes, **self.mix}
        return {name: spec.slo for name, spec in named.items() if spec.slo is not None}

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        if self.mix:
            self._check_mix()
        elif mistake := self.mistake(self.SYNTHETIC):
            raise at_key(*mistake)
        if self.n > 1 and (name := self._with_one_output):
            raise ValueError(f"n: got {self.n} with {name}, expected 1")
        if self.beam_search and self.n == 1:
            raise ValueError("n: got 1 with beam_search, expected its width, 2 or more")
        return self

    @property
    def _with_one_output(self) -> str | None:
        """What each request has but one output of."""
        if self.mix:
            return "a mix"
        if self.trace is not None:
            return "a trace"
        if self.resample is not None:
            return "resample"
        return "sessions" if self.with_preset().sessions else None

    def _check_mix(self) -> None:
        single = [*SourceSpec.model_fields.keys() - {"requests", "arrivals"}, "classes"]
        if extra := sorted(key for key in single if getattr(self, key)):
            raise at_key("mix", f"got {', '.join(extra)} beside it, expected them in its sources")
        if self.arrivals is not None and self.requests is None:
            raise at_key("requests", "got none with a mix and arrivals, expected a number")
        for name, source in self.mix.items():
            if mistake := self._mistake_in_mix(source):
                key, what = mistake
                raise at_key(f"mix.{name}{'.' if key else ''}{key}", what)

    def _mistake_in_mix(self, source: MixedSourceSpec) -> Mistake | None:
        if self.arrivals is None:
            if source.share is not None:
                return "share", f"got {source.share:g}, expected none, for the mix has no arrivals"
            return source.mistake(self.SYNTHETIC)
        if source.share is None:
            return "share", "got none, expected its share of the arrivals of the mix"
        if source.arrivals is not None:
            return "arrivals", "got some, expected none, for the mix has them"
        if source.requests is not None and source.trace is None:
            return "requests", f"got {source.requests}, expected none, for the mix has a number"
        return source.mistake(("prompts", "outputs"))
