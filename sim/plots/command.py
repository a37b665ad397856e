"""What `kvsim plot` does: draw one figure of a run that is there."""

import sys
from pathlib import Path

from sim.errors import UserError
from sim.plots.run_figures import FIGURES
from sim.plots.style import save
from sim.shown import read_shown
from sim.whole_file import check_suffix, whole_file


def plot(folder: Path, name: str, out: Path, at: list[str]) -> None:
    """Draw a figure of a run folder into a file.

    at: KEY=VALUE of what was swept, for figures of one point; the last if empty.
    Raises UserError for mistakes of the user.
    """
    if name not in FIGURES:
        raise UserError(f"--figure: got {name!r}, expected one of {', '.join(FIGURES)}")
    check_suffix(out, "--out", (".png", ".svg"))
    figure = FIGURES[name].draw(read_shown(folder, at))
    if figure is None:
        raise UserError(f"{folder}: has no figure {name!r}, which needs {FIGURES[name].needs}")
    with whole_file(out) as path:
        save(figure, path)
    print(f"written to {out}", file=sys.stderr)
