"""`kvsim blocks`: what its pictures show, held against the tables that the run itself has left."""

import json
import re
from collections import Counter
from itertools import pairwise
from xml.etree import ElementTree

import pandas as pd
import pytest
from PIL import Image
from rich.cells import cell_len

from engine.kv_manager import KVUsage
from sim.blocks.command import draw_blocks
from sim.blocks.demo import watch_demo
from sim.blocks.frame import MOST_CELLS, Cell, Frame
from sim.blocks.image import text_width
from sim.blocks.layout import Heading, draw
from sim.blocks.looks import HOLDERS, colour_of
from sim.blocks.marks import Box, Words, hatch_lines
from sim.blocks.terminal import terminal_text
from sim.blocks.watchers import AtTime, Film, Telling
from sim.demo import Demo
from sim.errors import UserError
from sim.rerun import Window, choose, watch

SCENARIO = """\
name: pool
engine: {block_size: 4, num_blocks: 32, max_num_seqs: 6, max_num_batched_tokens: 64,
  max_model_len: 64}
workload:
  requests: 14
  arrivals: {closed_loop: {concurrency: 6, think_time_s: 0.003}}
  prompts: {shared: {groups: 2, tokens: 10}, unique: {lognormal: {mean: 8, sigma: 0.5}}}
  outputs: {lognormal: {mean: 14, sigma: 0.6, max: 30}}
systems:
  shared: {enable_prefix_caching: true, watermark: 0}
  async: {async_scheduling: true, watermark: 0}
  static: {batching: static, batch_size: 3, max_wait_s: 0.01}
  contiguous: {preset: orca-pow2}
"""
SYSTEMS = ("shared", "async", "static", "contiguous")
EVERYTHING = Window()


@pytest.fixture(scope="module")
def folder(new_run):
    return new_run(SCENARIO)


@pytest.fixture(scope="module")
def films(folder):
    """Every step of each system."""

    def film_of(system: str) -> list[Frame]:
        film = Film(EVERYTHING, 10_000)
        watch(choose(folder, system, None, []), film, EVERYTHING)
        return film.frames

    return {system: film_of(system) for system in SYSTEMS}


