"""What `kvsim blocks` does: simulate a run again and draw its pool."""

import math
import sys
from pathlib import Path

from sim.blocks.frame import Frame
from sim.blocks.image import save_gif, save_png
from sim.blocks.layout import Heading, draw
from sim.blocks.page import save_page
from sim.blocks.svg import save_svg
from sim.blocks.watchers import REPLICA, AtTime, Film, Telling
from sim.errors import UserError
from sim.rerun import Chosen, Window, choose, watch
from sim.scenario.deployed import build_config
from sim.whole_file import check_suffix, whole_file

_STILLS = (".png", ".svg", ".html")
_FILMS = (".gif", ".html")
_MOST_FRAMES = 120
_FILM_S = 20  # how long a GIF takes about


def draw_blocks(
    folder: Path,
    system: str | None,
    seed: int | None,
    at: list[str],
    *,
    time_s: float | None,
    animate: bool,
    window: Window,
    out: Path,
) -> None:
    """Draw the pool of a run at one moment, or as a film.

    Raises UserError where not exactly one run is meant or it cannot be simulated again.
    """
    if animate:
        check_suffix(out, "--out with --animate", _FILMS)
    else:
        check_suffix(out, "--out", _STILLS)
    if time_s is not None and not math.isfinite(time_s):
        raise UserError(f"--time: got {time_s}, expected seconds")
    if time_s is not None and (animate or window != Window()):
        other = "--animate" if animate else "--window"
        raise UserError(f"--time: got it with {other}, expected one of the two")
    chosen = choose(folder, system, seed, at)
    title = chosen.name
    if chosen.scenario.replicas.count > 1:
        title += f", replica {REPLICA} of {chosen.scenario.replicas.count}"
    why, frames = _film(chosen, window) if animate else _still(chosen, time_s, window)
    block_size = build_config(chosen.scenario, chosen.system).block_size
    _save(frames, Heading(title, why, block_size), out)
    moments = f"{len(frames)} moments" if len(frames) > 1 else f"step {frames[0].step:,}"
    print(f"{out}: {moments} of {chosen.name}{', ' if why else ''}{why}", file=sys.stderr)


def _still(chosen: Chosen, time_s: float | None, window: Window) -> tuple[str, list[Frame]]:
    """The frame at a time, or the most telling one, and what is special about it."""
    if time_s is None:
        telling = Telling(window)
        watch(chosen, telling, window)
        frames = [] if telling.frame is None else [telling.frame]
        return telling.why, _seen(frames, f"--window: got {window.text}", chosen)
    at_time = AtTime(round(time_s * 1e9))
    watch(chosen, at_time, Window())
    frames = [] if at_time.frame is None else [at_time.frame]
    return "", _seen(frames, f"--time: got {time_s:g}", chosen)


def _film(chosen: Chosen, window: Window) -> tuple[str, list[Frame]]:
    film = Film(window, _MOST_FRAMES)
    watch(chosen, film, window)
    why = f"one step in {film.stride} shown" if film.stride > 1 else ""
    return why, _seen(film.frames, f"--window: got {window.text}", chosen)


def _seen(frames: list[Frame], what_came: str, chosen: Chosen) -> list[Frame]:
    if not frames:
        end_s = chosen.requests["finished_ns"].max() / 1e9
        raise UserError(f"{what_came}, where no step is computed; the run ends at {end_s:.3f} s")
    return frames


def _save(frames: list[Frame], heading: Heading, out: Path) -> None:
    with whole_file(out) as partial:
        if out.suffix == ".html":
            save_page(frames, heading, partial)
        elif out.suffix == ".gif":
            pictures = [draw(frame, heading, frames) for frame in frames]
            save_gif(pictures, partial, max(60, _FILM_S * 1000 // len(frames)))
        else:
            save = save_png if out.suffix == ".png" else save_svg
            save(draw(frames[0], heading, frames), partial)
