"""What a key of a scenario may be, in words, from its JSON schema."""

import json
from typing import Any

Schema = dict[str, Any]


def alternatives(schema: Schema) -> list[Schema]:
    """What a value may be one of, but for null, which stands for none."""
    choices: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [choice for choice in choices if choice.get("type") != "null"]


def values(schema: Schema) -> str:
    """Of a key without keys of its own."""
    return " or ".join(dict.fromkeys(map(_value, alternatives(schema))))


def _value(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {values(schema['items'])}" if schema.get("items") else "list"
    if kind == "object":
        return "mapping"
    if kind == "boolean":
        return "`true`, `false`"
    return f"{kind or 'any'}{_range(schema)}"


def _range(schema: Schema) -> str:
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


def default(schema: Schema, *, is_required: bool) -> str:
    """What holds where a key is left out."""
    if is_required:
        return "required"
    value = schema.get("default")
    if value is None or value == {}:
        return "none"
    if isinstance(value, dict) and "kind" in value:
        value = value["kind"]
    if isinstance(value, dict) and len(value) > 1:
        return "as its keys say"
    if isinstance(value, float):
        value = f"{value:g}"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
