"""Opening files beneath roots, so that neither `..` nor a symlink leads out, also while somebody swaps them (M6).

The kernel holds the containment (openat2 with RESOLVE_BENEATH); where it cannot, each component is opened by itself and
no link is followed. Checking a path and then opening it leaked 15 % of reads in a race (facts/platform.md).
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from service.errors import Message, UsageError
from service.gatekeeper.answers import CannotDo

_OPENAT2: Final = 437  # the same number on every architecture since Linux 5.6
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08
# EAGAIN: something moved while it looked. A swap in a loop must not hold us for ever.
_ATTEMPTS: Final = 32
# What shows the inside of processes and of the host, whatever the roots are.
_NEVER: Final = (Path("/proc"), Path("/sys"), Path("/dev"))


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Roots:
    """The folders to stay beneath, held open, and what is denied even there."""

    def __init__(self, roots: Sequence[Path], denied: Sequence[Path], *, openat2: bool = True) -> None:
        """`openat2`: whether to try it; without it links inside a root are refused too. Raises UsageError."""
        self._roots = [(_names(root), _root(root)) for root in roots]
        self._denied = [os.path.realpath(path) for path in (*denied, *_NEVER)]
        self._denied_files = {identity for path in denied if (identity := _identity(path)) is not None}
        self._denied_devices = {path.stat().st_dev for path in _NEVER if path.is_mount()}
        self._open_in_root = _openat2 if openat2 and _has_openat2() else _open_by_component

    def close(self) -> None:
        """Give the roots' descriptors back."""
        for _, descriptor in self._roots:
            os.close(descriptor)
        self._roots = []

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """An O_PATH descriptor of what stands at `path`: reads nothing yet, and wakes no device. Raises CannotDo."""
        root, rest = self._place(path)
        try:
            descriptor = self._open_in_root(root, rest or ".")
        except OSError as error:
            raise _refusal(path, error) from error
        try:
            self._check_allowed(descriptor, path)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def opened_parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder that `path` is to stand in, opened as above, and its last name. Raises CannotDo."""
        folder, _, name = path.rpartition("/")
        if name in ("", ".", "..") or "\0" in name:
            raise CannotDo(f"{path} 不是一个文件的路径", f"{path} is not the path of a file")
        with self.opened(folder or ("/" if path.startswith("/") else ".")) as descriptor:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise CannotDo(f"{folder} 不是文件夹", f"{folder} is not a folder")
            self._check_place(_real(descriptor).rstrip("/") + "/" + name, path)
            yield descriptor, name

    def check(self, descriptor: int, path: str) -> None:
        """Whether what this descriptor opened is denied. Raises CannotDo."""
        self._check_allowed(descriptor, path)

    def _place(self, path: str) -> tuple[int, str]:
        """The root a path belongs to, by its text, and the rest; the kernel holds the rest beneath it."""
        if "\0" in path:
            raise CannotDo("路径里有 NUL 字符", "the path holds a NUL")
        if not self._roots:
            raise CannotDo("这个网关没有开放任何文件夹（--root）", "this gatekeeper has no folder to work in (--root)")
        if not path.startswith("/"):
            return self._roots[0][1], path
        matches = [
            (len(name), descriptor, path[len(name) :].lstrip("/"))
            for names, descriptor in self._roots
            for name in names
            if path == name or path.startswith(name.rstrip("/") + "/")
        ]
        if not matches:
            raise CannotDo(f"{path} 不在开放的文件夹里", f"{path} is beneath none of the folders that are open")
        _, descriptor, rest = max(matches)
        return descriptor, rest

    def _check_allowed(self, descriptor: int, path: str) -> None:
        status = os.fstat(descriptor)
        if status.st_dev in self._denied_devices or (status.st_dev, status.st_ino) in self._denied_files:
            raise _denied(path)
        self._check_place(_real(descriptor), path)

    def _check_place(self, place: str, path: str) -> None:
        if any(place == denied or place.startswith(denied.rstrip("/") + "/") for denied in self._denied):
            raise _denied(path)


def reopen(descriptor: int, flags: int) -> int:
    """The same file as an O_PATH descriptor, opened for use: by descriptor, so that no path is looked up again."""
    return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC | os.O_NOCTTY)


def _root(root: Path) -> int:
    try:
        return os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            Message(f"--root {root} 不能用：{error.strerror}", f"--root {root} cannot be used: {error.strerror}")
        ) from error


def _names(root: Path) -> tuple[str, ...]:
    return tuple({str(root.absolute()), os.path.realpath(root)})


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def _real(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink()).removesuffix(" (deleted)")


def _has_openat2() -> bool:
    """Linux 5.6 has it; a container's filter may forbid it."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(_openat2(root, "."))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def _openat2(root: int, path: str) -> int:
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    for _ in range(_ATTEMPTS):
        found = syscall(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if found >= 0:
            return int(found)
        if (number := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            break
    else:
        number = errno.EAGAIN
    raise OSError(number, os.strerror(number))


def _open_by_component(root: int, path: str) -> int:
    here = os.dup(root)
    try:
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if name == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            there = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = there
            if stat.S_ISLNK(os.fstat(here).st_mode):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    except BaseException:
        os.close(here)
        raise
    return here


def _denied(path: str) -> CannotDo:
    return CannotDo(f"不允许访问 {path}", f"{path} is denied")


def _refusal(path: str, error: OSError) -> CannotDo:
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return CannotDo(f"{path} 指到了开放的文件夹之外", f"{path} leads out of the folder that is open")
    return CannotDo(f"打不开 {path}：{error.strerror}", f"cannot open {path}: {error.strerror}")
