"""What `kvsim plan` refuses before it reads the scenario."""

import pytest

from sim.commands.planning import _rate, plan
from sim.errors import UserError


@pytest.mark.parametrize("text", ["nan", "inf", "0", "-2.5", "many"])
def test_a_rate_is_a_number_above_0(text):
    with pytest.raises(UserError, match=f"^--rate: got {text}, expected requests per second above"):
        _rate(text)


def test_a_rate_is_read_as_it_is():
    assert [_rate(text) for text in ("20", "0.5", "1e-6")] == [20, 0.5, 1e-6]


def test_a_folder_that_cannot_be_written_to_is_named_at_once(tmp_path):
    out = tmp_path / "file"
    out.touch()
    with pytest.raises(UserError, match=f"^--out: got {out}, but {out} cannot be written to: not"):
        plan(tmp_path / "none.yaml", "ttft<1s", out=out)
