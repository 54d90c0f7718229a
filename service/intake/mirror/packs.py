"""Packs from a server into an `objects` folder: counted, hashed, decoded by dulwich, small ones as loose objects.

Nothing is judged by its content here: a strange tree is a problem of what it names, not of the fetch.
"""

import hashlib
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, cast

from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.pack import PackData, PackIndexer, UnpackedObjectIterator, extend_pack, write_pack_index

from service.intake.mirror.git_remote import Remote, Unreachable
from service.intake.mirror.objects import TYPES, Damaged, Objects, type_name

# A pack this small becomes loose objects: each further pack makes every later read and fetch slower.
EXPLODE_BELOW_BYTES: Final = 1 << 20
EXPLODE_UP_TO: Final = 500  # objects: a file each

Progress = Callable[[int], None]


def receive(
    remote: Remote, want: str, haves: Iterable[str], objects: Objects, max_bytes: int, progress: Progress
) -> None:
    """Fetch a pack into the store, as loose objects where it is small. Raises Unreachable, Damaged."""
    folder = objects.folders[0]
    handle, name = tempfile.mkstemp(prefix="tmp_pack_", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(handle, "w+b", buffering=1 << 18) as file:
            incoming = _Incoming(file.write, max_bytes, progress)
            remote.pack(want, list(haves), incoming.write)
            file.flush()
            incoming.check()
            try:
                if incoming.total < EXPLODE_BELOW_BYTES and _count(path) <= EXPLODE_UP_TO:
                    _explode(path, objects)
                else:
                    _index(path, file, objects)
            except (MemoryError, OSError):
                raise
            except Exception as error:  # every way in which dulwich finds a pack wrong
                raise Damaged(f"the pack received: {type_name(error)}") from error
    finally:
        path.unlink(missing_ok=True)


def _count(path: Path) -> int:
    """How many objects a pack says it has (its header's third word)."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(12)[8:], "big")


class _Incoming:
    """Counts and hashes a pack's bytes on their way to disk."""

    def __init__(self, write: Callable[[bytes], int], limit: int, progress: Progress) -> None:
        self._write = write
        self._limit = limit
        self._progress = progress
        self._hash = hashlib.sha1(usedforsecurity=False)
        self._end = b""
        self._reported = time.monotonic()
        self.total = 0

    def write(self, data: bytes) -> int:
        """Take some bytes. Raises Unreachable over the limit."""
        self.total += len(data)
        if self.total > self._limit:
            raise Unreachable("repository-unreachable", f"more than {self._limit} bytes to fetch (mirror limit)")
        if time.monotonic() - self._reported > 0.5:
            self._reported = time.monotonic()
            self._progress(self.total)
        together = self._end + data
        self._hash.update(together[:-20])
        self._end = together[-20:]
        return self._write(data)

    def check(self) -> None:
        """Whether it ended whole. Raises Unreachable."""
        if self.total < 32 or self._hash.digest() != self._end:
            raise Unreachable("repository-unreachable", "the connection ended early")


def _explode(path: Path, objects: Objects) -> None:
    with PackData(path, object_format=DEFAULT_OBJECT_FORMAT) as data:
        for found in UnpackedObjectIterator.for_pack_data(data, resolve_ext_ref=_outside(objects)):
            kind = TYPES[cast("int", found.obj_type_num)]
            write_loose(objects.folders[0], found.sha().hex(), kind, b"".join(found.obj_chunks or ()))


def _index(path: Path, file: Any, objects: Objects) -> None:
    """Complete a thin pack and put it in its place, the index last."""
    outside = _outside(objects)
    with PackData(path, object_format=DEFAULT_OBJECT_FORMAT) as data:
        indexer = PackIndexer.for_pack_data(data, resolve_ext_ref=outside)
        rows = list(indexer)
    digest, extra = extend_pack(file, set(indexer.ext_refs()), get_raw=outside, object_format=DEFAULT_OBJECT_FORMAT)
    file.flush()
    rows += extra
    rows.sort()
    base = objects.folders[0] / "pack" / f"pack-{digest.hex()}"
    beside = base.with_suffix(".tmp")
    with beside.open("wb") as index:
        write_pack_index(index, rows, digest, version=2)
    path.rename(base.with_suffix(".pack"))
    beside.rename(base.with_suffix(".idx"))


def _outside(objects: Objects) -> Callable[[Any], tuple[int, bytes]]:
    numbers = {name: number for number, name in TYPES.items()}

    def read(name: bytes) -> tuple[int, bytes]:
        hexadecimal = name if len(name) == 40 else name.hex().encode()
        try:
            kind, content = objects.find(hexadecimal)
        except Damaged as error:
            raise KeyError(hexadecimal) from error
        return numbers[kind], content

    return read


def write_loose(folder: Path, name: str, kind: bytes, content: bytes) -> None:
    """Put one object into an `objects` folder, whole or not at all."""
    target = folder / name[:2] / name[2:]
    if target.exists():
        return
    target.parent.mkdir(exist_ok=True)
    beside = folder / f"tmp_obj_{name}"
    beside.write_bytes(zlib.compress(b"%s %d\0" % (kind, len(content)) + content, 1))
    beside.rename(target)
