"""Git objects on disk, read for the mirror process: loose ones and packs, each checked against its id.

Packs are decoded by dulwich. What is missing or unreadable raises Damaged after `mend` was asked for help: the mirror
is then cloned anew, and a local repository that is being repacked is read again.
"""

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar, cast

from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.objects import RawObjectID
from dulwich.pack import OFS_DELTA, REF_DELTA, Pack

from service.intake.mirror.trees import Undecodable

Result = TypeVar("Result")

TYPES: Final = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
# Inflated delta bases that one pack keeps; dulwich's own 96 MiB a pack is more than this process may have.
_DELTA_BASES_BYTES: Final = 24 << 20
_LOOSE_HEADER = re.compile(rb"(commit|tree|blob|tag) (\d{1,19})\0")
_MAX_ALTERNATES: Final = 16


class Damaged(Exception):
    """An object that should be there is missing, unreadable, or not what its id says."""


class Header(NamedTuple):
    """An object's type and size in bytes, read without inflating it."""

    kind: bytes
    size: int


class Objects:
    """Every object below one `objects` folder and its alternates."""

    def __init__(self, folder: Path, *, mend: Callable[[], Path | None] | None = None) -> None:
        """`mend` makes damaged objects readable and says where they now are; None when nothing more can be done."""
        self._mend = mend
        self._open(folder)

    def _open(self, folder: Path) -> None:
        self.folders = list(_with_alternates(folder))
        self._packs: dict[Path, _OpenPack] = {}
        self._loose_in: dict[str, list[Path]] = {}
        self._look_again()

    def close(self) -> None:
        """Let go of every pack."""
        for opened in self._packs.values():
            opened.pack.close()
            opened.file.close()
        self._packs = {}

    def read(self, name: bytes, kind: bytes) -> bytes:
        """The content of the object with this id (40 hex digits). Raises Damaged, Undecodable when of another type."""
        found, content = self._insist(self.find, name)
        if found != kind:
            raise Undecodable(f"{name.decode()} is a {found.decode()} where a {kind.decode()} should be")
        return content

    def header(self, name: bytes) -> Header:
        """Type and size of the object with this id. Raises Damaged."""
        return self._insist(self._header, name)

    def _insist(self, attempt: Callable[[bytes], Result], name: bytes) -> Result:
        while True:
            try:
                return attempt(name)
            except Damaged:
                if not self._recover():
                    raise

    def _recover(self) -> bool:
        """Ask for help; whether there was any."""
        folder = self._mend() if self._mend else None
        if folder is None:
            return False
        self.close()
        self._open(folder)
        return True

    def find(self, name: bytes) -> tuple[bytes, bytes]:
        """Type and content, without asking for help. Raises Damaged."""
        try:
            kind, content = self._loose(name) or self._packed(name)
        except MemoryError:
            raise
        except Exception as error:  # dulwich raises a dozen kinds on damaged packs, AssertionError among them
            raise Damaged(f"{name.decode()}: {type_name(error)}") from error
        digest = hashlib.sha1(b"%s %d\0" % (kind, len(content)), usedforsecurity=False)
        digest.update(content)
        if digest.hexdigest().encode() != name:
            raise Damaged(f"{name.decode()} does not match its id")
        return kind, content

    def has(self, name: bytes) -> bool:
        """Whether the object is there; says nothing of its content."""
        if file := self._open_loose(name):
            file.close()
            return True
        try:
            return self._in_pack(name) is not None
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a broken index; whoever reads the object is told
            return False

    def _open_loose(self, name: bytes) -> BinaryIO | None:
        text = name.decode("ascii")
        for folder in self._loose_in.get(text[:2], ()):
            with suppress(FileNotFoundError):
                return (folder / text[2:]).open("rb")
        return None

    def _loose(self, name: bytes) -> tuple[bytes, bytes] | None:
        file = self._open_loose(name)
        if file is None:
            return None
        with file:
            raw = file.read()
        inflating = zlib.decompressobj()
        start = inflating.decompress(raw, 64)
        kind, size, head = _parse_loose(start)
        content = start[head:] + inflating.decompress(inflating.unconsumed_tail, max(1, size))
        if len(content) != size:
            raise Damaged(f"{name.decode()} is not as long as it says")
        return kind, content

    def _packed(self, name: bytes) -> tuple[bytes, bytes]:
        found = self._in_pack(name)
        if found is None:
            # Another process may just have moved it from a pack to a loose file, or from there to a pack.
            if again := self._loose(name):
                return again
            raise Damaged(f"{name.decode()} is missing")
        (pack, _), offset = found
        number, chunks = pack.resolve_object(offset, *pack.data.get_object_at(offset))
        return TYPES[number], b"".join(cast("list[bytes]", chunks))

    def _in_pack(self, name: bytes) -> "tuple[_OpenPack, int] | None":
        """The pack that has it, and where."""
        raw = RawObjectID(bytes.fromhex(name.decode()))
        for again in (False, True):
            if again and not self._look_again():
                break
            for opened in self._packs.values():
                with suppress(KeyError):
                    return opened, opened.pack.index.object_offset(raw)
        return None

    def _look_again(self) -> bool:
        """Note which folders hold loose objects, and open packs that are new; whether there were any."""
        before = len(self._packs)
        self._loose_in = {}
        for folder in self.folders:
            with suppress(OSError):
                for below in folder.iterdir():
                    if len(below.name) == 2:
                        self._loose_in.setdefault(below.name, []).append(below)
            for index in sorted((folder / "pack").glob("*.idx")):
                base = index.with_suffix("")
                if base not in self._packs and (pack := _open_pack(base)):
                    self._packs[base] = pack
        return len(self._packs) > before

    def _header(self, name: bytes) -> Header:
        try:
            if file := self._open_loose(name):
                with file:
                    kind, size, _ = _parse_loose(zlib.decompressobj().decompress(file.read(4096), 64))
                return Header(kind, size)
            found = self._in_pack(name)
            if found is None:
                raise Damaged(f"{name.decode()} is missing")
            return self._packed_header(*found)
        except MemoryError:
            raise
        except Exception as error:
            raise Damaged(f"{name.decode()}: {type_name(error)}") from error

    def _packed_header(self, opened: "_OpenPack", offset: int) -> Header:
        """A delta says its result's size at its start; its type is that of the object the chain begins with."""
        size: int | None = None
        for _ in range(10_000):
            start = os.pread(opened.file.fileno(), 4096, offset)
            number, plain_size, at = _pack_entry(start)
            if number not in (OFS_DELTA, REF_DELTA):
                return Header(TYPES[number], plain_size if size is None else size)
            if number == OFS_DELTA:
                back, at = _offset_back(start, at)
                base = offset - back
            else:
                base = opened.pack.index.object_offset(RawObjectID(start[at : at + 20]))
                at += 20
            if size is None:
                size = _delta_result_size(zlib.decompressobj().decompress(start[at:], 32))
            offset = base
        raise Damaged("a chain of deltas without an end")


