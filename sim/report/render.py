"""A page as one HTML file: styles, script and the library that draws are all in it."""

import json
from importlib.resources import files
from typing import Any

import jinja2
from plotly.offline import get_plotlyjs

from sim.report.page import Page

_FOLDER = files("sim.report")


def render(page: Page) -> str:
    """HTML that needs nothing else, from the network or the disk."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["script_json"] = _script_json
    template = environment.from_string(_read("page.html.j2"))
    return template.render(
        page=page, style=_read("page.css"), script=_read("page.js"), plotly=get_plotlyjs()
    )


def _read(name: str) -> str:
    return _FOLDER.joinpath(name).read_text("utf-8")


def _script_json(value: Any) -> str:
    """Data in a script element, which only `</script>` could end."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
