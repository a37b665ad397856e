"""Pages for a browser, from templates."""

import json
import re
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup, escape


def filled(template: str, **values: Any) -> str:
    """A template of HTML with its values, escaped but where it says `safe`.

    Its filter `prose` makes code of what stands between backticks; `script_json` makes data JSON
    that a script element can hold. `colours` is the CSS of the colours that all pages have.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"prose": _prose, "script_json": _script_json}
    colours = files("sim").joinpath("html_page.css").read_text("utf-8")
    return environment.from_string(template).render(values, colours=colours)


def _prose(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _script_json(value: Any) -> str:
    """Data in a script element, which only `</script>` could end."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
