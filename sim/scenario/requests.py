"""What requests are like, as a scenario writes it: prompts, sessions, parts of traces, classes."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

import workloads as w
from sim.scenario.distributions import Durations, DurationSpec, Lengths
from sim.scenario.spec import LONGEST_S, MOST, Checked, Spec
from workloads.checks import LARGEST_COUNT


class SharedSpec(Spec):
    """System prompts, of which each request draws one, the first most often."""

    groups: int = Field(ge=1, le=LARGEST_COUNT, description="How many system prompts there are.")
    tokens: Lengths = Field(description="Length of a system prompt.")
    zipf: float = Field(
        0.0,
        ge=0,
        le=10,
        description="Number k is drawn as often as k to the power of -zipf; 0: all as often.",
    )

    def build(self) -> w.SharedPrefix:
        """The groups."""
        return w.SharedPrefix(self.groups, self.tokens.build(), self.zipf)


class DocumentsSpec(Checked):
    """Documents of a collection, of which each session is given some, the first most often."""

    collection: int = Field(ge=2, le=MOST, description="How many documents there are.")
    per_session: int = Field(
        ge=1, le=w.MOST_DOCUMENTS, description="How many different ones a session is given."
    )
    tokens: Lengths = Field(description="Length of a document.")
    zipf: float = Field(
        0.0, description="Number k is drawn as often as k to the power of -zipf; 0: all as often."
    )

    def build(self) -> w.Documents:
        """See Checked."""
        return w.Documents(self.collection, self.per_session, self.tokens.build(), self.zipf)


class PromptsSpec(Spec):
    """A system prompt and documents (both optional), then what is the request's own."""

    shared: SharedSpec | None = Field(None, description="System prompts that requests share.")
    documents: DocumentsSpec | None = Field(
        None, description="Documents that stand after the system prompt."
    )
    unique: Lengths | None = Field(
        None,
        description="Length of what is a request's own, in tokens; required, but for a preset.",
    )


class SessionsSpec(Spec):
    """Conversations: the prompt of a turn is all that was said before and something new."""

    turns: Lengths | None = Field(
        None, description="How many a session has; required, but for a preset."
    )
    think_time_s: Durations = Field(
        DurationSpec(fixed=0.0), description="From an answer to the next turn, in seconds."
    )
    first: Lengths | None = Field(
        None, description="Length of what is new in a first turn; if not said, as prompts.unique."
    )

    def build(self) -> w.Sessions:
        """The sessions."""
        assert self.turns  # by the check of its source
        first = self.first.build() if self.first else None
        return w.Sessions(self.turns.build(), self.think_time_s.build(), first)


class BeamSearchSpec(Spec):
    """Outputs that are the beams of a search; see `workloads.BeamModel`."""

    switch: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Probability that with a token a beam goes on from a random one of all, else "
        "from itself; of no consequence where the toy LM searches.",
    )


class ShapeSpec(Checked):
    """What is made of a trace before it is replayed."""

    window_s: list[float] | None = Field(
        None, min_length=2, max_length=2, description="Only from so many seconds to so many."
    )
    sample: float = Field(1.0, description="Share of the sessions that is kept, drawn at random.")
    bootstrap_s: float | None = Field(
        None,
        description="Stretches of so many seconds, drawn with replacement: another trace for each "
        "seed.",
    )
    rate_scale: float = Field(
        1.0, ge=1e-6, le=1e6, description="So many times as many requests per second."
    )
    repeat: int = Field(1, ge=1, le=10_000, description="So many times, each with new content.")
    too_long: Literal["refuse", "drop", "clip"] = Field(
        "refuse", description="What becomes of prompts beyond engine.max_model_len."
    )

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

    ttft_s: float | None = Field(
        None, gt=0, le=LONGEST_S, description="To the first token, in seconds."
    )
    tpot_s: float | None = Field(
        None, gt=0, le=LONGEST_S, description="Per output token after the first, in seconds."
    )
    e2e_s: float | None = Field(
        None, gt=0, le=LONGEST_S, description="To the last token, in seconds."
    )

    @model_validator(mode="after")
    def _promises_something(self) -> Self:
        if self.ttft_s is None and self.tpot_s is None and self.e2e_s is None:
            raise ValueError("got no limit, expected one of ttft_s, tpot_s, e2e_s")
        return self


_CLASS_NAME = r"^[^\W_][\w .:+/()=%-]{0,39}$"


def _checked_name(name: str) -> str:
    if not re.fullmatch(_CLASS_NAME, name):
        expected = (
            "a letter or digit, then at most 39 of these, spaces and any of _ . : + / ( ) = % -"
        )
        raise ValueError(f"got {name!r}, expected {expected}")
    return name


ClassName = Annotated[
    str,
    AfterValidator(_checked_name),
    WithJsonSchema({"type": "string", "pattern": _CLASS_NAME}),
]


class ClassSpec(Checked):
    """A class of sessions."""

    share: float = Field(description="Of the sessions, by the sum of all shares.")
    priority: int = Field(0, description="Lower goes first, with engine.policy `priority`.")
    slo: SloSpec | None = Field(None, description="What its requests are promised.")

    def build(self) -> w.RequestClass:
        """See Checked."""
        return w.RequestClass(self.share, self.priority)
