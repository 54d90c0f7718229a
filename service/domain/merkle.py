"""The tree of RFC 6962 §2.1 as it grows: hash a leaf, append it, ask for the root. No I/O."""

import hashlib
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
