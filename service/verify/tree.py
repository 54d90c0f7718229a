"""The Merkle tree of RFC 6962, written for reading: nothing of the writer's is used."""

import hashlib
from typing import Final

TILE: Final = 256  # leaves, or tiles of the level below, under one stored root


def sha256(content: bytes) -> bytes:
    """32 bytes."""
    return hashlib.sha256(content).digest()


def subtree_root(nodes: list[bytes]) -> bytes:
    """RFC 6962 §2.1 over roots of equally large subtrees (the last may be smaller): pair up, an odd one moves up."""
    while len(nodes) > 1:
        odd = nodes[len(nodes) & ~1 :]
        nodes = [sha256(b"\x01" + left + right) for left, right in zip(nodes[::2], nodes[1::2], strict=False)] + odd
    return nodes[0] if nodes else sha256(b"")


class Tree:
    """The tree as it grows. `levels[k]` are the roots of 256^k leaves each that are not in a larger whole one yet."""

    def __init__(self) -> None:
        self.size = 0
        self.levels: list[list[bytes]] = [[]]

    def append(self, leaf: bytes) -> list[tuple[int, int, bytes]]:
        """Add one leaf hash; answers the tiles that this made whole: (level, index, root)."""
        self.size += 1
        self.levels[0].append(leaf)
        whole: list[tuple[int, int, bytes]] = []
        level = 0
        while len(self.levels[level]) == TILE:
            root = subtree_root(self.levels[level])
            self.levels[level] = []
            level += 1
            if level == len(self.levels):
                self.levels.append([])
            self.levels[level].append(root)
            whole.append((level, self.size // TILE**level - 1, root))
        return whole

    def root(self) -> bytes:
        """The root of all leaves so far, which is what a checkpoint of this size signs."""
        last: list[bytes] = []
        for nodes in self.levels:
            if nodes or last:
                last = [subtree_root(nodes + last)]
        return subtree_root(last)