class _OpenPack(NamedTuple):
    """A pack whose index and data are mapped, so that it stays readable when a repack removes it."""

    pack: Pack
    file: BinaryIO


def _open_pack(base: Path) -> _OpenPack | None:
    """None where it is gone already, or broken: other packs may have what it had."""
    pack = Pack(os.fspath(base), object_format=DEFAULT_OBJECT_FORMAT, delta_base_cache_limit=_DELTA_BASES_BYTES)
    try:
        file = base.with_suffix(".pack").open("rb")
    except OSError:
        return None
    try:
        pack.check_length_and_checksum()  # maps both; compares what they say of each other, and reads no object
    except Exception:  # noqa: BLE001 - dulwich raises a dozen kinds on a broken pack
        file.close()
        pack.close()
        return None
    return _OpenPack(pack, file)


def type_name(error: BaseException) -> str:
    """A cause short enough to show: our own words, or the kind of error."""
    return str(error) if isinstance(error, (Damaged, Undecodable)) else type(error).__name__


def _with_alternates(folder: Path) -> Iterator[Path]:
    waiting, seen = [folder], set[Path]()
    while waiting and len(seen) < _MAX_ALTERNATES:
        here = waiting.pop(0)
        if here in seen:
            continue
        seen.add(here)
        yield here
        try:
            lines = (here / "info" / "alternates").read_bytes().splitlines()
        except OSError:
            continue
        waiting += [here / os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]


def _parse_loose(start: bytes) -> tuple[bytes, int, int]:
    match = _LOOSE_HEADER.match(start)
    if match is None:
        raise Damaged("a loose object without a header")
    return match.group(1), int(match.group(2)), match.end()


def _pack_entry(start: bytes) -> tuple[int, int, int]:
    """Type number, size, and where the header ends."""
    number, size, shift, at = (start[0] >> 4) & 7, start[0] & 15, 4, 1
    while start[at - 1] & 0x80:
        size |= (start[at] & 0x7F) << shift
        shift += 7
        at += 1
    return number, size, at


def _offset_back(start: bytes, at: int) -> tuple[int, int]:
    back = start[at] & 0x7F
    while start[at] & 0x80:
        at += 1
        back = ((back + 1) << 7) | (start[at] & 0x7F)
    return back, at + 1


def _delta_result_size(delta: bytes) -> int:
    at = 0
    while delta[at] & 0x80:  # the base's size comes first
        at += 1
    at += 1
    size, shift = 0, 0
    while True:
        size |= (delta[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not delta[at - 1] & 0x80:
            return size
