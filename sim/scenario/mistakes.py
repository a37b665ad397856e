"""What is wrong with a scenario, in one line for each mistake."""

import difflib
import re
from typing import Any

from pydantic import ValidationError

from sim.errors import UserError
from sim.scenario.latency import LATENCY_KINDS
from sim.scenario.scenario import Scenario
from sim.scenario.spec import AT_KEY


def validated(data: dict[str, Any], source: str) -> Scenario:
    """A scenario from plain data. Raises UserError, each line of it starting with `source`."""
    try:
        return Scenario.parse(data)
    except ValidationError as error:
        raise user_error(error, source) from None


def user_error(error: ValidationError, source: str, prefix: tuple[str, ...] = ()) -> UserError:
    """A line for each mistake, each starting with `source`."""
    return UserError("\n".join(f"{source}: {line}" for line in explain(error, prefix)))


def explain(error: ValidationError, prefix: tuple[str, ...] = ()) -> list[str]:
    """One line for each mistake: key path, what came, what was expected."""
    return [_explain(detail, prefix) for detail in error.errors()]


def _explain(detail: Any, prefix: tuple[str, ...]) -> str:
    """One mistake in one line, from pydantic's account of it."""
    path = ".".join(str(part) for part in _without_tags((*prefix, *detail["loc"])))
    if detail["type"] == "extra_forbidden" or detail["type"] == "unexpected_keyword_argument":
        return f"{path}: unknown key{_hint(*detail['loc'])}"
    if detail["type"] in ("missing", "union_tag_not_found"):
        return f"{path}{'.kind' if detail['type'] != 'missing' else ''}: missing"
    if detail["type"] in ("value_error", AT_KEY):
        return _explain_ours(detail, path)
    if detail["type"] == "union_tag_invalid":
        tags = detail["ctx"]["expected_tags"]
        return f"{path}.kind: got {detail['ctx']['tag']!r}, expected one of {tags}"
    # "Input should be a valid integer", "List should have at least 1 item ...", "Invalid JSON: ..."
    expected = re.sub(r"^[A-Z]\w* should (be )?|^Invalid ", "", detail["msg"])
    expected = expected.replace("an object", "a mapping of keys")
    where = f"{path}: " if path else ""
    return f"{where}got {shorten(detail['input'])}, expected {expected}"


def _explain_ours(detail: Any, path: str) -> str:
    """A mistake that one of our own checks raises."""
    if detail["type"] == AT_KEY:
        keys = filter(None, (path, detail["ctx"]["key"]))
        return f"{'.'.join(keys)}: {detail['ctx']['what']}"
    text = str(detail["ctx"]["error"])
    if ": got " in text:  # a setting names itself: "num_blocks: got 0, expected >= 1"
        return f"{path}.{text}" if path else text
    return f"{path}: {text}" if text.startswith("got ") else f"{path}: expected {text}"


def _without_tags(location: tuple[Any, ...]) -> list[Any]:
    """Drop the names of variants that pydantic puts into a path, as in latency.roofline.model."""
    return [
        part
        for before, part in zip((None, *location), location, strict=False)
        if not (before == "latency" and part in LATENCY_KINDS)
    ]


def _hint(*location: str) -> str:
    """What may be meant by the unknown key at the end of a location."""
    *above, key = location
    schema = Scenario.model_json_schema()
    known = {
        name for node in (schema, *schema["$defs"].values()) for name in node.get("properties", ())
    }
    if key in known:  # elsewhere
        return f" for kind {above[1]}" if above[:1] == ["latency"] else " here"
    close = difflib.get_close_matches(key, sorted(known), n=1)
    return f", did you mean {close[0]}?" if close else ""


def shorten(value: Any) -> str:
    """A value as it came, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
