"""Blocks of Python and YAML on the pages are true."""

import pytest
import yaml

from sim.scenario import Scenario
from tests.docs.pages import PAGES, Block, blocks_of

# Its block plans, and tests/sim/test_api.py runs it on fewer requests.
ELSEWHERE = ("docs/planning.md",)


def untitled(page: str, language: str) -> list[Block]:
    """Those of a language that show no file."""
    return [block for block in blocks_of(page) if block.language == language and not block.title]


WITH_PYTHON = [page for page in PAGES if page not in ELSEWHERE and untitled(page, "python")]
WITH_SCENARIOS = [
    page
    for page in PAGES
    if any(block.language == "yaml" and block.title for block in blocks_of(page))
    and not any(block.language == "diff" for block in blocks_of(page))
]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_runs(page: str, folder_for) -> None:
    folder = folder_for(page)
    for block in untitled(page, "python"):
        (folder.path / "example.py").write_text(block.text, "utf-8")
        done = folder.run("python example.py")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", WITH_SCENARIOS)
def test_scenarios_can_be_read(page: str) -> None:
    for block in blocks_of(page):
        if block.language == "yaml" and block.title:
            Scenario.parse(yaml.safe_load(block.text))
