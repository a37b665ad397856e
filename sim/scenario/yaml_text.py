"""The text of a scenario file: YAML without its silent traps."""

import re
from pathlib import Path
from typing import Any

import yaml

from sim.errors import UserError


class _Loader(yaml.SafeLoader):
    """Safe YAML without its silent traps: a key given twice, 1e9 read as text, a date as none."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            mark = key_node.start_mark
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is no text", problem_mark=mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key!r} is given twice", problem_mark=mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def refuse_date(self, node: yaml.ScalarNode) -> None:
        """Raise the mistake: no key of a scenario takes a date, and text has to be quoted."""
        problem = f"{node.value} is a date; to be text it must be in quotes"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever _Loader would not read as text."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.refuse_date)
for _yaml in (_Loader, _Dumper):
    _yaml.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$"),
        list("-+0123456789"),
    )


def read_text(path: Path) -> str:
    """All that is in a file. Raises UserError where it cannot be read or is no text."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def parse(text: str, where: str) -> Any:
    """Plain data from YAML. Raises UserError, starting with `where`, for what is none."""
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UserError(f"{where}{line}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{where}: not YAML: {' '.join(str(error).split())}") from None


def to_yaml(data: Any) -> str:
    """YAML that `parse` reads as the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
