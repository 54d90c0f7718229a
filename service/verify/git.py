"""Git's objects in a folder that may be hostile: read by id from loose files and packs, bounded, each held against its id.

Nothing is run and nothing but `objects/` is read: no configuration, no hooks, no alternates.
Formats: gitformat-pack(5) (index version 2), and loose objects as `git hash-object` writes them.
"""

import hashlib
import mmap
import os
import struct
import zlib
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 64 * 1024 * 1024  # of one object inflated
MAX_DELTAS: Final = 4096  # of one object; git itself makes no more than 50 in a row
KINDS: Final = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_INDEX_MAGIC: Final = b"\xfftOc\x00\x00\x00\x02"


class Unreadable(Exception):
    """An object that is not there, or is damaged; says which and why."""


class Objects:
    """Objects of one repository, by their 20 bytes. `folder`: a work tree or a bare repository."""

    def __init__(self, folder: Path) -> None:
        inside = folder / ".git" if (folder / ".git").is_dir() else folder
        self._objects = inside / "objects"
        if self._objects.is_symlink() or not self._objects.is_dir():
            raise Unreadable("no objects folder")
        packs = self._objects / "pack"
        names = sorted(packs.glob("pack-*.idx")) if packs.is_dir() and not packs.is_symlink() else []
        self._packs = [pack for pack in map(_open_pack, names) if pack is not None]

    def read(self, name: bytes, kind: bytes) -> bytes:
        """The content of the object with this id. Raises Unreadable where it is missing, damaged, or of another kind."""
        try:
            found, content = self._find(name, 0)
        except Unreadable:
            raise
        except (OSError, ValueError, IndexError, struct.error, zlib.error, RecursionError) as error:
            raise Unreadable(f"{name.hex()}: {type(error).__name__}") from error
        digest = hashlib.sha1(b"%b %d\0" % (found, len(content)), usedforsecurity=False)
        digest.update(content)
        if digest.digest() != name:
            raise Unreadable(f"{name.hex()} is not what its id says")
        if found != kind:
            raise Unreadable(f"{name.hex()} is a {found.decode()}, no {kind.decode()}")
        return content

    def _find(self, name: bytes, depth: int) -> tuple[bytes, bytes]:
        loose = self._loose(name)
        if loose is not None:
            return loose
        for pack in self._packs:
            offset = pack.offset_of(name)
            if offset is not None:
                return pack.inflate(offset, self, depth)
        raise Unreadable(f"{name.hex()} is missing")

    def base(self, name: bytes, depth: int) -> tuple[bytes, bytes]:
        """What a delta in a pack builds upon; checked as part of what is built."""
        return self._find(name, depth)

    def _loose(self, name: bytes) -> tuple[bytes, bytes] | None:
        file = self._objects / name.hex()[:2] / name.hex()[2:]
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as opened:
            content = _inflate(opened.read(MAX_BYTES), MAX_BYTES + 64)
        header, _, body = content.partition(b"\0")
        kind, _, size = header.partition(b" ")
        if kind not in KINDS.values() or size != b"%d" % len(body):
            raise Unreadable(f"{name.hex()}: damaged")
        return kind, body


