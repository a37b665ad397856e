"""The package's surface and its imports."""

import subprocess
import sys
from pathlib import Path

import workloads


def test_every_public_name_exists() -> None:
    assert [name for name in workloads.__all__ if not hasattr(workloads, name)] == []


def test_workloads_imports_neither_engine_nor_sim() -> None:
    code = (
        "import sys, workloads;"
        "print([m for m in sys.modules if m.split('.')[0] in ('engine', 'sim', 'simpy')])"
    )
    root = Path(workloads.__file__).parents[1]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
