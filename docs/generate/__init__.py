"""Writes the pages of docs/reference/ that say what the code says: `python -m docs.generate`."""

from docs.generate.cli import cli_page
from docs.generate.metrics import metrics_page
from docs.generate.scenario import scenario_page

PAGES = {"cli.md": cli_page, "scenario.md": scenario_page, "metrics.md": metrics_page}
