"""Which blocks hold which content: full blocks, keyed by what they hold and all before it."""

from collections import deque
from collections.abc import Hashable, Iterable


class _Node:
    """A content path.

    block_ids: the blocks that hold it, the one published first at the head.
    evicted_at: the step in which the last of them was evicted, while that is remembered.
    """

    __slots__ = ("block_ids", "children", "evicted_at", "key", "parent")

    def __init__(self, parent: "_Node | None", key: Hashable) -> None:
        self.parent = parent
        self.key = key
        self.children: dict[Hashable, _Node] = {}
        self.block_ids: dict[int, None] = {}
        self.evicted_at: int | None = None


class PrefixTrie:
    """Published blocks by content. Keys are compared by equality, so no hash can mix up content.

    A path stays while a block holds it or anything that continues it: when a block in the middle
    is evicted, its continuations can be hit again once its content is back. Besides, the last
    `num_remembered` evictions are remembered, to tell an evicted path from one never seen.

    now: number of the current step, which evictions are dated with.
    """

    def __init__(self, num_remembered: int = 0) -> None:
        self.now = 0
        self._root = _Node(None, None)
        self._node_of: dict[int, _Node] = {}
        self._num_remembered = num_remembered
        self._evictions: deque[tuple[_Node, int]] = deque()  # oldest first

    def __contains__(self, block_id: object) -> bool:
        return block_id in self._node_of

    def __len__(self) -> int:
        return len(self._node_of)

    def match(self, keys: Iterable[Hashable]) -> list[int]:
        """Blocks holding the longest known prefix of `keys`; of equal ones the first published."""
        block_ids = []
        node: _Node | None = self._root
        for key in keys:
            node = node.children.get(key) if node else None
            if not node or not node.block_ids:
                break
            block_ids.append(next(iter(node.block_ids)))
        return block_ids

    def missed(self, keys: list[Hashable], num_hits: int) -> list[int | None]:
        """For each key after the first num_hits, the step of the eviction that made it a miss.

        None where no eviction is remembered: the path was never seen.
        """
        node: _Node | None = self._root
        evicted_at: int | None = None
        steps = []
        for number, key in enumerate(keys):
            node = node.children.get(key) if node else None
            if node is None:
                evicted_at = None
            elif node.evicted_at is not None:
                evicted_at = node.evicted_at
            if number >= num_hits:
                steps.append(evicted_at)
        return steps

    def insert(self, block_id: int, key: Hashable, after: int | None) -> None:
        """Publish a block whose content continues that of block `after`, or starts (None)."""
        parent = self._root if after is None else self._node_of[after]
        node = parent.children.get(key)
        if node is None:
            node = parent.children[key] = _Node(parent, key)
        node.block_ids[block_id] = None
        node.evicted_at = None
        self._node_of[block_id] = node

    def remove(self, block_id: int) -> None:
        """Forget a block that is evicted; its path is remembered for a while."""
        node = self._node_of.pop(block_id)
        del node.block_ids[block_id]
        if node.block_ids:
            return
        node.evicted_at = self.now
        self._evictions.append((node, self.now))
        if len(self._evictions) > self._num_remembered:
            self._forget(*self._evictions.popleft())

    def _forget(self, node: _Node, evicted_at: int) -> None:
        """Stop remembering an eviction, and drop every path that nothing needs any more."""
        if node.evicted_at != evicted_at:
            return  # published again since
        node.evicted_at = None
        self._drop_unneeded(node)

    def withdraw(self, block_id: int) -> None:
        """Forget a block whose content was published but never computed: that is no eviction."""
        node = self._node_of.pop(block_id)
        del node.block_ids[block_id]
        self._drop_unneeded(node)

    def _drop_unneeded(self, node: _Node) -> None:
        while node.parent and not (node.block_ids or node.children or node.evicted_at is not None):
            del node.parent.children[node.key]
            node = node.parent

    def check(self) -> None:
        """Prove that paths and blocks agree and that no dead path is kept."""
        seen: dict[int, _Node] = {}
        stack = [self._root]
        while stack:
            node = stack.pop()
            is_needed = node.block_ids or node.children or node.evicted_at is not None
            assert node is self._root or is_needed, "a dead path is kept"
            for key, child in node.children.items():
                assert child.parent is node and child.key == key
                stack.append(child)
            seen.update(dict.fromkeys(node.block_ids, node))
        assert seen == self._node_of
