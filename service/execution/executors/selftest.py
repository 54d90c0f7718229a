"""Whether the sandbox's walls stand on this host: tried from inside, by system calls, before the first tool runs there.

One run of probe.py with everything that must fail or be bounded (contract/executors.md, shell; cases.md X32 to X34),
from the service's own user, whoever that is. What the host does not decide (bubblewrap's own argument vector, what the
launcher reports) is left to the tests.
"""

import errno
import os
import platform
import secrets
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service.domain.executors import ToolFile
from service.execution.executors.bubblewrap import TOOL_UID
from service.execution.executors.probe import COLUMNS, NUMBERS, SystemCall, probe_image, probe_results
from service.execution.executors.process import Finished
from service.execution.executors.seccomp import DENIED, EXAMINED

DEADLINE_S: Final = 10.0
DEATH_S: Final = 1.0
_HIDDEN: Final = ("/run", "/sys", "/var", "/home", "/root", "/srv", "/etc/shadow")
_SOCKET_FOLDERS: Final = ("/run", "/tmp", "/var/tmp")  # noqa: S108  folders of our own are made in them
_CLOSED_FILES: Final = ("/x", "/dev/x", "/etc/x", "/usr/x", "/tool/x")
_CLOSED_SETTINGS: Final = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger")
_DESCRIPTORS_LOOKED_AT: Final = 64
_AT_FDCWD: Final = -100
_NEW_USER: Final = 0x1000_0000
_MS_REMOUNT: Final = 0x20
_KEYCTL_READ, _SESSION_KEYRING = 11, -3
_PTRACE_ATTACH: Final = 16
_PR_GET_SECCOMP, _PR_CAPBSET_READ, _PR_GET_NO_NEW_PRIVS = 21, 23, 39
_CAPABILITIES: Final = 64
_FILTERED: Final = 2
_NO_MEMORY_YET: Final = 0x4022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
_ALONE: Final = frozenset({2})  # the launcher is process 1
_FIRST_FREE: Final = frozenset({3})
_DONE: Final = frozenset({0})
_PAST_BYTES: Final = 0x10000  # sizes are rounded up to pages, of up to 64 KiB

Run = Callable[[Sequence[str], Sequence[ToolFile], float], Finished]


@dataclass(frozen=True, slots=True)
class Check:
    """One wall: `seen` is what the kernel answered, or what came of it, in a word or two."""

    name: str
    ok: bool
    seen: str


@dataclass(frozen=True, slots=True)
class SelfTest:
    """All that was tried. Nothing may run where one is not ok. Empty: nothing to try, without a sandbox."""

    checks: tuple[Check, ...] = ()

    def failed(self) -> Check | None:
        """The first wall that does not stand."""
        return next((check for check in self.checks if not check.ok), None)


@dataclass(frozen=True, slots=True)
class Walls:
    """What the sandbox is said to hold: sizes in bytes, and the operator's own openings."""

    memory_bytes: int
    largest_file: int
    tmp_bytes: int
    shm_bytes: int
    network: bool
    read_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Attempt:
    name: str
    call: SystemCall
    expected: frozenset[int]


def try_walls(run: Run, walls: Walls) -> SelfTest:
    """`run` takes an argument vector, files and a deadline, in the sandbox. About as long as two plain runs."""
    mark = f"probe-{secrets.token_hex(8)}"
    with _listeners(walls) as addresses:
        attempts = [*_attempts(walls), *_connections(addresses), *_escape()]
        image = probe_image([attempt.call for attempt in attempts])
        file = ToolFile(mark, executable=True, content=image)
        finished = run([f"./{mark}"], [file], time.monotonic() + DEADLINE_S)
    results = probe_results(finished.stdout.kept)
    if finished.exit_code != 0 or len(results) != len(attempts):
        return SelfTest((Check("start", ok=False, seen=_end_in_words(finished)),))
    return SelfTest((Check("start", ok=True, seen="exit 0"), *_judged(attempts, results), _survivors(mark)))


