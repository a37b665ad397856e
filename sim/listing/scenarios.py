"""The scenarios that come with kvsim, or lie in the current folder."""

import re
import sysconfig
from pathlib import Path

from sim.scenario.yaml_text import read_text

_FOLDER = "scenarios"


def scenarios() -> list[dict[str, str]]:
    """Of each file its path, the scenario's name, and the first sentence of the comment at the top.

    Those of ./scenarios; where there is none, those that were installed with kvsim.
    """
    folder = Path(_FOLDER)
    if not folder.is_dir():
        folder = Path(sysconfig.get_path("data")) / "share" / "kvsim" / _FOLDER
    return [
        _about(path) for path in sorted(folder.rglob("*.yaml"), key=lambda p: (len(p.parts), p))
    ]


def _about(path: Path) -> dict[str, str]:
    text = read_text(path)
    comment = re.match(r"(?:#.*\n)*", text)
    lines = comment[0].splitlines() if comment else []
    words = " ".join(line.lstrip("# ") for line in lines if "$schema=" not in line)
    sentence = re.match(r".*?[.:](?= |$)", words)
    return {"name": str(path), "about": sentence[0].rstrip(".:") if sentence else words}
