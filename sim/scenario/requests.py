"""What requests are like, as a scenario writes it: prompts, sessions, parts of traces, classes."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

import workloads as w
from sim.scenario.distributions import Durations, DurationSpec, Lengths
from sim.scenario.spec import LONGEST_S, MOST, Checked, Spec
from workloads.checks import LARGEST_COUNT


class SharedSpec(Spec):
    """System prompts: requests draw one of `groups`, each `tokens` long, the first most often.

    zipf: the exponent of their popularity; 0: all are equally popular.
    """

    groups: int = Field(ge=1, le=LARGEST_COUNT)
    tokens: Lengths
    zipf: float = Field(0.0, ge=0, le=10)

    def build(self) -> w.SharedPrefix:
        """The groups."""
        return w.SharedPrefix(self.groups, self.tokens.build(), self.zipf)


class DocumentsSpec(Checked):
    """Each session is given `per_session` of a `collection`, the first of it most often.

    zipf: the exponent of their popularity; 0: all are equally popular.
    """

    collection: int = Field(ge=2, le=MOST)
    per_session: int = Field(ge=1, le=w.MOST_DOCUMENTS)
    tokens: Lengths
    zipf: float = 0.0

    def build(self) -> w.Documents:
        """See Checked."""
        return w.Documents(self.collection, self.per_session, self.tokens.build(), self.zipf)


class PromptsSpec(Spec):
    """A system prompt and documents (both optional), then what is the request's own.

    unique: required, but for a preset that has it.
    """

    shared: SharedSpec | None = None
    documents: DocumentsSpec | None = None
    unique: Lengths | None = None


class SessionsSpec(Spec):
    """turns: of a session; think_time_s: from an answer to the next turn.

    first: length of what is new in a first turn; if not said, as in later ones.
    turns: required, but for a preset that has it.
    """

    turns: Lengths | None = None
    think_time_s: Durations = DurationSpec(fixed=0.0)
    first: Lengths | None = None

    def build(self) -> w.Sessions:
        """The sessions."""
        assert self.turns  # by the check of its source
        first = self.first.build() if self.first else None
        return w.Sessions(self.turns.build(), self.think_time_s.build(), first)


class BeamSearchSpec(Spec):
    """switch: see `workloads.BeamModel`; of no consequence where the toy LM searches."""

    switch: float = Field(1.0, ge=0, le=1)


class ShapeSpec(Checked):
    """What is made of a trace first: see `workloads.Shape`."""

    window_s: list[float] | None = Field(None, min_length=2, max_length=2)
    sample: float = 1.0
    bootstrap_s: float | None = None
    rate_scale: float = Field(1.0, ge=1e-6, le=1e6)
    repeat: int = Field(1, ge=1, le=10_000)
    too_long: Literal["refuse", "drop", "clip"] = "refuse"

    def build(self) -> w.Shape:
        """See Checked."""
        window_s = None if self.window_s is None else (self.window_s[0], self.window_s[1])
        return w.Shape(
            window_s=window_s,
            sample=self.sample,
            bootstrap_s=self.bootstrap_s,
            rate_scale=self.rate_scale,
            repeat=self.repeat,
            too_long=self.too_long,
        )


class SloSpec(Spec):
    """What a request is promised: times it may take at most."""

    ttft_s: float | None = Field(None, gt=0, le=LONGEST_S)
    tpot_s: float | None = Field(None, gt=0, le=LONGEST_S)
    e2e_s: float | None = Field(None, gt=0, le=LONGEST_S)

    @model_validator(mode="after")
    def _promises_something(self) -> Self:
        if self.ttft_s is None and self.tpot_s is None and self.e2e_s is None:
            raise ValueError("got no limit, expected one of ttft_s, tpot_s, e2e_s")
        return self


ClassName = Annotated[str, Field(pattern=r"^[^\W_][\w .:+/()=%-]{0,39}$")]


class ClassSpec(Checked):
    """share: of the sessions; priority: lower goes first, with the policy `priority`."""

    share: float
    priority: int = 0
    slo: SloSpec | None = None

    def build(self) -> w.RequestClass:
        """See Checked."""
        return w.RequestClass(self.share, self.priority)
