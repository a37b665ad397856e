"""The notebooks: they run, and what is kept of them is whole and of no machine."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]


def code_cells(path: Path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_no_cell_fails(path: Path, tmp_path: Path):
    for name in ("nbclient", "ipykernel"):
        pytest.importorskip(name, reason="the extra `notebooks` is not installed (make extras)")
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    ran = subprocess.run(
        [sys.executable, "execute.py", path.name],
        cwd=tmp_path / "notebooks",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_every_cell_was_run_in_order_and_nothing_went_wrong(path: Path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert {output["output_type"] for output in outputs} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    assert not any(output.get("name") == "stderr" for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_what_is_kept_names_no_place_of_a_machine(path: Path):
    outputs = [output for cell in code_cells(path) for output in cell["outputs"]]
    texts = [
        "".join(text)
        for output in outputs
        for kind, text in ({"text": output.get("text", "")} | output.get("data", {})).items()
        if kind.startswith("text")
    ]
    for place in (str(ROOT), sys.prefix, tempfile.gettempdir(), " at 0x"):
        assert not any(place in text for text in texts), place
