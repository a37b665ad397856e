"""What `kvsim report` does: one HTML file of what is in a folder."""

from pathlib import Path

from sim.errors import UserError
from sim.report.of_run import page_of_run
from sim.report.render import render
from sim.whole_file import whole_file

NAME = "report.html"


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the report of a folder, into it if `out` is not given; returns where.

    Raises UserError for a folder that has none, or a place that cannot be written to.
    """
    out = out or folder / NAME
    if out.suffix not in (".html", ".htm"):
        raise UserError(f"--out: got {str(out)!r}, expected a name ending in .html")
    html = render(page_of_run(folder))
    with whole_file(out) as path:
        path.write_text(html, "utf-8")
    return out
