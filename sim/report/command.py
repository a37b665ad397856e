"""What `kvsim report` does: one HTML file of what is in a folder."""

import sys
from pathlib import Path

from sim.errors import UserError
from sim.report.of_plan import FILE, page_of_plan
from sim.report.of_run import page_of_run
from sim.report.of_sweep import page_of_sweep
from sim.report.page import Page
from sim.report.render import render
from sim.run_folder import ABOUT
from sim.sweep.table import TABLE
from sim.whole_file import check_suffix, whole_file

NAME = "report.html"


def _page(folder: Path) -> Page:
    """By what is in the folder."""
    if (folder / FILE).is_file():
        return page_of_plan(folder)
    if (folder / TABLE).is_file():
        return page_of_sweep(folder)
    if (folder / ABOUT).is_file():
        return page_of_run(folder)
    raise UserError(f"{folder}: is no folder that `kvsim run`, `sweep` or `plan` has left")


def write_report(folder: Path, out: Path | None = None, *, quiet: bool = False) -> None:
    """Write the report of a folder, into it if `out` is not given, and say where.

    Raises UserError for a folder that has none, or a place that cannot be written to.
    """
    out = out or folder / NAME
    check_suffix(out, "--out", (".html",))
    html = render(_page(folder))
    with whole_file(out) as path:
        path.write_text(html, "utf-8")
    if not quiet:
        print(f"written to {out}", file=sys.stderr)
