"""Which blocks hold which content: full blocks, keyed by what they hold and all before it."""

from collections.abc import Hashable, Iterable


class _Node:
    """A content path. `block_ids`: the blocks that hold it, the one published first at the head."""

    __slots__ = ("block_ids", "children", "key", "parent")

    def __init__(self, parent: "_Node | None", key: Hashable) -> None:
        self.parent = parent
        self.key = key
        self.children: dict[Hashable, _Node] = {}
        self.block_ids: dict[int, None] = {}


class PrefixTrie:
    """Published blocks by content. Keys are compared by equality, so no hash can mix up content.

    A path stays while a block holds it or anything that continues it: when a block in the middle
    is evicted, its continuations can be hit again once its content is back.
    """

    def __init__(self) -> None:
        self._root = _Node(None, None)
        self._node_of: dict[int, _Node] = {}

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

    def insert(self, block_id: int, key: Hashable, after: int | None) -> None:
        """Publish a block whose content continues that of block `after`, or starts (None)."""
        parent = self._root if after is None else self._node_of[after]
        node = parent.children.get(key)
        if node is None:
            node = parent.children[key] = _Node(parent, key)
        node.block_ids[block_id] = None
        self._node_of[block_id] = node

    def remove(self, block_id: int) -> None:
        """Forget a block, and every path that nothing holds or continues any more."""
        node = self._node_of.pop(block_id)
        del node.block_ids[block_id]
        while node.parent is not None and not node.block_ids and not node.children:
            del node.parent.children[node.key]
            node = node.parent

    def check(self) -> None:
        """Prove that paths and blocks agree and that no dead path is kept."""
        seen: dict[int, _Node] = {}
        stack = [self._root]
        while stack:
            node = stack.pop()
            assert node is self._root or node.block_ids or node.children, "a dead path is kept"
            for key, child in node.children.items():
                assert child.parent is node and child.key == key
                stack.append(child)
            seen.update(dict.fromkeys(node.block_ids, node))
        assert seen == self._node_of