class _Pack:
    """One pack with its index, both mapped."""

    def __init__(self, index: mmap.mmap, pack: mmap.mmap) -> None:
        self._index = index
        self._pack = pack
        self._fan = struct.unpack_from(">256I", index, 8)
        self.count = self._fan[255]
        names = 8 + 1024
        self._names, self._offsets = names, names + self.count * 24
        self._large = self._offsets + self.count * 4
        if list(self._fan) != sorted(self._fan) or self._large + 40 > len(index):
            raise ValueError("index")

    def offset_of(self, name: bytes) -> int | None:
        """Where the object begins, if it is here."""
        low, high = (self._fan[name[0] - 1] if name[0] else 0), self._fan[name[0]]
        while low < high:
            middle = (low + high) // 2
            at = self._names + middle * 20
            found = self._index[at : at + 20]
            if found == name:
                return self._place(middle)
            if found < name:
                low = middle + 1
            else:
                high = middle
        return None

    def _place(self, nth: int) -> int:
        (offset,) = struct.unpack_from(">I", self._index, self._offsets + nth * 4)
        if offset & 0x80000000:
            (offset,) = struct.unpack_from(">Q", self._index, self._large + (offset & 0x7FFFFFFF) * 8)
        return int(offset)

    def inflate(self, offset: int, objects: Objects, depth: int) -> tuple[bytes, bytes]:
        """Kind and content of what begins there: down the chain of deltas to a whole object, and up again."""
        deltas: list[bytes] = []
        kind: bytes | None = None
        content = b""
        while kind is None:
            number, size, at = self._header(offset)
            if depth + len(deltas) > MAX_DELTAS or size > MAX_BYTES:
                raise Unreadable("too large, or too many deltas")
            if number in KINDS:
                kind, content = KINDS[number], self._at(at, size)
            elif number == _OFFSET_DELTA:
                back, at = self._distance(at)
                deltas.append(self._at(at, size))
                offset -= back
                if back <= 0 or offset < 12:
                    raise ValueError("offset")
            elif number == _REFERENCE_DELTA:
                deltas.append(self._at(at + 20, size))
                kind, content = objects.base(self._pack[at : at + 20], depth + 1 + len(deltas))
            else:
                raise ValueError("type")
        for delta in reversed(deltas):
            content = _apply(content, delta)
        return kind, content

    def _header(self, at: int) -> tuple[int, int, int]:
        byte = self._pack[at]
        number, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 0x80:
            at += 1
            byte = self._pack[at]
            size |= (byte & 0x7F) << shift
            shift += 7
            if shift > 60:
                raise ValueError("size")
        return number, size, at + 1

    def _distance(self, at: int) -> tuple[int, int]:
        byte = self._pack[at]
        back = byte & 0x7F
        while byte & 0x80:
            at += 1
            byte = self._pack[at]
            back = (back + 1) << 7 | byte & 0x7F
            if back > 1 << 60:
                raise ValueError("offset")
        return back, at + 1

    def _at(self, at: int, size: int) -> bytes:
        content = _inflate(memoryview(self._pack)[at:], size)
        if len(content) != size:
            raise ValueError("size")
        return content


def _open_pack(index: Path) -> _Pack | None:
    """None for a pack that cannot be read: what it holds is missing then."""
    try:
        mapped = _mapped(index)
        if mapped[:8] != _INDEX_MAGIC:
            return None
        return _Pack(mapped, _mapped(index.with_suffix(".pack")))
    except (OSError, ValueError, struct.error):
        return None


def _mapped(file: Path) -> mmap.mmap:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)


def _inflate(content: bytes | memoryview, limit: int) -> bytes:
    """At most `limit` bytes and one more, which tells that there are too many."""
    return zlib.decompressobj().decompress(content, limit + 1)


def _apply(base: bytes, delta: bytes) -> bytes:
    """What the delta makes of its base."""
    at, sizes = 0, []
    for _ in range(2):
        size = shift = 0
        while True:
            byte = delta[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80 or shift > 60:
                break
        sizes.append(size)
    if sizes[0] != len(base) or sizes[1] > MAX_BYTES:
        raise ValueError("delta")
    parts, length = [], 0
    while at < len(delta):
        part, at = _step(base, delta, at)
        parts.append(part)
        length += len(part)
        if length > sizes[1]:
            raise ValueError("delta")
    if length != sizes[1]:
        raise ValueError("delta")
    return b"".join(parts)


def _step(base: bytes, delta: bytes, at: int) -> tuple[bytes, int]:
    """One instruction: bytes of the base, or bytes of its own."""
    order = delta[at]
    at += 1
    if not order & 0x80:
        if not order or at + order > len(delta):
            raise ValueError("delta")
        return delta[at : at + order], at + order
    place = size = 0
    for bit in range(4):
        if order & 1 << bit:
            place |= delta[at] << 8 * bit
            at += 1
    for bit in range(3):
        if order & 0x10 << bit:
            size |= delta[at] << 8 * bit
            at += 1
    size = size or 0x10000
    if place + size > len(base):
        raise ValueError("delta")
    return base[place : place + size], at


def entries_of(tree: bytes) -> dict[bytes, tuple[bytes, bytes]]:
    """Name → (mode, id) of a tree object. Raises Unreadable for a name twice, or what is no tree."""
    entries: dict[bytes, tuple[bytes, bytes]] = {}
    at = 0
    while at < len(tree):
        space, end = tree.find(b" ", at), tree.find(b"\0", at)
        if not at < space < end or end + 21 > len(tree):
            raise Unreadable("a damaged tree")
        name = tree[space + 1 : end]
        if name in entries:
            raise Unreadable("a name twice in a tree")
        entries[name] = (tree[at:space], tree[end + 1 : end + 21])
        at = end + 21
    return entries
