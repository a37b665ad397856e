"""A sequence's logical positions -> physical blocks and slots."""


class BlockTable:
    """Blocks of one sequence, in the order of its tokens, and how far they are filled.

    With block_size 4, block_ids [7, 2] and num_tokens 6, position 5 lies in block 2 at offset 1;
    block 2 is the partly filled tail, with two slots empty.
    """

    __slots__ = ("block_ids", "block_size", "deferred_after", "num_published", "num_tokens")

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.block_ids: list[int] = []
        self.num_tokens = 0  # positions filled: tokens whose K/V is computed, or is by this step
        self.num_published = 0  # leading blocks that the prefix trie knows
        # The block after which more are full, and published when it makes a difference.
        self.deferred_after: int | None = None

    def clear(self) -> None:
        """Hold nothing any more."""
        self.block_ids = []
        self.num_tokens = 0
        self.num_published = 0
        self.deferred_after = None

    def locate(self, position: int) -> tuple[int, int]:
        """Physical (block id, offset) of a filled position. Raises IndexError for any other."""
        if not 0 <= position < self.num_tokens:
            raise IndexError(
                f"position {position} is not filled: the table holds {self.num_tokens}"
            )
        block, offset = divmod(position, self.block_size)
        return self.block_ids[block], offset
