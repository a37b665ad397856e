"""The file that says what results rest on vouches for itself and for those beside it."""

import pytest

from sim.about_file import about_text, read_about
from sim.errors import UserError


@pytest.fixture
def about(tmp_path):
    """Of one table, and of what was found: a number, a pair, a mapping."""
    (tmp_path / "table.csv").write_text("a\n1\n", "utf-8")
    path = tmp_path / "about.json"
    found = {"answer": 13.1, "seeds": (4, 10), "settings": {"a": None}}
    path.write_text(about_text(found, tmp_path, ["table.csv"]), "utf-8")
    return path


def test_what_was_written_is_read(about):
    found = read_about(about, "run it again")
    assert (found["answer"], found["seeds"], found["settings"]) == (13.1, [4, 10], {"a": None})


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("about.json", "13.1", "99.9"),
        ("about.json", '"a": null', '"b": 1'),
        ("table.csv", "1", "2"),
    ],
)
def test_what_has_changed_is_named(about, name, old, new):
    path = about.parent / name
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(UserError, match=f"{name}: .*changed since; run it again"):
        read_about(about, "run it again")
