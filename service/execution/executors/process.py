"""Runs one local process to its end: both pipes read at once, all of it counted and hashed, killed at the deadline.

Synchronous, in the calling thread. The child leads a process group of its own and is spawned by vfork (no
`preexec_fn`, no `user=`, no new session: facts/platform.md, asyncio and processes). It is reaped last, so that its
pid and its group's id still mean this child whenever a signal is sent (X14). What left the group survives here,
unless there is a Keeper; only a PID namespace ends it for certain (sandbox.py).
"""

import errno
import hashlib
import logging
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from service.domain.executors import Cancel, Stream

CHUNK_BYTES: Final = 64 * 1024
# A child that ended may leave others that hold its pipes: what they still say is taken, but nobody waits for them.
QUIET_S: Final = 0.05
GRACE_S: Final = 0.5
# A killed child may need a while to give back its memory; one in uninterruptible sleep does not die at all.
DEATH_S: Final = 5.0
# poll counts milliseconds in an int; a later deadline is looked at again.
WAIT_S: Final = 3600.0
# Without a pidfd (no descriptor left) the child's end is looked for this often.
TICK_S: Final = 0.01

_LOG = logging.getLogger(__name__)


EMPTY: Final = Stream(b"", 0, hashlib.sha256().hexdigest())


@dataclass(frozen=True, slots=True)
class Finished:
    """How a process ended.

    `ended`: "exited" (by itself, or by a signal that was not ours), "deadline", "cancelled" or "did-not-start"
    (`error` says why). `exit_code` is None when a signal ended it or it never started; `signal` is that signal's
    name. `duration_ms` is from before the spawn until it was reaped.
    """

    ended: str
    exit_code: int | None
    signal: str | None
    error: OSError | None
    stdout: Stream
    stderr: Stream
    duration_ms: int

    def with_returncode(self, returncode: int) -> "Finished":
        """The same with another end: an exit code, or a signal's number below zero (as subprocess has it)."""
        died = returncode < 0
        signal_name = _signal_name(-returncode) if died else None
        return replace(self, exit_code=None if died else returncode, signal=signal_name)

    def not_started(self, error: OSError) -> "Finished":
        """The same where it turned out that the program never ran."""
        return replace(self, ended="did-not-start", exit_code=None, signal=None, error=error)


@dataclass(frozen=True, slots=True)
class Keeper:
    """Says that the child stays as long as it has descendants (launcher.py, `stays`), and makes a session of its own.

    `over_fd` becomes readable when the program the child started has ended; `end_all` ends all that descends from
    the pid it is given, and is called before the child itself is killed, which leaves only when nothing is left.
    """

    over_fd: int
    end_all: Callable[[int], None]


NOT_STARTED: Final = Finished("did-not-start", None, None, None, EMPTY, EMPTY, 0)


def run_process(  # noqa: PLR0913 - all by name, and three of them for the sandbox alone
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: bytes = b"",
    deadline: float,
    keep: int,
    cancel: Cancel | None = None,
    on_output: Callable[[str, bytes], None] | None = None,
    pass_fds: tuple[int, ...] = (),
    on_start: Callable[[int], None] | None = None,
    keeper: Keeper | None = None,
    end_first: Callable[[int], None] | None = None,
) -> Finished:
    """Run `argv` until it ends, `deadline` (`time.monotonic()`) passes or `cancel` is asked; then kill its group.

    `keep`: bytes kept of each stream; all are counted and hashed. An empty `stdin` is `/dev/null`. `on_output` gets
    ("stdout" | "stderr", bytes) as they come, in this thread: it must not block; if it raises it is not called again.
    `on_start` gets the pid once the program was executed (what `pass_fds` named may be closed then); what it raises
    ends the run. `keeper`: for a child that starts the program and stays. `end_first` gets the pid before the group is
    killed while the child lives. Never raises for what the child does or for
    a program that cannot start.
    """
    started = time.monotonic()
    streams = (_Reader("stdout", keep, on_output), _Reader("stderr", keep, on_output))
    if cancel is not None and cancel.asked():
        return _finished("cancelled", streams, started)
    try:
        child = subprocess.Popen(
            [_bytes(item) for item in argv],
            bufsize=0,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={_bytes(name): _bytes(value) for name, value in env.items()},
            cwd=cwd,
            process_group=None if keeper else 0,
            pass_fds=pass_fds,
        )
    except OSError as error:
        return NOT_STARTED.not_started(error)
    except ValueError as error:  # a NUL in an argument, a name with "=" in the environment
        return NOT_STARTED.not_started(OSError(errno.EINVAL, str(error)))
    watch = _Watch(child, streams, stdin, deadline, cancel, keeper)
    watch.end_first = end_first if keeper is None else keeper.end_all
    try:
        watch.register()
        if on_start is not None:
            on_start(child.pid)
        ended = watch.until_the_end()
    finally:
        watch.close()
    finished = _finished(ended, streams, started)
    # None only for a child that even SIGKILL did not end within DEATH_S.
    return finished if child.returncode is None else finished.with_returncode(child.returncode)


