"""Runs notebooks, each from its folder, and keeps their outputs: `python execute.py FILE...`."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(path: Path) -> None:
    """Run all cells in a new kernel and write the file anew. Raises CellExecutionError."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, resources=folder, timeout=600, record_timing=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # without the version that ran it
    nbformat.write(notebook, path)


for name in sys.argv[1:]:
    execute(Path(name))
