"""What a key of a scenario may be, in words, from its JSON schema."""

import json

from sim.scenario.json_schema import Node, alternatives

_MOST_NAMES = 12


def values(schema: Node) -> list[str]:
    """Of those that are no mapping with a definition of its own, each once."""
    plain = [one for one in alternatives(schema) if "$ref" not in one]
    return list(dict.fromkeys(map(_value, plain)))


def _value(schema: Node) -> str:
    if "enum" in schema:
        return _names(schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {' or '.join(values(schema['items']))}" if schema.get("items") else "list"
    if kind == "object":
        return "mapping"
    if kind == "boolean":
        return "`true`, `false`"
    return f"{kind or 'string'}{_range(schema)}"


def _names(names: list[str]) -> str:
    """All of them, or how many, where they are those of a catalogue."""
    if len(names) > _MOST_NAMES:
        return f"one of {len(names)} names"
    return ", ".join(f"`{name}`" for name in names)


def _range(schema: Node) -> str:
    """Of a number: the bounds that it has."""
    words = {
        "minimum": "from",
        "exclusiveMinimum": "above",
        "maximum": "to",
        "exclusiveMaximum": "below",
    }
    given = {word: schema[key] for key, word in words.items() if key in schema}
    return "".join(f" {word} {_number(bound)}" for word, bound in given.items())


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def default(schema: Node, *, is_required: bool) -> str:
    """What holds where a key is left out."""
    if is_required:
        return "required"
    value = schema.get("default")
    if isinstance(value, dict):
        value = {key: one for key, one in value.items() if one is not None}
        value = value.get("kind", value)
    if value is None or value == {}:
        return "none"
    if isinstance(value, dict) and len(value) > 1:
        return "as its keys say"
    if isinstance(value, float):
        value = f"{value:g}"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