def _attempts(walls: Walls) -> Iterator[_Attempt]:
    refused = _errors(errno.EPERM)
    yield _Attempt("processes", _call("getpid"), _ALONE)
    yield _Attempt("user", _call("getuid"), frozenset({TOOL_UID}))
    for capability in range(_CAPABILITIES):
        held = _call("prctl", _PR_CAPBSET_READ, capability, 0, 0, 0)
        yield _Attempt("capabilities", held, _DONE | _errors(errno.EINVAL))  # EINVAL: this kernel does not know it
    yield _Attempt("filter", _call("prctl", _PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), frozenset({1}))
    yield _Attempt("filter", _call("prctl", _PR_GET_SECCOMP, 0, 0, 0, 0), frozenset({_FILTERED}))
    for name, entry in DENIED.items():
        if entry[COLUMNS[platform.machine()]] is not None:
            # Arguments that no call takes: should it not be denied, it does nothing.
            yield _Attempt("filter", _call(name, *[-1] * 6), _errors(entry[2]))
    for fd in range(3, _DESCRIPTORS_LOOKED_AT):
        yield _Attempt("descriptors", _call("fcntl", fd, 1), _errors(errno.EBADF))
    yield _Attempt("remount", _call("mount", 0, _path("/"), 0, _MS_REMOUNT, 0), refused)
    yield _Attempt("mount", _call("mount", _path("none"), _path("/tmp"), _path("tmpfs")), refused)  # noqa: S108
    yield _Attempt("mknod", _call("mknodat", _AT_FDCWD, _path("/tmp/.probe"), 0o060600, 0x700), refused)  # noqa: S108
    yield _Attempt("unshare", _call("unshare", _NEW_USER), refused)
    yield _Attempt("namespaces", _call("clone", _NEW_USER | 17, if_zero=(_call("exit_group"),)), refused)
    yield _Attempt("keyring", _call("keyctl", _KEYCTL_READ, _SESSION_KEYRING), refused)
    yield _Attempt("ptrace", _call("ptrace", _PTRACE_ATTACH, 1), refused)
    for file in ("/proc/1/environ", "/proc/1/mem"):
        yield _Attempt("environ", _open(file, os.O_RDONLY), _errors(errno.EACCES, errno.EPERM))
    yield from _closed_to_writing()
    for path in _hidden(walls.read_paths):
        yield _Attempt("host-files", _call("faccessat", _AT_FDCWD, _path(path), 0), _errors(errno.ENOENT))
    yield from _sizes(walls)
    too_much = _call("mmap", 0, walls.memory_bytes, 0, _NO_MEMORY_YET, -1)
    yield _Attempt("memory-limit", too_much, _errors(errno.ENOMEM))


def _sizes(walls: Walls) -> Iterator[_Attempt]:
    """More than there is room for, which is refused before any of it is taken.

    Not where no file may be as large in any case: to ask for one would be the probe's end (SIGXFSZ).
    """
    for name, folder, size in (("shm-size", "/dev/shm", walls.shm_bytes), ("tmp-size", "/tmp", walls.tmp_bytes)):  # noqa: S108
        if size + _PAST_BYTES <= walls.largest_file:
            yield _Attempt(name, _open(folder, os.O_TMPFILE | os.O_RDWR), _FIRST_FREE)
            yield _Attempt(name, _call("fallocate", 3, 0, 0, size + _PAST_BYTES), _errors(errno.ENOSPC))
            yield _Attempt(name, _call("close", 3), _DONE)


def _closed_to_writing() -> Iterator[_Attempt]:
    """Nothing is written: files that are not there, and settings opened and left alone."""
    closed = _errors(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)
    for file in _CLOSED_FILES:
        yield _Attempt("read-only", _open(file, os.O_WRONLY | os.O_CREAT), closed)
    for file in _CLOSED_SETTINGS:
        yield _Attempt("kernel-settings", _open(file, os.O_WRONLY | os.O_APPEND), closed)


