"""The pool keeps what is written where the slot says."""

import numpy as np

from engine.kv_pool import KVPool

SHAPE = {"num_layers": 2, "num_blocks": 4, "block_size": 3, "num_kv_heads": 2, "head_size": 4}


def test_a_block_table_reads_back_what_slots_were_written() -> None:
    """Block 2 then 0, block_size 3: slots 6, 7, 8, then 0, 1, 2."""
    pool = KVPool(**SHAPE)
    k, v = np.random.default_rng(0).standard_normal((2, 6, 2, 4), np.float32)
    pool.write(1, np.array([6, 7, 8, 0, 1, 2]), k, v)

    keys, values = pool.gather(1, np.array([[2, 0]]))

    assert keys.shape == values.shape == (1, 6, 2, 4)
    np.testing.assert_array_equal(keys[0], k)
    np.testing.assert_array_equal(values[0], v)
    np.testing.assert_array_equal(pool.keys[1, 6:9], k[:3])
    assert not pool.keys[0].any()  # the other layer


def test_rows_may_share_and_repeat_blocks() -> None:
    pool = KVPool(**SHAPE)
    pool.keys[0] = np.arange(12, dtype=np.float32)[:, None, None]

    keys, _ = pool.gather(0, np.array([[3, 1], [1, 1]]))

    assert keys[:, :, 0, 0].tolist() == [[9, 10, 11, 3, 4, 5], [3, 4, 5, 3, 4, 5]]


def test_gathers_of_any_size_follow_one_another() -> None:
    pool = KVPool(**SHAPE)
    pool.values[0] = np.arange(12, dtype=np.float32)[:, None, None]

    for block_ids in ([1], [3, 2, 1, 0], [2], [0, 1, 2, 3, 3]):
        _, values = pool.gather(0, np.array([block_ids]))
        expected = [3 * block_id + offset for block_id in block_ids for offset in range(3)]
        assert values[0, :, 0, 0].tolist() == expected
