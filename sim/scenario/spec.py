"""What all mappings of a scenario have in common: strict types, no unknown keys."""

import json
from collections.abc import Iterable
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from sim import catalogue

MOST = 10_000_000  # of any count but those that only `workloads` sees
LONGEST_S = 1e9  # 32 years; int64 nanoseconds end at 292

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


AT_KEY = "at_key"


def at_key(key: str, what: str) -> PydanticCustomError:
    """A mistake of a key below a mapping, or of the mapping (""), raised by its validator.

    what: what came, and what was expected.
    """
    return PydanticCustomError(AT_KEY, "{key}: {what}", {"key": key, "what": what})


def one_of(choices: Iterable[str]) -> Any:
    """Annotates a text that one of our own checks accepts: its choices, for the JSON Schema."""
    return Field(json_schema_extra={"enum": list(choices)})


def one_of_catalogue(table: str) -> Any:
    """The same of the names in a table of the catalogue."""
    return one_of(catalogue.names(table))


class Spec(BaseModel):
    """A mapping of a scenario: no unknown keys, no silent conversions."""

    model_config = {**STRICT, "frozen": True}


class OneOf(Spec):
    """A mapping with exactly one of its keys, such as `poisson: {rate: 8}`."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            names = ", ".join(type(self).model_fields)
            raise ValueError(f"exactly one of {names}, {len(given)} given")
        return self

    @property
    def choice(self) -> Any:
        """The value of the one key."""
        return next(v for _, v in self if v is not None)


class Checked(Spec):
    """A mapping that describes an object of `workloads`, which checks the values itself."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        self.build()
        return self

    def build(self) -> Any:
        """The object. Raises WorkloadError for values that it cannot have."""
        raise NotImplementedError


def to_json(data: Any) -> str:
    """Plain data as text: strict validation takes a mapping for a data class only as JSON."""
    return json.dumps(data, default=str)