def _connections(addresses: Sequence[tuple[int, bytes]]) -> Iterator[_Attempt]:
    """Each to a socket that listens on the host now. Where a network is allowed, its own are reachable (README).

    Of UNIX sockets there are none to connect with; should there be, they must not reach anybody.
    """
    unreachable = _errors(
        errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ECONNREFUSED, errno.ENETUNREACH, errno.EBADF, errno.EPERM
    )
    for family, address in addresses:
        closed = family == socket.AF_UNIX
        yield _Attempt("sockets", _call("socket", family, 1, 0), _errors(errno.EAFNOSUPPORT) if closed else _FIRST_FREE)
        yield _Attempt("sockets", _call("connect", 3, address, len(address)), unreachable)
        yield _Attempt("sockets", _call("close", 3), _errors(errno.EBADF) if closed else _DONE)


def _escape() -> Iterator[_Attempt]:
    """A session of its own and a double fork: somebody sleeps for a minute, unless ended.

    The probe waits for its child, so that the grandchild has left when the run ends.
    """
    asleep = (_call("nanosleep", struct.pack("<qq", 60, 0), 0), _call("exit_group"))
    child = (_call("setsid"), _call("clone", 17, if_zero=asleep), _call("exit_group"))
    yield _Attempt("escape", _call("clone", 17, if_zero=child), frozenset({3}))
    yield _Attempt("escape", _call("wait4", 3, 0, 0, 0), frozenset({3}))


def _survivors(mark: str) -> Check:
    until = time.monotonic() + DEATH_S
    while (alive := _alive(mark)) and time.monotonic() < until:
        time.sleep(0.01)
    return Check("survivors", ok=not alive, seen=f"{alive} alive")


def _alive(mark: str) -> int:
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                count += mark.encode() in Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
    return count


def _judged(attempts: Sequence[_Attempt], results: Sequence[int]) -> Iterator[Check]:
    """One check a name: its first wrong answer, or its last right one."""
    checks: dict[str, Check] = {}
    for attempt, result in zip(attempts, results, strict=True):
        if attempt.name not in checks or checks[attempt.name].ok:
            seen = errno.errorcode.get(-result, str(result))
            checks[attempt.name] = Check(attempt.name, ok=result in attempt.expected, seen=seen)
    return iter(checks.values())


@contextmanager
def _listeners(walls: Walls) -> Iterator[list[tuple[int, bytes]]]:
    """(family, address as the kernel takes it) of sockets of the host's; where a place takes none, it has none."""
    with ExitStack() as stack:
        addresses = []
        for folder in _SOCKET_FOLDERS:
            if os.access(folder, os.W_OK) and not any(_holds(path, folder) for path in walls.read_paths):
                own = tempfile.mkdtemp(prefix="bitong-probe-", dir=folder)
                stack.callback(shutil.rmtree, own, ignore_errors=True)
                addresses.append(_listening(stack, f"{own}/s"))
        addresses.append(_listening(stack, f"\0bitong-probe-{secrets.token_hex(8)}"))
        if not walls.network:
            tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            packed = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", tcp.getsockname()[1], b"\x7f\0\0\1")
            addresses.append((int(socket.AF_INET), packed))
        yield addresses


def _listening(stack: ExitStack, path: str) -> tuple[int, bytes]:
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(path)
    listener.listen()
    return int(socket.AF_UNIX), struct.pack("=H", socket.AF_UNIX) + path.encode()


def _hidden(read_paths: Sequence[str]) -> list[str]:
    """Without those on the way to what the operator shows."""
    return [path for path in _HIDDEN if not any(_holds(path, shown) or _holds(shown, path) for shown in read_paths)]


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _call(name: str, *arguments: int | bytes, if_zero: tuple[SystemCall, ...] = ()) -> SystemCall:
    numbers = NUMBERS.get(name) or EXAMINED.get(name) or DENIED[name]
    number = numbers[COLUMNS[platform.machine()]]
    if number is None:
        raise KeyError(name)
    return SystemCall(number, arguments, if_zero)


def _open(path: str, flags: int) -> SystemCall:
    return _call("openat", _AT_FDCWD, _path(path), flags, 0o600)


def _path(path: str) -> bytes:
    return path.encode() + b"\0"


def _errors(*numbers: int) -> frozenset[int]:
    return frozenset(-number for number in numbers)


def _end_in_words(finished: Finished) -> str:
    if finished.error is not None:
        return finished.error.strerror or str(finished.error)
    return finished.signal or (finished.ended if finished.exit_code is None else f"exit {finished.exit_code}")
