"""The tree of RFC 6962 §2.1 as it grows: hash a leaf, append it, ask for the root or a proof. No I/O."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """SHA-256(0x00 ‖ entry), 32 bytes (RFC 6962 §2.1)."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right), 32 bytes (RFC 6962 §2.1)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """The roots of the whole subtrees that a log of `size` leaves consists of, largest first.

    Immutable, so that a transaction that rolls back just drops the newer value.
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def append(self, leaf: bytes) -> "Frontier":
        """The frontier after one more leaf hash; O(log size)."""
        peaks = list(self.peaks)
        peaks.append(leaf)
        carry = self.size
        while carry & 1:
            right = peaks.pop()
            peaks[-1] = node_hash(peaks[-1], right)
            carry >>= 1
        return Frontier(self.size + 1, tuple(peaks))

    def root(self) -> bytes:
        """The tree head, 32 bytes (RFC 6962 §2.1; of no leaves: SHA-256 of nothing)."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root


TILE = 256  # leaves, or tiles of the level below, in one tile


@dataclass(frozen=True, slots=True)
class Tile:
    """The root of a whole subtree: `TILE ** level` leaves from `index * TILE ** level` on."""

    level: int
    index: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class TiledLog:
    """A growing tree that gives out each whole tile once, so that it can be picked up again from few rows.

    `levels[0]` is the frontier of the leaves after the last whole tile, `levels[k]` that of the level-k tiles after the
    last whole tile of level k + 1.
    """

    size: int = 0
    levels: tuple[Frontier, ...] = (Frontier(),)

    def append(self, leaf: bytes) -> tuple["TiledLog", list[Tile]]:
        """The log after one more leaf hash, and the tiles that it completed (usually none)."""
        size = self.size + 1
        levels = list(self.levels)
        completed: list[Tile] = []
        carry, level = leaf, 0
        while True:
            if level == len(levels):
                levels.append(Frontier())
            levels[level] = levels[level].append(carry)
            if levels[level].size < TILE:
                return TiledLog(size, tuple(levels)), completed
            carry = levels[level].root()
            levels[level] = Frontier()
            level += 1
            completed.append(Tile(level, size // TILE**level - 1, carry))

    def root(self) -> bytes:
        """The tree head over all leaves, 32 bytes."""
        peaks = [peak for frontier in reversed(self.levels) for peak in frontier.peaks]
        return Frontier(self.size, tuple(peaks)).root()


Nodes = Callable[[int, int, int], Sequence[bytes]]  # (level, first, count) → leaf hashes (level 0) or roots of tiles
Range = tuple[int, int]  # leaves from the first up to, not including, the second


def root_of(leaves: Range, nodes: Nodes) -> bytes:
    """The root over a stretch of leaves that is a subtree of the log, from its largest whole tiles on; at most 255 a level.

    Raises LookupError where a node is not there.
    """
    first, last = leaves
    level, span = 0, 1
    while span * TILE <= last - first:
        level, span = level + 1, span * TILE
    peaks: list[bytes] = []
    while first < last:
        count = (last - first) // span
        if count:
            found = nodes(level, first // span, count)
            if len(found) != count:
                raise LookupError(f"nodes {first // span} to {first // span + count} of level {level}")
            frontier = Frontier()
            for node in found:
                frontier = frontier.append(node)
            peaks += frontier.peaks
            first += count * span
        level, span = level - 1, span // TILE
    return Frontier(last, tuple(peaks)).root()


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """The subtrees whose roots prove that leaf `index` is in a tree of `size` (RFC 6962 §2.1.1), nearest the leaf first."""
    first, last = 0, size
    path: list[Range] = []
    while last - first > 1:
        middle = first + _split(last - first)
        if index < middle:
            path.append((middle, last))
            last = middle
        else:
            path.append((first, middle))
            first = middle
    return path[::-1]


def consistency_ranges(older: int, newer: int) -> list[Range]:
    """The subtrees whose roots prove that a tree of `newer` leaves extends one of `older` (RFC 6962 §2.1.2).

    Empty where there is nothing to prove: the older is empty, or both are the same.
    """
    if older in (0, newer):
        return []
    first, last = 0, newer
    path: list[Range] = []
    while last != older:
        middle = first + _split(last - first)
        if older <= middle:
            path.append((middle, last))
            last = middle
        else:
            path.append((first, middle))
            first = middle
    if first > 0:  # else the older tree is this subtree, whose root the verifier has
        path.append((first, last))
    return path[::-1]


def _split(count: int) -> int:
    """The largest power of two smaller than `count`."""
    return 1 << (count - 1).bit_length() - 1
