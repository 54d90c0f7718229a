"""The tool's folder on disk, for a run outside the sandbox: written fresh from the stored bytes, removed afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
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
        for file in files:
            _write(beneath(folder, file.path), file)
        _set_folder_modes(folder, 0o555)
        yield folder
    finally:
        _set_folder_modes(folder, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


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
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    mode = 0o555 if file.executable else 0o444
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as target:
        target.write(file.content)
        os.fchmod(fd, mode)  # whatever the umask took away


def _set_folder_modes(folder: str, mode: int) -> None:
    for directory, _, _ in os.walk(folder):
        Path(directory).chmod(mode)
