"""`kvsim list`: what a scenario can name, from the catalogue that scenarios are checked by."""

import json

import pytest
from typer.testing import CliRunner

from sim import catalogue
from sim.commands import app
from sim.metrics import summarise
from sim.plots.run_figures import FIGURES


def printed(*args: str, columns: int | None = None) -> str:
    """What the command prints, into a pipe or, with so many columns, on a terminal."""
    env = {} if columns is None else {"COLUMNS": str(columns), "FORCE_COLOR": "1"}
    done = CliRunner().invoke(app, args, env=env)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("systems", "systems"),
        ("gpus", "hardware"),
        ("models", "models"),
        ("workloads", "workloads"),
    ],
)
def test_all_of_the_catalogue_are_listed(kind, table):
    rows = json.loads(printed("list", kind, "--json"))
    assert [row["name"] for row in rows] == catalogue.names(table)
    shown = printed("list", kind)
    assert [name for name in catalogue.names(table) if name not in shown] == []


def test_systems_and_workloads_are_the_same_by_themselves():
    for kind in ("systems", "workloads"):
        assert printed("list", kind) == printed(kind)


def test_a_figure_that_needs_nothing_says_so():
    rows = json.loads(printed("list", "figures", "--json"))
    assert {row["name"]: row["needs"] for row in rows} == {
        name: figure.needs for name, figure in FIGURES.items()
    }
    assert printed("list", "figures").splitlines()[4].split()[-1] == "-"


@pytest.mark.parametrize("kind", ["systems", "metrics"])
def test_in_a_pipe_each_is_a_line_of_its_own(kind):
    num_rows = len(json.loads(printed("list", kind, "--json")))
    assert len(printed("list", kind).rstrip("\n").splitlines()) == 1 + num_rows


def test_on_a_terminal_broken_prose_has_an_empty_line_below():
    lines = printed("list", "systems", columns=80).rstrip().splitlines()
    assert sum(not line.strip() for line in lines) == len(catalogue.names("systems"))


def test_metrics_are_those_of_a_run_in_their_order(new_workload, serve):
    rows = json.loads(printed("list", "metrics", "--json"))
    names = [row["name"] for row in rows if row["name"] not in ("slo_share", "goodput_per_s")]
    assert names == list(summarise(serve(new_workload((4, 3), arrival_ms=[0]))))


def test_scenarios_have_their_first_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "scenarios" / "below"
    folder.mkdir(parents=True)
    text = "# yaml-language-server: $schema=x.json\n# What it\n# shows. And more.\nname: a\n"
    (folder.parent / "a.yaml").write_text(text, "utf-8")
    (folder / "b.yaml").write_text("name: b\n", "utf-8")
    rows = json.loads(printed("list", "scenarios", "--json"))
    assert rows == [
        {"name": "scenarios/a.yaml", "about": "What it shows"},
        {"name": "scenarios/below/b.yaml", "about": ""},
    ]


def test_without_a_kind_all_names_are_listed():
    found = json.loads(printed("list", "--json"))
    assert found["gpus"] == catalogue.names("hardware")
    assert set(found) >= {"scenarios", "systems", "models", "workloads", "metrics"}


def test_unknown_kind_is_one_line(kvsim):
    done = kvsim("list", "gpu")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
