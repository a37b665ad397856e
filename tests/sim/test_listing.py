"""`kvsim list`: what a scenario can name, from the catalogue that scenarios are checked by."""

import json

import pytest

from sim import catalogue
from sim.metrics import summarise


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("systems", "systems"),
        ("gpus", "hardware"),
        ("models", "models"),
        ("workloads", "workloads"),
    ],
)
def test_all_of_the_catalogue_are_listed(kvsim, kind, table):
    rows = json.loads(kvsim("list", kind, "--json").stdout)
    assert [row["name"] for row in rows] == catalogue.names(table)
    shown = kvsim("list", kind).stdout
    assert [name for name in catalogue.names(table) if name not in shown] == []


def test_systems_and_workloads_are_the_same_by_themselves(kvsim):
    for kind in ("systems", "workloads"):
        assert kvsim("list", kind).stdout == kvsim(kind).stdout


def test_metrics_are_those_of_a_run_in_their_order(kvsim, new_workload, serve):
    rows = json.loads(kvsim("list", "metrics", "--json").stdout)
    names = [row["name"] for row in rows if row["name"] not in ("slo_share", "goodput_per_s")]
    assert names == list(summarise(serve(new_workload((4, 3), arrival_ms=[0]))))


def test_scenarios_have_their_first_sentence(kvsim):
    folder = kvsim.folder / "scenarios" / "below"
    folder.mkdir(parents=True)
    text = "# yaml-language-server: $schema=x.json\n# What it\n# shows. And more.\nname: a\n"
    (folder.parent / "a.yaml").write_text(text, "utf-8")
    (folder / "b.yaml").write_text("name: b\n", "utf-8")
    rows = json.loads(kvsim("list", "scenarios", "--json").stdout)
    assert rows == [
        {"name": "scenarios/a.yaml", "about": "What it shows"},
        {"name": "scenarios/below/b.yaml", "about": ""},
    ]


def test_without_a_kind_all_names_are_listed(kvsim):
    found = json.loads(kvsim("list", "--json").stdout)
    assert found["gpus"] == catalogue.names("hardware")
    assert set(found) >= {"scenarios", "systems", "models", "workloads", "metrics"}


def test_unknown_kind_is_one_line(kvsim):
    done = kvsim("list", "gpu")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
