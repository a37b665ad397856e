"""What `kvsim plot` does: draw one figure of a run that is there."""

from pathlib import Path

from sim.errors import UserError
from sim.explain.selection import parse_at
from sim.plots.run_figures import FIGURES, Shown, shown_of
from sim.plots.style import save
from sim.run_folder import read_summary
from sim.run_tables import read_runs
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


def read_shown(folder: Path, at: list[str]) -> Shown:
    """What figures of a run folder are drawn from. Raises UserError as `plot` does."""
    runs = read_runs(folder)
    values = parse_at(at, list(runs[0].labels))
    meant = [run for run in runs if run.labels.items() >= values.items()]
    if not any(run.is_served for run in meant):
        raise UserError(f"{folder}: no request is served{' at ' if at else ''}{', '.join(at)}")
    return shown_of(read_summary(folder), runs, values)
