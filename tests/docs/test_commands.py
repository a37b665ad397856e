"""Every command that README and docs/ show: it can be typed, it runs, it prints what they say."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from sim.commands import app
from tests.docs.pages import PAGES, Shown, blocks_of, commands_of, kvsim_arguments

# Beginnings of commands that cannot be run here, and why. Their options are checked all the same.
NOT_RUN = {
    "kvsim profile-gpu": "takes minutes on a GPU",
    "kvsim record-vllm": "needs a vLLM",
    "kvsim conformance mine": "of a recording that a vLLM has made",
    "kvsim sweep scenarios/chat.yaml": "takes minutes: 315 runs in which every token is computed",
    "python -m benchmarks": "takes minutes, and measures the machine",
}
# Names that pages give to what lies in the folder KVSIM_DATA.
IN_DATA = {
    "measured": "validation",
    "profiles": "profiles",
    "my-profile": "profiles/rtx4090-llama-3.1-8b",
    "recordings": "vllm_schedules",
    "conversation_trace.jsonl.gz": "traces/mooncake_fast25/conversation_trace.jsonl.gz",
}
# What has to be there besides samples and the files of a page.
BEFORE = {"docs/reference/cli.md": ["kvsim run run.yaml", "kvsim run scenarios/azure_conv.yaml"]}
WITH_COMMANDS = [page for page in PAGES if commands_of(page)]


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_in_blocks_that_are_tested(page: str) -> None:
    for block in blocks_of(page):
        if block.language not in ("sh", "console"):
            assert not re.search(r"^(\$ )?kvsim ", block.text, re.M), block.text


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_and_their_options_exist(page: str) -> None:
    for shown in commands_of(page):
        for words in kvsim_arguments(shown.command):
            parse("kvsim", typer.main.get_command(app), words)


def parse(name: str, command: Any, words: list[str]) -> None:
    """Raises for a command, an option or an argument that there is not."""
    commands = getattr(command, "commands", None)
    if commands is None:
        command.make_context(name, list(words))
    else:
        parse(words[0], commands[words[0]], words[1:])


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_run_and_print_what_the_page_shows(page: str, folder_for) -> None:
    folder = folder_for(page)
    link_data(folder.path)
    for command in BEFORE.get(page, ()):
        folder.run(command)
    for shown in commands_of(page):
        if shown.command.startswith(tuple(NOT_RUN)) or lacks_data(shown.command):
            continue
        done = folder.run(shown.command)
        assert done.returncode == 0, f"{shown.command}\n{done.stdout}\n{done.stderr}"
        if shown.output is not None:
            assert_shown(shown, done.stdout)


def link_data(folder: Path) -> None:
    """Recorded data, where there is some, under the names that pages give it."""
    for name, kept_as in IN_DATA.items() if "KVSIM_DATA" in os.environ else ():
        if not (folder / name).exists():
            (folder / name).symlink_to(Path(os.environ["KVSIM_DATA"]) / kept_as)


def lacks_data(command: str) -> bool:
    return "KVSIM_DATA" not in os.environ and any(f" {name}" in command for name in IN_DATA)


def assert_shown(shown: Shown, printed: str) -> None:
    """The page shows what was printed; a `...` stands for anything."""
    parts = [re.escape(part) for part in trimmed(shown.output or "").split("...")]
    assert re.fullmatch(".*".join(parts), trimmed(printed), re.S), f"{shown.command}\n{printed}"


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())
