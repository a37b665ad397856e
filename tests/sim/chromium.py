"""A real Chromium without a window, to open pages in."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATH = next((path for name in _NAMES if (path := shutil.which(name))), None)

needs_chromium = pytest.mark.skipif(_PATH is None, reason="no Chromium on this machine")


@contextmanager
def chromium() -> Iterator[Browser]:
    """It takes a second or two to start."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_PATH, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page that has been opened from the disk; whatever goes wrong in it, or is asked for."""

    def __init__(self, browser: Browser, path: Path, width: int = 1100, **media: str) -> None:
        context = browser.new_context(viewport={"width": width, "height": 900}, **media)
        self.page: Page = context.new_page()
        self.mistakes: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.mistakes.append(str(error)))
        self.page.on(
            "console",
            lambda said: self.mistakes.append(said.text) if said.type == "error" else None,
        )
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function(
            "[...document.querySelectorAll('.plot')].every(p => p._fullLayout)"
        )
