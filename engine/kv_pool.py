"""The memory that blocks are made of: keys and values of every slot, layer by layer."""

import numpy as np
from numpy.typing import NDArray

from engine.kv_manager import Moves

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


class KVPool:
    """Keys and values of all slots; slot = block id * block_size + offset in the block.

    keys, values: float32, [num_layers, num_blocks * block_size, num_kv_heads, head_size]. They
    start at zero and stay finite, so a padded read, weighted by zero, adds nothing.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        num_host_blocks: int = 0,
    ) -> None:
        self.block_size = block_size
        shape = (num_layers, num_blocks * block_size, num_kv_heads, head_size)
        self.keys: FloatArray = np.zeros(shape, np.float32)
        self.values: FloatArray = np.zeros(shape, np.float32)
        block_shape = (num_blocks, block_size, num_kv_heads, head_size)
        self._key_blocks = self.keys.reshape(num_layers, *block_shape)
        self._value_blocks = self.values.reshape(num_layers, *block_shape)
        host_shape = (num_layers, num_host_blocks, *block_shape[1:])
        self._host_key_blocks = np.zeros(host_shape, np.float32)
        self._host_value_blocks = np.zeros(host_shape, np.float32)
        self._gathered = np.zeros((2, 0, *block_shape[1:]), np.float32)

    def write(self, layer: int, slots: IntArray, k: FloatArray, v: FloatArray) -> None:
        """Store k and v, each [tokens, num_kv_heads, head_size], in the slots [tokens]."""
        self.keys[layer, slots] = k
        self.values[layer, slots] = v

    def move(self, moves: Moves) -> None:
        """Copy whole blocks, in all layers."""
        pool = (self._key_blocks, self._value_blocks)
        host = (self._host_key_blocks, self._host_value_blocks)
        _copy(pool, host, moves.out)
        _copy(host, pool, moves.back)
        _copy(pool, pool, moves.within)

    def gather(self, layer: int, block_tables: IntArray) -> tuple[FloatArray, FloatArray]:
        """Keys and values of whole blocks, in the order of the tables.

        block_tables: block ids, [rows, blocks], a block in as many places as one likes.
        Returns copies, each [rows, blocks * block_size, num_kv_heads, head_size], in memory that
        the next gather overwrites: fresh pages for every read would cost far more than the copy.
        """
        num_rows, num_blocks = block_tables.shape
        if self._gathered.shape[1] < block_tables.size:
            self._gathered = np.zeros((2, block_tables.size, *self._gathered.shape[2:]), np.float32)
        ids = block_tables.ravel()
        keys, values = self._gathered[:, : len(ids)]  # each [rows * blocks, block_size, ...]
        # In the default mode, `take` would fill a buffer of its own first.
        self._key_blocks[layer].take(ids, axis=0, out=keys, mode="clip")
        self._value_blocks[layer].take(ids, axis=0, out=values, mode="clip")
        shape = (num_rows, num_blocks * self.block_size, *keys.shape[2:])
        return keys.reshape(shape), values.reshape(shape)


def _copy(
    source: tuple[FloatArray, FloatArray],
    target: tuple[FloatArray, FloatArray],
    blocks: list[tuple[int, int]],
) -> None:
    """Copy blocks (from, to) of keys and values, each [num_layers, blocks, block_size, ...]."""
    if blocks:
        from_ids, to_ids = map(list, zip(*blocks, strict=True))
        for taken, given in zip(source, target, strict=True):
            given[:, to_ids] = taken[:, from_ids]
