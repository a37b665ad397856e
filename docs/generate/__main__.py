"""`python -m docs.generate`."""

from pathlib import Path

from docs.generate import PAGES

REFERENCE = Path(__file__).parents[1] / "reference"

for name, page in PAGES.items():
    (REFERENCE / name).write_text(page(), "utf-8")
