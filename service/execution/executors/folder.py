"""The tool's folder on disk, for a run outside the sandbox: written fresh from the stored bytes, removed afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Final

from service.domain.executors import ToolFile

_SHM: Final = "/dev/shm"  # noqa: S108 - a folder of its own is made in it, with a name of its own


@contextmanager
def laid_out(files: Sequence[ToolFile]) -> Iterator[str]:
    """A folder of its own that holds `files`, closed to writing as far as modes can; gone when this is left.

    After a SIGKILL of the service it stays in the temporary directory, named `bitong-tool-…`.
    """
    folder = tempfile.mkdtemp(prefix="bitong-tool-", dir=_in_memory())
    try:
        folders = {os.path.dirname(beneath(folder, file.path)) for file in files} | {folder}  # noqa: PTH120 - hot path
        for inner in folders - {folder}:
            os.makedirs(inner, exist_ok=True)  # noqa: PTH103
        for file in files:
            _write(beneath(folder, file.path), file)
        _close_folders(folder, folders)
        yield folder
    finally:
        _remove(folder, files)


@cache
def _in_memory() -> str | None:
    """A file system in memory where programs may be run from: on a disk, removing a folder waits for others' commits."""
    try:
        runs_programs = not os.statvfs(_SHM).f_flag & os.ST_NOEXEC
    except OSError:
        return None
    return _SHM if runs_programs and os.access(_SHM, os.W_OK) else None


def beneath(folder: str, path: str) -> str:
    """`path` inside `folder`. Registration took plain paths only; any other would be written elsewhere: ValueError."""
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"not a path inside the tool's folder: {path!r}")
    return f"{folder}/{path}"


def _write(path: str, file: ToolFile) -> None:
    mode = 0o555 if file.executable else 0o444
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as target:
        target.write(file.content)
        os.fchmod(fd, mode)  # whatever the umask took away


def _close_folders(folder: str, folders: set[str]) -> None:
    if folders == {folder}:
        os.chmod(folder, 0o555)  # noqa: PTH101, S103 - read and run, by all
        return
    for directory, _, _ in os.walk(folder):
        os.chmod(directory, 0o555)  # noqa: PTH101, S103 - read and run, by all


def _remove(folder: str, files: Sequence[ToolFile]) -> None:
    """The common case, a flat folder that nobody added to, in as few calls as there are files."""
    try:
        os.chmod(folder, 0o700)  # noqa: PTH101
        for file in files:
            os.unlink(f"{folder}/{file.path}")  # noqa: PTH108
        os.rmdir(folder)  # noqa: PTH106
    except OSError:
        for directory, _, _ in os.walk(folder):
            os.chmod(directory, 0o700)  # noqa: PTH101
        shutil.rmtree(folder, ignore_errors=True)