def _finished(ended: str, streams: "tuple[_Reader, _Reader]", started: float) -> Finished:
    elapsed_ms = int((time.monotonic() - started) * 1000)
    return Finished(ended, None, None, None, streams[0].stream(), streams[1].stream(), elapsed_ms)


def _bytes(text: str) -> bytes:
    """UTF-8 whatever the service's locale says; bytes that came from a file name go back as they were."""
    return text.encode("utf-8", "surrogateescape")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal between the first and the last has no name
        return f"SIG{number}"


class _Reader:
    """One output stream: keeps the first bytes, counts and hashes all."""

    __slots__ = ("_hash", "_keep", "_kept", "_name", "_on_output", "_total")

    def __init__(self, name: str, keep: int, on_output: Callable[[str, bytes], None] | None) -> None:
        self._name = name
        self._keep = keep
        self._on_output = on_output
        self._kept = bytearray()
        self._hash = hashlib.sha256()
        self._total = 0

    def take(self, data: bytes) -> None:
        self._total += len(data)
        self._hash.update(data)
        if (room := self._keep - len(self._kept)) > 0:
            self._kept += data[:room]
        if self._on_output is not None:
            try:
                self._on_output(self._name, data)
            except Exception:  # noqa: BLE001  a listener's fault is not the run's
                self._on_output = None
                _LOG.warning("a listener to a run's output failed and hears no more", exc_info=True)

    def stream(self) -> Stream:
        return Stream(bytes(self._kept), self._total, self._hash.hexdigest())


class _Bell:
    """Makes a Cancel readable for poll. May be rung from any thread, also after it was closed."""

    def __init__(self, cancel: Cancel) -> None:
        self._lock = threading.Lock()
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        cancel.listen(self._ring)

    def _ring(self) -> None:
        with self._lock:
            if self.fd >= 0:
                os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        with self._lock:
            os.close(self.fd)
            self.fd = -1


