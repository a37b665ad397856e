"""A page as one HTML file: styles, script and the library that draws are all in it."""

from importlib.resources import files

from plotly.offline import get_plotlyjs

from sim.html_page import filled
from sim.report.page import Page

_FOLDER = files("sim.report")


def render(page: Page) -> str:
    """HTML that needs nothing else, from the network or the disk."""
    return filled(
        _read("page.html.j2"),
        page=page,
        style=_read("page.css"),
        script=_read("page.js"),
        plotly=get_plotlyjs(),
    )


def _read(name: str) -> str:
    return _FOLDER.joinpath(name).read_text("utf-8")