def steps(folder, system: str) -> pd.DataFrame:
    rows = pd.read_csv(folder / "steps.csv")
    return rows[(rows["system"] == system) & (rows["steps"] == 1)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_cells_add_up_to_the_slots_of_the_table_of_steps(folder, films, system):
    rows = steps(folder, system)
    assert len(films[system]) == len(rows)
    for frame, row in zip(films[system], rows.itertuples(), strict=True):
        slots = Counter(live=sum(cell.num_live for cell in frame.cells))
        for cell in frame.cells:
            slots[cell.rest] += cell.num_slots - cell.num_live
        assert frame.start_ns == row.start_ns
        expected = {name: getattr(row, name) for name in KVUsage._fields}
        assert {name: slots[name] for name in expected} == expected
        assert frame.usage._asdict() == expected


@pytest.mark.parametrize("system", SYSTEMS)
def test_who_runs_and_who_waits_is_as_a_step_began(folder, films, system):
    rows = steps(folder, system)
    shown = [(len(frame.running), len(frame.waiting)) for frame in films[system]]
    assert shown == list(zip(rows["running"], rows["waiting"], strict=True))


@pytest.mark.parametrize("system", SYSTEMS)
def test_nobody_waits_before_he_has_come(folder, films, system):
    requests = pd.read_csv(folder / "requests.csv")
    requests = requests[requests["system"] == system]
    arrival_ns = dict(zip(requests["request"].astype(str), requests["arrival_ns"], strict=True))
    for frame in films[system]:
        assert all(arrival_ns[name] <= frame.start_ns for name in frame.waiting)


def test_the_scenario_has_cells_of_every_kind(films):
    cells = [cell for frames in films.values() for frame in frames for cell in frame.cells]
    assert {cell.rest for cell in cells} == set(KVUsage._fields) - {"live"}
    assert any(len(cell.holders) > 1 for cell in cells)


def test_the_moment_that_tells_most_has_most_blocks_shared(folder, films):
    telling = Telling(EVERYTHING)
    watch(choose(folder, "shared", None, []), telling, EVERYTHING)
    most = max(frame.num_shared for frame in films["shared"])
    assert most > 2
    assert telling.frame.num_shared == most
    assert telling.why == "when most blocks are shared"


def test_without_sharing_it_has_most_blocks_held(folder, films):
    telling = Telling(EVERYTHING)
    watch(choose(folder, "static", None, []), telling, EVERYTHING)
    assert telling.frame.num_held == max(frame.num_held for frame in films["static"])
    assert telling.why.startswith("when most blocks are held")


@pytest.mark.parametrize("time_ns", [0, 50_000_000, 200_000_001])
def test_a_time_gives_the_step_that_is_computed_then(folder, time_ns):
    at_time = AtTime(time_ns)
    watch(choose(folder, "shared", None, []), at_time, EVERYTHING)
    rows = steps(folder, "shared").reset_index()
    row = rows[rows["start_ns"] + rows["duration_ns"] > time_ns].iloc[0]
    assert at_time.frame.start_ns == row["start_ns"]


def test_a_film_has_a_bound(folder, films):
    film = Film(EVERYTHING, 10)
    watch(choose(folder, "shared", None, []), film, EVERYTHING)
    assert 5 <= len(film.frames) <= 10
    assert film.frames == films["shared"][:: film.stride]


def test_a_film_of_a_window_has_the_steps_that_touch_it(folder, films):
    window = Window(100_000_000, 200_000_000)
    film = Film(window, 1000)
    watch(choose(folder, "shared", None, []), film, window)
    rows = steps(folder, "shared")
    ends_ns = rows["start_ns"] + rows["duration_ns"]
    expected = rows[(ends_ns > window.start_ns) & (rows["start_ns"] < window.end_ns)]
    assert [frame.start_ns for frame in film.frames] == list(expected["start_ns"])


def frame_with(cells: list[Cell], **changed) -> Frame:
    usage = KVUsage(1, 1, 1, 1, 1, 1, 1)
    running, waiting = (), ()
    plain = {"start_ns": 1, "step": 1, "per_cell": 1, "num_blocks": len(cells), "num_held": 1,
             "num_shared": 1, "num_cached": 1, "usage": usage, "running": running,
             "waiting": waiting}  # fmt: skip
    return Frame(cells=tuple(cells), **plain | changed)


@pytest.mark.parametrize(("most_lines", "folds"), [(10, False), (9, True)])
def test_empty_rows_of_a_pool_taller_than_the_terminal_are_one(most_lines, folds):
    """Eight rows of eight blocks, the second and the last with something in them."""
    cells = [Cell((), 0, 4, "free")] * 64
    cells[9] = cells[63] = Cell(("7",), 4, 4, "tail")
    text = terminal_text(frame_with(cells), 50, most_lines).plain
    rows = text.partition("\n\n")[0].splitlines()
    firsts = [int(row.split()[0]) for row in rows]
    assert firsts == ([0, 8, 16, 56] if folds else list(range(0, 64, 8)))
    assert ("and the next, 40 in all" in rows[2]) == folds


HEADING = Heading("a title", "", 4)
KINDS = [
    Cell(("7",), 4, 4, "tail"),
    Cell(("123456",), 1, 4, "tail"),
    Cell(("1", "2", "3"), 4, 4, "tail"),
    Cell(tuple(map(str, range(1200))), 4, 4, "tail"),
    Cell(("8",), 0, 4, "reserved"),
    Cell(("9.2",), 0, 4, "over_reserved"),
    Cell((), 0, 4, "cached"),
    Cell(("8",), 0, 4, "unusable"),
    Cell((), 0, 4, "free"),
]


@pytest.mark.parametrize("num_blocks", [1, 2, 7, 8, 9, 64, 100, 512, 1000, 4096])
@pytest.mark.parametrize("num_seqs", [0, 1, 500])
def test_nothing_overlaps_or_leaves_the_picture(num_blocks, num_seqs):
    cells = [KINDS[i % len(KINDS)] for i in range(num_blocks)]
    names = tuple(str(10**4 + i) for i in range(num_seqs))
    frame = frame_with(cells, running=names, waiting=names)
    picture = draw(frame, HEADING, [frame])
    texts = []
    for mark in picture.marks:
        if isinstance(mark, Box):
            assert mark.x >= 0 and mark.x + mark.width <= picture.width
            assert mark.y >= 0 and mark.y + mark.height <= picture.height
        else:
            width = text_width(mark.text, mark.size, is_bold=mark.is_bold)
            left = mark.x - {"start": 0, "middle": width / 2, "end": width}[mark.anchor]
            assert left >= 0 and left + width <= picture.width, mark
            texts.append((mark.y - mark.size / 2, mark.y + mark.size / 2, left, left + width))
    rows: dict[float, list[tuple[float, float]]] = {}
    for top, _, left, right in texts:
        rows.setdefault(top, []).append((left, right))
    for spans in rows.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(spans)))


def test_lines_of_a_hatch_stay_in_their_box():
    for kind in ("stripes", "crosses", "dots"):
        box = Box(10, 20, 28, 13, "#FFFFFF", hatch=kind, hatch_ink="#000000")
        lines = hatch_lines(box)
        assert lines
        for x1, y1, x2, y2 in lines:
            assert min(x1, x2) >= 10 and max(x1, x2) <= 38
            assert min(y1, y2) >= 20 and max(y1, y2) <= 33


def test_a_request_keeps_its_colour_and_those_that_come_after_it_have_others():
    assert len({colour_of((str(i),)) for i in range(len(HOLDERS))}) == len(HOLDERS)
    assert colour_of(("5",)) == colour_of(("5.1",))
    assert colour_of(("5", "6")) not in HOLDERS