class _Watch:
    """One poll loop over a child's pipes, its end and the wish to cancel it."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        streams: tuple[_Reader, _Reader],
        stdin: bytes,
        deadline: float,
        cancel: Cancel | None,
        keeper: Keeper | None,
    ) -> None:
        self.end_first: Callable[[int], None] | None = None
        self._child = child
        self._keeper = keeper
        self._deadline = deadline
        self._cancel = cancel
        self._poll = select.poll()
        self._readers = {
            pipe.fileno(): reader for pipe, reader in zip((child.stdout, child.stderr), streams, strict=True) if pipe
        }
        self._stdin = memoryview(stdin)
        self._stdin_fd = -1
        self._pidfd = -1
        self._bell: _Bell | None = None
        self._over = False
        self._program_over = False  # with a keeper: the program has ended, the child may stay

    def register(self) -> None:
        """Watch from now on. What there is no descriptor for, the child's end or the cancel, is looked for by clock."""
        for fd in self._readers:
            self._poll.register(fd, select.POLLIN)
        with suppress(OSError):
            self._pidfd = os.pidfd_open(self._child.pid)
            self._poll.register(self._pidfd, select.POLLIN)
        if self._cancel is not None:
            with suppress(OSError):
                self._bell = _Bell(self._cancel)
                self._poll.register(self._bell.fd, select.POLLIN)
        if self._keeper is not None:
            self._poll.register(self._keeper.over_fd, select.POLLIN)
        if self._child.stdin is not None:
            self._stdin_fd = self._child.stdin.fileno()
            os.set_blocking(self._stdin_fd, False)
            self._poll.register(self._stdin_fd, select.POLLOUT)

    def until_the_end(self) -> str:
        """Returns how it ended: "exited", "deadline" or "cancelled". The child is reaped when this returns."""
        ended = self._run()
        if ended != "exited":
            self._kill()
            self._drain(time.monotonic() + GRACE_S, GRACE_S)
            self._await_death(time.monotonic() + DEATH_S)
        else:
            self._drain(time.monotonic() + GRACE_S, QUIET_S)
            self._kill()
            self._drain(time.monotonic() + QUIET_S, 0)
            self._await_death(time.monotonic() + DEATH_S)
        return ended

    def _run(self) -> str:
        """Until the program ended, the deadline passed or somebody asked."""
        while not (self._over or self._program_over):
            left = self._deadline - time.monotonic()
            if left <= 0:
                return "deadline"
            if self._cancel is not None and self._cancel.asked():
                return "cancelled"
            self._step(left)
        return "exited"

    def _drain(self, until: float, quiet: float) -> None:
        """Take what still comes, while the pipes are open, until `until` or nothing came for `quiet` seconds."""
        heard_at = time.monotonic()
        while self._readers and (now := time.monotonic()) < until:
            left = min(until, heard_at + quiet) - now
            if self._step(left):
                heard_at = time.monotonic()
            elif left <= 0:
                return

    def _await_death(self, until: float) -> None:
        while not self._over and (left := until - time.monotonic()) > 0:
            self._step(left)

    def _step(self, seconds: float) -> bool:
        """Wait for something to happen and deal with it; whether output came."""
        if self._pidfd < 0 or (self._bell is None and self._cancel is not None):
            seconds = min(seconds, TICK_S)
        heard = False
        for fd, event in self._poll.poll(min(max(seconds, 0), WAIT_S) * 1000):
            if fd in self._readers:
                heard = self._read(fd) or heard
            elif fd == self._pidfd:
                self._over = True
                self._poll.unregister(fd)
            elif fd == self._stdin_fd:
                self._feed(event)
            else:  # the bell, or the keeper's
                self._program_over |= self._keeper is not None and fd == self._keeper.over_fd
                self._poll.unregister(fd)
        if self._pidfd < 0 and not self._over:
            self._over = self._has_ended()
        return heard

    def _read(self, fd: int) -> bool:
        data = os.read(fd, CHUNK_BYTES)
        if not data:
            self._poll.unregister(fd)
            del self._readers[fd]
            return False
        self._readers[fd].take(data)
        return True

    def _feed(self, event: int) -> None:
        """Write what fits; stop when all is written or nobody reads."""
        if event & select.POLLOUT:
            try:
                self._stdin = self._stdin[os.write(self._stdin_fd, self._stdin[:CHUNK_BYTES]) :]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._stdin = self._stdin[:0]
        if not self._stdin or not event & select.POLLOUT:
            self._poll.unregister(self._stdin_fd)
            self._stdin_fd = -1
            if self._child.stdin is not None:
                self._child.stdin.close()

    def _has_ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _kill(self) -> None:
        """SIGKILL the group. The child is not reaped yet, so the pid is its own; if it was, by others, send nothing."""
        pid = self._child.pid
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if self.end_first is not None and not self._over:
            self.end_first(pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if not self._over:  # it may have moved to another group
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Reap, and give back every descriptor."""
        if not self._over:  # something went wrong on our side
            self._kill()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(0 if self._over else DEATH_S)
        if self._bell is not None:
            self._bell.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()
