"""Tables on terminals of every width, and where nobody looks."""

import itertools
import json
import re

import pytest
from rich.table import Table

from sim.tables import milliseconds, three_digits
from sim.terminal import print_prose, print_table

NUMBERS = [str(10_000 + n) for n in range(6)]
COMMANDS_WITHOUT_JSON = {
    "blocks",
    "plot",
    "report",
    "timeline",  # what they print is no result, or JSON already
    "init",
    "schema",
    "profile-gpu",
    "record-vllm",
}


def wide_table(name: str = "a name") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title="Title")
    table.add_column("system")
    for column in range(6):
        table.add_column(f"column {column}", justify="right")
    table.add_row(name, *NUMBERS)
    return table


@pytest.fixture
def printed(monkeypatch, capsys):
    """The lines of a table on a terminal of a width, without colours; without a width in a pipe."""

    def lines(table: Table, width: int | None = None) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width or 40))
        if width:
            monkeypatch.setenv("FORCE_COLOR", "1")
        print_table(table)
        return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()

    return lines


def test_in_a_pipe_a_table_has_its_full_width(printed):
    title, headings, row, end = printed(wide_table())
    assert title.strip() == "Title"
    assert headings.split() == ["system", *itertools.chain(*(("column", str(n)) for n in range(6)))]
    assert row.split() == ["a", "name", *NUMBERS]
    assert end == ""


@pytest.mark.parametrize("width", [20, 40, 60, 200])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_lost(printed, width):
    lines = printed(wide_table(), width)
    assert max(map(len, lines)) <= max(width, 40)  # narrower ones break lines themselves
    assert [number for line in lines for number in re.findall("1000.", line)] == NUMBERS


def test_blocks_each_say_what_the_row_is_and_the_title_is_said_once(printed):
    lines = printed(wide_table(), 40)
    blocks = [line for line in lines if line.startswith("a name")]
    assert [len(re.findall("1000.", line)) for line in blocks] == [3, 3]
    assert sum("Title" in line for line in lines) == 1


def test_long_name_is_broken_not_cut(printed):
    name = "a system with a very long name that alone would fill the line"
    lines = printed(wide_table(name), 40)
    assert max(map(len, lines)) <= 40
    words = [word for line in lines for word in line.split() if word.isalpha()]
    assert [word for word in name.split() if word not in words] == []


def test_prose_is_broken_in_its_column(printed):
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("meaning", ratio=1)
    table.add_row("name", "many words " * 20)
    lines = printed(table, 40)
    assert max(map(len, lines)) <= 40
    assert " ".join(lines).count("many") == 20


@pytest.mark.parametrize("width", [40, 60])
def test_sentences_break_between_words_and_go_on_further_in(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = "  look at: a larger pool (gpu_memory_utilization), fewer at once, or prefix caching"
    print_prose(text)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("  look")
    assert others and all(re.match(r"    \S", line) for line in others)
    assert max(map(len, (first, *others))) <= width
    assert " ".join([first, *others]).split() == text.split()


def test_in_a_pipe_a_sentence_is_one_line(capsys):
    text = "a word " * 50 + "ends"
    print_prose(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_run_on_a_narrow_terminal_shows_every_column(kvsim):
    done = kvsim("run", "small.yaml", "--quiet", COLUMNS="40", FORCE_COLOR="1")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout)
    assert max(map(len, text.splitlines())) <= 40
    for heading in ("tokens/s", "TTFT", "TPOT", "live", "empted"):
        assert heading in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123456, "12.3"),
        (0.99949, "999"),
        (0.99951, "1000"),
        (0.9999, "1000"),
        (12.3456, "12346"),
    ],
)
def test_milliseconds_are_never_powers_of_ten(seconds, text):
    assert milliseconds(seconds) == text


def test_three_digits():
    assert [three_digits(value) for value in (1.2345, 123.45, 123456.7)] == [
        "1.23",
        "123",
        "123457",
    ]


def test_every_command_that_prints_results_prints_json():
    from sim.commands import app

    commands = [*app.registered_commands]
    for group in app.registered_groups:
        commands += group.typer_instance.registered_commands
    without = set()
    for command in commands:
        function = command.callback
        if "as_json" not in function.__annotations__:
            without.add(command.name or function.__name__.replace("_", "-"))
    assert without == COMMANDS_WITHOUT_JSON


@pytest.mark.slow
def test_json_is_the_format_json(kvsim):
    short = kvsim("run", "small.yaml", "--json", "--quiet")
    long = kvsim("run", "small.yaml", "--format", "json", "--quiet")
    assert short.stdout == long.stdout
    assert json.loads(short.stdout)[0]["system"] == "default"


@pytest.mark.slow
def test_sweep_prints_json(kvsim):
    swept = ("--set", "engine.block_size=8,16", "--json", "--quiet")
    rows = json.loads(kvsim("sweep", "small.yaml", *swept).stdout)
    assert [row["engine.block_size"] for row in rows] == [8, 16]


def test_demo_prints_json_with_the_steps_of_its_table(kvsim):
    found = json.loads(kvsim("demo", "hello", "--max-new", "3", "--json").stdout)
    (prompt,) = found["prompts"]
    steps = kvsim("demo", "hello", "--max-new", "3").stdout.splitlines()[1:4]
    assert prompt["prompt"] == "hello"
    assert [step["blocks_in_use"] for step in found["steps"]] == [
        int(line.split()[1]) for line in steps
    ]