def test_a_pool_too_large_to_draw_is_folded_and_says_so(new_run):
    large = SCENARIO.partition("systems:")[0].replace("num_blocks: 32", "num_blocks: 20000")
    telling = Telling(EVERYTHING)
    watch(choose(new_run(large), None, None, []), telling, EVERYTHING)
    frame = telling.frame
    assert len(frame.cells) <= MOST_CELLS
    assert sum(cell.num_slots for cell in frame.cells) == 20_000 * 4
    assert sum(cell.num_live for cell in frame.cells) == frame.usage.live
    picture = draw(frame, HEADING, [frame])
    texts = [mark.text for mark in picture.marks if isinstance(mark, Words)]
    assert any(text.startswith("Each square is 5 neighbouring blocks") for text in texts)


def drawn(folder, out, system: str = "shared", **options) -> None:
    settings = {"time_s": None, "animate": False, "window": EVERYTHING}
    draw_blocks(folder, system, None, [], **settings | options, out=out)


@pytest.mark.slow
@pytest.mark.parametrize("out", ["a.png", "a.svg", "a.gif", "a.html"])
def test_equal_runs_give_equal_bytes(folder, tmp_path, out):
    animate = out.endswith((".gif", ".html"))
    drawn(folder, tmp_path / out, animate=animate)
    drawn(folder, tmp_path / f"b{out}", animate=animate)
    assert (tmp_path / out).read_bytes() == (tmp_path / f"b{out}").read_bytes()


def test_a_gif_has_a_frame_for_each_step(folder, tmp_path, films):
    drawn(folder, tmp_path / "a.gif", animate=True)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == len(films["shared"])


def test_an_svg_has_a_number_in_every_block_that_is_held_by_one(folder, tmp_path, films):
    drawn(folder, tmp_path / "a.svg", time_s=0.2)
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text("utf-8"))
    texts = Counter(e.text for e in root.iter("{http://www.w3.org/2000/svg}text"))
    frame = [f for f in films["shared"] if f.start_ns <= 200_000_000][-1]
    held = Counter(cell.holders[0] for cell in frame.cells if len(cell.holders) == 1)
    chips = Counter([*frame.running, *frame.waiting])
    example = {"12": 2}  # in the legend
    rows = {"0": 1, "8": 1, "16": 1, "24": 1}
    for name, count in held.items():
        assert texts[name] == count + chips[name] + example.get(name, 0) + rows.get(name, 0)


def test_a_page_has_all_frames_and_needs_no_other_file(folder, tmp_path, films):
    drawn(folder, tmp_path / "a.html", animate=True)
    page = (tmp_path / "a.html").read_text("utf-8")
    assert not re.search(r"(?:https?:)?//[\w.]+\.\w", page)
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    data = json.loads(re.search(r'application/json">(.*?)</script>', page)[1])
    cells = {}
    for frame, expected in zip(data["frames"], films["shared"], strict=True):
        changes = iter(frame["set"])
        cells |= {place: data["states"][state] for place, state in zip(changes, changes,
                                                                       strict=True)}  # fmt: skip
        shown = [(tuple(cells[i][0]), *cells[i][1:]) for i in range(len(expected.cells))]
        assert shown == [tuple(cell) for cell in expected.cells]


@pytest.mark.parametrize(
    ("out", "options", "words"),
    [
        ("x.gif", {}, "expected a name ending in .png, .svg or .html"),
        (
            "x.png",
            {"animate": True},
            "expected a name ending in .gif or .html",
        ),
        (
            "x.png",
            {"time_s": 99.0},
            "--time: got 99, where no step is computed; the run ends at 0.",
        ),
        ("x.gif", {"animate": True, "time_s": 0.1}, "--time: got it with --animate, expected"),
        (
            "x.html",
            {"animate": True, "window": Window(99 * 10**9)},
            "--window: got 99,, where no step",
        ),
    ],
)
def test_mistakes_say_what_was_expected(folder, tmp_path, out, options, words):
    with pytest.raises(UserError) as mistake:
        drawn(folder, tmp_path / out, **options)
    assert words in str(mistake.value)
    assert not list(tmp_path.iterdir())


def test_the_command_draws_and_says_of_what(kvsim_of_module, folder):
    done = kvsim_of_module("blocks", str(folder), "--system", "static", "--out", "static.png")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("static.png: step ")
    assert (kvsim_of_module.folder / "static.png").stat().st_size > 10_000


@pytest.mark.parametrize("width", [30, 45, 60])
def test_in_a_terminal_nothing_is_cut_however_narrow(width):
    frame = frame_with([cell for cell in KINDS if cell.num_live or cell.rest in ("cached", "free")])
    lines = terminal_text(frame, width, 100).plain.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert all(words in "".join(lines) for words in ("half full", "shared by 2", "cached", "free"))


@pytest.mark.parametrize("width", [30, 45])
def test_the_demo_in_a_narrow_terminal_fits(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    demo = Demo(["hello world", "hello there"], max_new_tokens=4, block_size=4, num_blocks=64,
                batching="continuous", enable_prefix_caching=True)  # fmt: skip
    watch_demo(demo, 0)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "step 3: 7 of 64 blocks held, 1 of them by several" in " ".join(map(str.rstrip, lines))
