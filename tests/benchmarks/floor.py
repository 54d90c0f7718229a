"""The floor of exec: floor.c, built when it is needed; without a C compiler a Python stand-in, which says so.

`python -m tests.benchmarks.floor FILE PROGRAM [ARGUMENT…]` is the stand-in: it does what floor.c does, and is slower.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

ECHO: Final = ("/bin/sh", "-c", "echo hello")
# What a sandbox cannot do without, and no more: namespaces, a read-only root, fresh /proc and /dev.
BARE_BWRAP: Final = (
    *("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"),
    *("--proc", "/proc", "--dev", "/dev", "--"),
)
_RECORD: Final = b"r" * 500
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Floor:
    """A floor server as a process of its own: for each request two durable records and one run of `argv`."""

    def __init__(self, folder: Path, name: str, argv: tuple[str, ...]) -> None:
        records = folder / f"{name}.records"
        self.is_c = (program := _built(folder)) is not None
        command = [str(program)] if program else [sys.executable, "-m", "tests.benchmarks.floor"]
        self._process = subprocess.Popen([*command, str(records), *argv], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def pid(self) -> int:
        """Of the server."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()


def request() -> bytes:
    """What floor servers are asked."""
    body = b'{"tool":"exec","params":{"cmd":"echo hello"}}'
    return b"POST /exec HTTP/1.1\r\nHost: floor\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def bwrap_argv() -> tuple[str, ...] | None:
    """The same program in a bare bubblewrap; None where there is none."""
    found = shutil.which("bwrap")
    return (found, *BARE_BWRAP, *ECHO) if found else None


def _built(folder: Path) -> Path | None:
    program = folder / "floor"
    if program.exists():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    source = Path(__file__).with_name("floor.c")
    done = subprocess.run([compiler, "-O2", "-pthread", "-o", program, source], check=False)
    return program if done.returncode == 0 else None


class _StandIn:
    """One thread a connection; posix_spawn, since that is what the floor is about."""

    def __init__(self, records: str, argv: list[str]) -> None:
        self._records = os.open(records, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._argv = argv

    def serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held = b""
        while True:
            head, end, rest = held.partition(b"\r\n\r\n")
            found = _LENGTH.search(head)
            size = int(found[1]) if found else 0
            if end and len(rest) >= size:
                connection.sendall(self._answer())
                held = rest[size:]
                continue
            if not (got := connection.recv(65536)):
                return
            held += got

    def _answer(self) -> bytes:
        self._append()
        read, write = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, write, 1)]
        pid = os.posix_spawn(self._argv[0], self._argv, {"PATH": "/usr/bin:/bin"}, file_actions=actions, setpgroup=0)
        os.close(write)
        output = b""
        while got := os.read(read, 4096):
            output += got
        os.close(read)
        os.waitpid(pid, 0)
        self._append()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(output), output)

    def _append(self) -> None:
        os.write(self._records, _RECORD)
        os.fdatasync(self._records)


def _main(records: str, *argv: str) -> None:
    stand_in = _StandIn(records, list(argv))
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=stand_in.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    _main(*sys.argv[1:])
