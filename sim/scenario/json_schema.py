"""The JSON Schema of scenario files, by which editors complete and check them."""

import json
from typing import Any

from sim.scenario.scenario import Scenario

Node = dict[str, Any]

FILE = "scenario.schema.json"
MODELINE = "# yaml-language-server: $schema={path}"  # first line of a scenario; editors read it


def scenario_schema() -> Node:
    """Of every key its type, range, default and meaning; see https://json-schema.org."""
    schema = Scenario.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Scenario of kvsim"
    return schema


def alternatives(node: Node) -> list[Node]:
    """What a value may be one of, by its node of a schema; but for null, which stands for none."""
    choices: list[Node] = node.get("anyOf") or node.get("oneOf") or []
    if choices:
        return [one for choice in choices for one in alternatives(choice)]
    return [] if node.get("type") == "null" else [node]


def schema_text() -> str:
    """The same as a file."""
    return json.dumps(scenario_schema(), indent=1, ensure_ascii=False) + "\n"
