"""docs/reference/scenario.md, from the JSON schema of `sim.scenario.Scenario`."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from docs.generate.markdown import MADE, table
from docs.generate.values import default, values
from sim.scenario import Scenario
from sim.scenario.json_schema import Node, alternatives

_INTRO = """\
# Keys of a scenario

A scenario is one YAML file, and these are all its keys: others are refused, as is every value of
another type. [Scenarios](../scenario.md) says how they go together. `NAME` stands for a name of
your own.
"""


def scenario_page() -> str:
    """The keys of a scenario, then those of the mappings in it."""
    schema = Scenario.model_json_schema()
    sections = _Sections(schema)
    texts = [_INTRO, table(_HEADINGS, sections.rows(schema)), *map(sections.text, sections.titles)]
    return MADE.format(source="sim/scenario/") + "\n".join(texts)


_HEADINGS = ("key", "values", "default", "meaning")


class _Sections:
    """A section for each key of the scenario that is a mapping, and for what stands repeatedly.

    Keys of all other mappings stand, with dots, in the table of the one that holds them.

    titles: of the definitions that have a section, in the order of the sections.
    """

    def __init__(self, schema: Node) -> None:
        self._definitions: dict[str, Node] = schema["$defs"]
        self.titles: dict[str, str] = {}
        for key, value in schema["properties"].items():
            names = self._mappings(value)
            for name in names:
                kind = self._definitions[name]["properties"].get("kind", {}).get("const")
                self.titles[name] = f"{key}: {kind}" if kind else key
        used = Counter(_references(schema))
        for name in self._definitions:
            if used[name] > 1 and self._mappings({"$ref": name}):
                self.titles.setdefault(name, name.removesuffix("Spec"))

    def text(self, name: str) -> str:
        """The section of a definition."""
        schema = self._definitions[name]
        about = schema.get("description", "")
        return f"## {self.titles[name]}\n\n{about}\n\n" + table(_HEADINGS, self.rows(schema))

    def rows(self, schema: Node, prefix: str = "") -> Iterator[list[str]]:
        """A row for each key of a mapping, and of the mappings in it without a section."""
        for key, value in schema["properties"].items():
            path, inner = self._into(prefix + key, value)
            nested = [n for n in self._mappings(inner) if n not in self.titles]
            yield [
                f"`{path}`",
                " or ".join(self._values(inner)),
                default(value, is_required=key in schema.get("required", ())),
                value.get("description") or self._about(nested),
            ]
            for name in nested:
                yield from self.rows(self._definitions[name], f"{path}.")

    def _values(self, schema: Node) -> list[str]:
        names = self._mappings(schema)
        links = [self._link(self.titles[name]) for name in names if name in self.titles]
        return [*values(schema), *(["mapping"] if len(links) < len(names) else []), *links]

    def _about(self, names: list[str]) -> str:
        return " ".join(self._definitions[name].get("description", "") for name in names)

    def _into(self, path: str, schema: Node) -> tuple[str, Node]:
        """Of a mapping whose names are the user's own, and nothing else, one of its values."""
        inner = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
        named = [one for one in inner if self._mappings(one)]
        return (f"{path}.NAME", named[0]) if named else (path, schema)

    def _mappings(self, schema: Any) -> list[str]:
        """The definitions of mappings that a value may be one of."""
        if not isinstance(schema, dict):
            return []
        found = [one.get("$ref", "").rpartition("/")[2] for one in alternatives(schema)]
        return [name for name in found if "properties" in self._definitions.get(name, {})]

    @staticmethod
    def _link(title: str) -> str:
        return f"[{title}](#{title.lower().replace(': ', '-')})"


def _references(schema: Any) -> Iterator[str]:
    """The definitions that a schema refers to, each as often as it does."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _references(part)
