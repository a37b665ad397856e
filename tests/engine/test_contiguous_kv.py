"""Contiguous memory by hand: what a run is reserved for, and where every slot of it counts."""

import pytest

from engine.config import ConfigError, EngineConfig
from engine.contiguous_kv import ContiguousKVManager
from engine.engine import Engine
from engine.request import Request, RequestError, TokenPrompt
from engine.runners import ReplayRunner
from engine.sequence import Sequence

OUTPUT = {"a": 5, "b": 9, "c": 3}  # tokens


def manager(reservation: str, **changed: int) -> ContiguousKVManager:
    """64 slots, models of 32 tokens."""
    settings = {"block_size": 1, "num_blocks": 64, "max_model_len": 32} | changed
    config = EngineConfig(memory="contiguous", reservation=reservation, **settings)
    return ContiguousKVManager(config, lambda seq: OUTPUT[seq.request.request_id])


def sequence(name: str, num_prompt_tokens: int = 6, block_size: int = 1) -> Sequence:
    prompt = TokenPrompt(list(range(num_prompt_tokens)))
    return Sequence(Request(name, prompt, 20), block_size, 32)


def ledger(kv: ContiguousKVManager, head: Sequence | None = None) -> dict[str, int]:
    """Without its zeros."""
    return {kind: slots for kind, slots in kv.usage(head)._asdict().items() if slots}


@pytest.mark.parametrize(
    ("reservation", "expected"),
    [
        # 6 of the prompt are there, 4 of 5 output tokens will be: the last is never fed back.
        ("max", {"live": 6, "reserved": 4, "over_reserved": 22, "free": 32}),
        ("limit", {"live": 6, "reserved": 4, "over_reserved": 16, "unusable": 6, "free": 32}),
        ("pow2", {"live": 6, "reserved": 4, "over_reserved": 4, "unusable": 2, "free": 48}),
        ("exact", {"live": 6, "reserved": 4, "unusable": 6, "free": 48}),
    ],
)
def test_ledger_of_a_run_by_rule(reservation, expected):
    """Runs of 32, of 6 + 20 in 32, of 6 + 8 in 16 and of 10 in 16 slots."""
    kv = manager(reservation)
    seq = sequence("a")
    assert kv.admit(seq, [], 6)
    kv.check([seq])
    assert ledger(kv) == expected
    kv.release(seq)
    kv.check([])
    assert ledger(kv) == {"free": 64}


def test_tokens_move_from_the_reserved_to_the_live():
    kv = manager("exact")
    seq = sequence("a")
    assert kv.admit(seq, [], 4)
    ledgers = [ledger(kv)]
    assert kv.grow(seq, 2)
    ledgers.append(ledger(kv))
    assert kv.begin([seq])
    kv.fill(1)
    seq.block_table.num_tokens += 1
    ledgers.append(ledger(kv))
    rest = {"unusable": 6, "free": 48}
    assert ledgers == [
        {"live": 4, "reserved": 6} | rest,
        {"live": 6, "reserved": 4} | rest,
        {"live": 7, "reserved": 3} | rest,
    ]
    kv.check([seq])


def test_blocks_of_several_slots_have_a_tail():
    """10 slots are 3 blocks of 4, in a run of 4 blocks; 6 tokens are in 2 of them."""
    kv = manager("exact", block_size=4, num_blocks=16)
    seq = sequence("a", block_size=4)
    assert kv.admit(seq, [], 6)
    assert seq.block_table.block_ids == [0, 1, 2]
    assert ledger(kv) == {"live": 6, "tail": 2, "reserved": 4, "unusable": 4, "free": 48}


def test_free_slots_in_holes_that_are_too_small_are_unusable():
    """Runs of 16 and 32 of 64 slots leave 16, where one of 6 + 16 would need 32."""
    kv = manager("pow2")
    first, second, third = sequence("a"), sequence("b"), sequence("b")
    assert kv.admit(first, [], 6)
    assert kv.admit(second, [], 6)
    assert not kv.admit(third, [], 6)
    assert kv.usage(None).free == 16
    assert (kv.usage(third).free, kv.usage(third).unusable - kv.usage(None).unusable) == (0, 16)
    assert kv.usage(sequence("c")).free == 16


def test_rows_that_have_ended_hold_for_nothing():
    kv = manager("limit")
    seq = sequence("a")
    assert kv.admit(seq, [], 6)
    kv.retire(seq)
    assert ledger(kv) == {"over_reserved": 26, "unusable": 6, "free": 32}
    kv.check([seq])
    kv.release(seq)
    assert ledger(kv) == {"free": 64}


def test_refused_admission_changes_nothing():
    kv = manager("max", num_blocks=40)
    first, second = sequence("a"), sequence("b")
    assert kv.admit(first, [], 6)
    before = ledger(kv)
    assert not kv.admit(second, [], 6)
    assert (ledger(kv), second.block_table.block_ids) == (before, [])
    kv.check([first])


def test_run_larger_than_any_hole_is_refused_when_it_is_added():
    """40 blocks are 32 and 8: there is no run of 33, though there are 40."""
    config = EngineConfig(
        memory="contiguous", block_size=1, num_blocks=40, max_model_len=33, reservation="max"
    )
    engine = Engine(config, ReplayRunner({}), with_text=False)
    expected = "new tokens need a run of 64 blocks, the pool of 40 has room for 0"
    with pytest.raises(RequestError, match=expected):
        engine.add_request(Request("a", TokenPrompt(list(range(6))), 20))


@pytest.mark.parametrize("reservation", ["pow2", "exact"])
def test_oracle_is_needed_where_the_output_decides(reservation):
    config = EngineConfig(memory="contiguous", reservation=reservation)
    with pytest.raises(ConfigError, match=f"reservation: got '{reservation}', which an oracle"):
        Engine(config, ReplayRunner({}), with_text=False)


def test_nothing_is_shared():
    with pytest.raises(
        ConfigError, match="enable_prefix_caching: got True, which needs memory paged"
    ):
        EngineConfig(memory="contiguous", reservation="max", enable_prefix_caching=True)


def test_run_is_reserved_by_some_rule():
    with pytest.raises(ConfigError, match="memory: got 'contiguous', which needs reservation max"):
        EngineConfig(memory="contiguous")
