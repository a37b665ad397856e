"""What `kvsim plan` refuses before it reads the scenario."""

import pytest

from sim.commands.planning import plan
from sim.errors import UserError


@pytest.mark.parametrize(
    ("rate", "got"),
    [(float("nan"), "nan"), (float("inf"), "inf"), (0.0, "0"), (-2.5, "-2.5")],
)
def test_a_rate_is_a_number_above_0(tmp_path, rate, got):
    with pytest.raises(UserError, match=f"^--rate: got {got}, expected requests per second above"):
        plan(tmp_path / "none.yaml", "ttft<1s", rate=rate)


def test_a_folder_that_cannot_be_written_to_is_named_at_once(tmp_path):
    out = tmp_path / "file"
    out.touch()
    with pytest.raises(UserError, match=f"^--out: got {out}, but {out} cannot be written to: not"):
        plan(tmp_path / "none.yaml", "ttft<1s", out=out)
