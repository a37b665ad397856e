"""What is in the pages of the documentation: fenced blocks, and the commands in them."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
_FENCED = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)

_BETWEEN = "|;&<>"  # what a command of a line ends at


class Block(NamedTuple):
    """language: empty where none is given. title: the file that the block shows, if one."""

    language: str
    title: str
    text: str


class Shown(NamedTuple):
    """A command of a page, and what the page shows of its output; None: nothing."""

    command: str
    output: str | None


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks of a page."""
    return [Block(*groups) for groups in _FENCED.findall(PAGES[page].read_text("utf-8"))]


def commands_of(page: str) -> list[Shown]:
    """Those of `sh` and `console` blocks, in order, whole where a line ends with a backslash."""
    shown = []
    for block in blocks_of(page):
        text = block.text.replace("\\\n", " ")
        if block.language == "sh":
            lines = [line for line in text.splitlines() if line and not line.startswith("#")]
            shown += [Shown(line, None) for line in lines]
        if block.language == "console":
            parts = re.split(r"^\$ ", text, flags=re.M)[1:]
            shown += [Shown(*part.partition("\n")[::2]) for part in parts]
    return shown


def kvsim_arguments(command: str) -> list[list[str]]:
    """The arguments of each `kvsim` of a line of a shell."""
    words = shlex.shlex(command, posix=True, punctuation_chars=_BETWEEN)
    words.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set(_BETWEEN):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part[1:] for part in parts if part[:1] == ["kvsim"]]
