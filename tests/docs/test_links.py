"""Links: of the site, by its own strict build, and of the files that are read where they lie."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

OUTSIDE = ["README.md", "CONTRIBUTING.md", "notebooks/README.md"]


def anchors(path: Path) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", OUTSIDE)
def test_links_of_files_beside_the_site_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        if link.startswith(("https://", "http://")):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess]:
    """The site, and what was said while it was built."""
    pytest.importorskip("material", reason="the extra `docs` is not installed (make docs)")
    site = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return site, done


def test_site_builds_without_a_warning(build) -> None:
    """A link or an anchor that leads nowhere is one, and so is a page that is not in the menu."""
    _, done = build
    assert done.returncode == 0, done.stderr


def test_nothing_is_loaded_from_elsewhere(build) -> None:
    site, _ = build
    for page in site.rglob("*.html"):
        tags = re.findall(r"<(?:script|img|iframe|link)[^>]*>", page.read_text("utf-8"))
        loaded = [tag for tag in tags if 'rel="canonical"' not in tag]
        assert not re.findall(r'(?:src|href)="(?:https?:)?//[^"]*"', "".join(loaded)), page.name
