"""`file.read`, `file.write` and `file.list`: regular files and folders beneath the roots, nothing else.

What is written stands whole or not at all (`create`, `overwrite`): a new file beside it, flushed, then given the name.
"""

import base64
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from service.domain.executors import Stream
from service.execution.executors.http import Tally
from service.gatekeeper.answers import Answer, CannotDo, answer, json_bytes, whole
from service.gatekeeper.beneath import Roots, reopen

# A multiple of three, so that base64 of chunks is base64 of the whole.
CHUNK_BYTES: Final = 3 * 64 * 1024
NEW_FILE_MODE: Final = 0o644


class Files:
    """The three methods. `max_bytes`: most of one read or write. Each gives an answer or raises CannotDo."""

    def __init__(self, roots: Roots, max_bytes: int) -> None:
        self._roots = roots
        self._max_bytes = max_bytes

    def read(
        self, path: str, offset: int, limit: int | None, encoding: str, keep: int, go_on: Callable[[], None]
    ) -> Answer:
        """The file's bytes from `offset`, at most `limit`, as they are or in base64; the first `keep` bytes of that.

        `go_on` is called between chunks and raises where it is time to stop.
        """
        with self._roots.opened(path) as descriptor:
            wanted = _regular(descriptor, path).st_size - offset
            wanted = max(0, wanted) if limit is None else limit
            if wanted > self._max_bytes:
                raise CannotDo(
                    f"{path} 要读 {wanted} 字节，一次最多 {self._max_bytes}：用 limit 分段读",
                    f"{path}: {wanted} bytes to read, {self._max_bytes} at most in one call: give limit",
                )
            with os.fdopen(_reopened(descriptor, path, os.O_RDONLY), "rb", buffering=0) as file:
                return answer(ok=True, stdout=_read(file.fileno(), offset, wanted, encoding, keep, go_on))

    def write(self, path: str, content: bytes, mode: str) -> Answer:
        """`create` fails where something stands; `overwrite` replaces it whole; `append` adds to its end."""
        if len(content) > self._max_bytes:
            raise CannotDo(
                f"要写 {len(content)} 字节，一次最多 {self._max_bytes}",
                f"{len(content)} bytes to write, {self._max_bytes} at most in one call",
            )
        with self._roots.opened_parent(path) as (folder, name):
            try:
                size = self._write(folder, name, path, content, mode)
            except FileExistsError:
                raise CannotDo(f"{path} 已经存在", f"{path} is there already") from None
            except OSError as error:
                raise CannotDo(f"写不了 {path}：{error.strerror}", f"cannot write {path}: {error.strerror}") from error
        facts = {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), "size": size}
        return answer(ok=True, stdout=whole(json_bytes(facts) + b"\n"))

    def list(self, path: str, keep: int) -> Answer:
        """A JSON line for each entry: `{name, type, bytes, modified}`, and `name_b64` where the name is not UTF-8."""
        with self._roots.opened(path) as descriptor:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise CannotDo(f"{path} 不是文件夹：用 file.read", f"{path} is not a folder: use file.read")
            folder = _reopened(descriptor, path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                tally = Tally(keep)
                for line in _entries(folder):
                    tally.take(line)
            finally:
                os.close(folder)
        return answer(ok=True, stdout=tally.stream())

    def _write(self, folder: int, name: str, path: str, content: bytes, mode: str) -> int:
        """The file's size afterwards."""
        if mode == "append":
            with suppress(FileNotFoundError):
                return self._append(folder, name, path, content)
        before = _status(folder, name) if mode == "overwrite" else None
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise CannotDo(f"{path} 不是普通文件", f"{path} is not a regular file")
        fresh = _fresh_file(folder, content, before)
        try:
            if mode == "overwrite":
                os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                os.link(fresh, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                os.unlink(fresh, dir_fd=folder)
        except OSError:
            os.unlink(fresh, dir_fd=folder)
            raise
        _flush_folder(folder)
        return len(content)

    def _append(self, folder: int, name: str, path: str, content: bytes) -> int:
        there = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            _regular(there, path)
            self._roots.check(there, path)
            with os.fdopen(reopen(there, os.O_WRONLY | os.O_APPEND), "wb", buffering=0) as file:
                _write_all(file.fileno(), content)
                os.fsync(file.fileno())
                return os.fstat(file.fileno()).st_size
        finally:
            os.close(there)


def _read(file: int, offset: int, wanted: int, encoding: str, keep: int, go_on: Callable[[], None]) -> Stream:
    tally = Tally(keep)
    while wanted > 0 and (chunk := _chunk(file, offset, min(wanted, CHUNK_BYTES))):
        go_on()
        tally.take(base64.b64encode(chunk) if encoding == "base64" else chunk)
        offset, wanted = offset + len(chunk), wanted - len(chunk)
    return tally.stream()


def _chunk(file: int, offset: int, size: int) -> bytes:
    """Exactly `size` bytes but at the end: a short read in between would put padding into the base64."""
    parts: list[bytes] = []
    while size > 0 and (part := os.pread(file, size, offset)):
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return b"".join(parts)


def _regular(descriptor: int, path: str) -> os.stat_result:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise CannotDo(f"{path} 是文件夹：用 file.list", f"{path} is a folder: use file.list")
    if not stat.S_ISREG(status.st_mode):
        raise CannotDo(f"{path} 不是普通文件（链接、设备、管道或套接字）", f"{path} is not a regular file")
    return status


def _reopened(descriptor: int, path: str, flags: int) -> int:
    try:
        return reopen(descriptor, flags)
    except OSError as error:
        raise CannotDo(f"打不开 {path}：{error.strerror}", f"cannot open {path}: {error.strerror}") from error


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _fresh_file(folder: int, content: bytes, before: os.stat_result | None) -> str:
    """A new file with this content, on the disk, with the rights of the one it will replace; its name."""
    name = f".bitong-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, NEW_FILE_MODE, dir_fd=folder)
    try:
        if before is not None:
            with suppress(PermissionError):
                os.fchown(file, before.st_uid, before.st_gid)
            os.fchmod(file, before.st_mode & 0o777)  # as when it is written: no right to run as somebody
        _write_all(file, content)
        os.fsync(file)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(file)
    return name


def _write_all(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _flush_folder(folder: int) -> None:
    descriptor = reopen(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entries(folder: int) -> Iterator[bytes]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in found:
        with suppress(FileNotFoundError):  # gone since
            yield json.dumps(_entry(entry), ensure_ascii=False).encode() + b"\n"


def _entry(entry: "os.DirEntry[str]") -> dict[str, Any]:
    status = entry.stat(follow_symlinks=False)
    raw = os.fsencode(entry.name)
    name = raw.decode("utf-8", "replace")
    modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="milliseconds")
    return {
        "name": name,
        "type": _type(status.st_mode),
        "bytes": status.st_size,
        "modified": modified.replace("+00:00", "Z"),
        **({} if name.encode() == raw else {"name_b64": base64.b64encode(raw).decode()}),
    }


def _type(mode: int) -> str:
    for test, name in ((stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link")):
        if test(mode):
            return name
    return "other"
