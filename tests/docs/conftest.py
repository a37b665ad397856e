"""A folder in which the commands of a page can be run as they stand there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of

SAMPLES = Path(__file__).parent / "samples"
CODE = ("engine", "workloads", "sim", "tests")
# Pages that go on with the files of another one.
FILES_OF = {"docs/seeing.md": "docs/tutorial.md"}
# What is not run here, so that only `kvsim`, `python` and the like are.
STUBS = ("pip", "make", "export", "curl")


class Folder:
    """Where the commands of a page run: scenarios, samples under the names of the pages, its files.

    A page that changes kvsim's code, by blocks of `diff`, gets a copy of the code.
    """

    def __init__(self, path: Path, page: str) -> None:
        self.path = path
        shutil.copytree(ROOT / "scenarios", path / "scenarios")
        shutil.copytree(SAMPLES, path, dirs_exist_ok=True)
        (path / "AzureLLMInferenceTrace_conv.csv").symlink_to("scenarios/samples/azure_form.csv")
        blocks = [*(blocks_of(FILES_OF[page]) if page in FILES_OF else ()), *blocks_of(page)]
        changes_code = any(block.language == "diff" for block in blocks)
        self._code = path if changes_code else ROOT
        if changes_code:
            for name in (*CODE, "pyproject.toml"):
                copy(ROOT / name, path / name)
        for block in blocks:
            if block.language == "diff":
                apply(path / block.title, block.text)
            elif block.title:
                (path / block.title).parent.mkdir(parents=True, exist_ok=True)
                (path / block.title).write_text(block.text, "utf-8")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a shell; the hash in the name of a run's folder is that of the run."""
        self._write_tools()
        environment = {
            "PATH": f"{self.path / '.bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self._code),
            "COLUMNS": "100",
        }
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", self._with_hashes(command)],
            cwd=self.path,
            env=os.environ | environment,
            capture_output=True,
            encoding="utf-8",
            timeout=900,
            check=False,
        )

    def _write_tools(self) -> None:
        tools = self.path / ".bin"
        tools.mkdir(exist_ok=True)
        start = f'#!/bin/sh\nexec "{sys.executable}"'
        texts = {"python": f'{start} "$@"\n'} | dict.fromkeys(STUBS, "#!/bin/sh\n")
        texts["kvsim"] = f'{start} -c "from sim.cli import main; main()" "$@"\n'
        for name, text in texts.items():
            (tools / name).write_text(text, "utf-8")
            (tools / name).chmod(0o755)

    def _with_hashes(self, command: str) -> str:
        def latest(match: re.Match[str]) -> str:
            folders = sorted(self.path.glob(f"{match[1]}-*"), key=os.path.getmtime)
            return str(folders[-1].relative_to(self.path)) if folders else match[0]

        return re.sub(r"(runs/[\w.-]+)-0123456789", latest, command)


def copy(source: Path, target: Path) -> None:
    """A folder or a file."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def apply(path: Path, diff: str) -> None:
    """Change the one place of a file that a block shows, as it shows it."""
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] != "+")
    after = "".join(line[1:] for line in lines if line[0] != "-")
    text = path.read_text("utf-8")
    assert text.count(before) == 1, f"{path.name} has not once:\n{before}"
    path.write_text(text.replace(before, after), "utf-8")


@pytest.fixture
def folder_for(tmp_path: Path) -> Callable[[str], Folder]:
    """Makes the Folder of a page: `folder_for("README.md").run("kvsim --version")`."""
    return lambda page: Folder(tmp_path, page)
