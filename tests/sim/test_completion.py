"""What a shell offers when Tab is pressed."""

import sys

import click
import pytest
import typer

from sim import catalogue
from sim.commands import app, completion


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a few files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for name in ("chat.yaml", "chat.csv", "mine/twin.yml"):
        (tmp_path / name).write_text("", "utf-8")
    return tmp_path


def test_scenarios_are_yaml_files_and_folders(folder):
    assert completion.scenario_files("") == ["chat.yaml", "mine/"]
    assert completion.scenario_files("ch") == ["chat.yaml"]
    assert completion.scenario_files("mine/") == ["mine/twin.yml"]
    assert completion.scenario_files(f"{folder}/ch") == [f"{folder}/chat.yaml"]


def test_keys_of_settings_have_their_meaning():
    found = dict(completion.settings("workload.arrivals.poisson."))
    assert list(found) == ["workload.arrivals.poisson.rate"]
    assert "per second" in found["workload.arrivals.poisson.rate"]


@pytest.mark.parametrize(
    ("start", "values"),
    [
        ("engine.batching=", ["static", "continuous"]),
        ("engine.enable_prefix_caching=", ["true", "false"]),
        ("hardware=h2", ["h20", "h200"]),
        ("engine.num_blocks=", ["auto"]),
        ("seed=", []),
        ("no.such.key=", []),
    ],
)
def test_values_that_have_names_are_offered(start, values):
    key = start.partition("=")[0]
    assert [text for text, _ in completion.settings(start)] == [
        f"{key}={value}" for value in values
    ]


def test_names_of_the_catalogue():
    complete = completion.names_of("models")
    assert complete("") == catalogue.names("models")
    assert complete("toy") == ["toy"]


def test_names_of_figures():
    assert completion.figures("kv_") == ["kv_memory", "kv_shares"]


def test_whatever_takes_the_folder_of_a_run_completes_it(folder):
    commands = typer.main.get_command(app).commands
    for name in ("explain", "plot", "report", "timeline", "blocks", "diff"):
        (argument,) = (p for p in commands[name].params if p.name in ("folder", "run_folder"))
        context = click.Context(commands[name], info_name=name)
        offered = [item.value for item in argument.shell_complete(context, "mi")]
        assert offered == ["mine/"], name


@pytest.mark.parametrize(
    ("shell", "environment"),
    [
        ("bash", {"COMP_WORDS": "kvsim run --set engine.block", "COMP_CWORD": "3"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "kvsim run --set engine.block"}),
        (
            "fish",
            {
                "_TYPER_COMPLETE_ARGS": "kvsim run --set engine.block",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
        ),
    ],
)
def test_shells_are_answered(kvsim, shell, environment):
    call_by_its_name(kvsim)
    done = kvsim(_KVSIM_COMPLETE=f"complete_{shell}", **environment)
    assert "engine.block_size" in done.stdout


def call_by_its_name(kvsim):
    """As the script of a shell does, which takes the name of its variable from it."""
    code = "import sys; sys.argv[0] = 'kvsim'; from sim.cli import main; main()"
    kvsim.argv = lambda *_: [sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("shell", "line"),
    [("bash", "complete -o"), ("zsh", "compdef _kvsim_completion"), ("fish", "complete --command")],
)
def test_script_for_a_shell_is_shown(kvsim, shell, line):
    """Whichever shell it is called from: `--show-completion` would look for that one."""
    call_by_its_name(kvsim)
    done = kvsim(_KVSIM_COMPLETE=f"source_{shell}")
    assert line in done.stdout
