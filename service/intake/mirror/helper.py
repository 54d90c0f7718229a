"""The service's end of the mirror process: start it, hand it a look, talk with the look's process, end both."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self, cast

from service.intake.mirror import wire

_PACKAGE_ROOT: Final = Path(__file__).resolve().parents[2]
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")
_END_WAIT_S: Final = 5.0


class Ended(Exception):
    """The look's process ended before it said how it went: `exit_code` as `subprocess` has it, None where unknown."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class Helper:
    """The long-lived mirror process; started by the first look, and again by the next one when it died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it unless it runs; does not wait until it is ready."""
        with self._lock:
            self._start()

    def _start(self) -> socket.socket:
        if self._control is not None and self.pid is not None:
            return self._control
        self._end()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        with theirs:
            # -P: the working folder is no place to import from. A group of its own: Ctrl-C is the service's to handle.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "service.intake.mirror.process", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**environment, "PYTHONPATH": os.fspath(_PACKAGE_ROOT), "PYTHONUTF8": "1"},
                cwd="/",
                process_group=0,
            )
        self._control = ours
        return ours

    def hand_over(self, talk: socket.socket, watcher: socket.socket) -> None:
        """Give a new look's process these two sockets. Raises OSError when the helper cannot be had."""
        with self._lock:
            for last in (False, True):
                control = self._start()
                try:
                    socket.send_fds(control, [b"l"], [talk.fileno(), watcher.fileno()])
                    return
                except OSError:
                    self._end()
                    if last:
                        raise

    def close(self) -> None:
        """End it, and the looks with it."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(_END_WAIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class Connection:
    """One look's process, as a context: leaving it ends the process, and waits until it has ended."""

    def __init__(self, helper: Helper, timeout_s: float) -> None:
        self._helper = helper
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        talk, theirs = socket.socketpair()
        watcher, watched = socket.socketpair()
        with theirs, watched:
            try:
                self._helper.hand_over(theirs, watched)
            except OSError as error:
                talk.close()
                watcher.close()
                raise Ended(None) from error
        talk.settimeout(self._timeout_s)
        watcher.settimeout(_END_WAIT_S)
        self._talk, self._watcher = talk, watcher
        self._stream = cast("BinaryIO", talk.makefile("rb", buffering=1 << 16))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._talk.close()
        self._exit_code()
        self._watcher.close()

    def send(self, frame: bytes) -> None:
        """Send one frame. Raises Ended."""
        try:
            self._talk.sendall(frame)
        except OSError as error:
            raise Ended(self._exit_code()) from error

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame's kind and body. Raises Ended, Garbled, TimeoutError."""
        try:
            found = wire.read_frame(self._stream)
        except TimeoutError:
            raise
        except OSError:
            found = None
        if found is None:
            raise Ended(self._exit_code())
        return found

    def _exit_code(self) -> int | None:
        """Turn away, which ends the process where it has not ended, and read how it did."""
        with suppress(OSError, ValueError):
            self._watcher.shutdown(socket.SHUT_WR)
            if answer := self._watcher.recv(16):
                return int(answer)
        return None
