"""The mirror process: everything that reads untrusted git data, out of the service's reach.

`python -m service.intake.mirror.process FD` is a small helper with dulwich already imported. For each look it is handed
two sockets and forks a child, which limits itself, says what it sees on the first socket (wire.py) and ends, so
that no memory gathers. The second tells the service how the child ended, and the helper that nobody listens any more.
The helper ends with the service.
"""

import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from service.domain.history import Progress, Seen, Tip
from service.intake.definitions.settling import read_open
from service.intake.mirror import wire
from service.intake.mirror.fetching import BareMirror, LocalRepository
from service.intake.mirror.git_remote import Address, Remote, Unreachable, local_path
from service.intake.mirror.objects import Damaged, Objects, type_name
from service.intake.mirror.trees import Undecodable
from service.intake.mirror.walking import Walk

MAX_MEMORY_BYTES: Final = 1 << 30
# Mapped packs count here as well, and are not memory that anybody misses.
MAX_ADDRESS_BYTES: Final = 6 << 30
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4


@dataclass(slots=True)
class _Child:
    pid: int
    pidfd: int
    watcher: socket.socket


def serve(control: socket.socket) -> None:
    """Fork a child for each pair of sockets that comes; end, and with us every child, when the service is gone."""
    children: dict[int, _Child] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == control.fileno():
                handed = _receive_sockets(control)
                if handed is None:
                    for child in {id(child): child for child in children.values()}.values():
                        _kill(child.pid)
                    return
                child = _start(control, children, *handed)
                for watched in (child.pidfd, child.watcher.fileno()):
                    children[watched] = child
                    poll.register(watched, select.POLLIN)
            elif fd in children:
                child = children[fd]
                if fd == child.pidfd:
                    _ended(child, children, poll)
                else:  # the service turned away; how the child ends comes through its pidfd
                    poll.unregister(fd)
                    _kill(child.pid)


def _receive_sockets(control: socket.socket) -> tuple[socket.socket, socket.socket] | None:
    data, handles, _, _ = socket.recv_fds(control, 1, 2)
    if not data or len(handles) != 2:
        return None
    talk, watcher = handles
    return socket.socket(fileno=talk), socket.socket(fileno=watcher)


def _start(control: socket.socket, children: dict[int, _Child], talk: socket.socket, watcher: socket.socket) -> _Child:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                control.close()
                watcher.close()
                for child in {id(child): child for child in children.values()}.values():
                    child.watcher.close()
                look(talk)
                code = 0
        finally:
            os._exit(code)
    talk.close()
    return _Child(pid, os.pidfd_open(pid), watcher)


def _ended(child: _Child, children: dict[int, _Child], poll: select.poll) -> None:
    _, status = os.waitpid(child.pid, 0)
    for watched in (child.pidfd, child.watcher.fileno()):
        children.pop(watched, None)
        with suppress(KeyError):
            poll.unregister(watched)
    with suppress(OSError):
        child.watcher.send(str(os.waitstatus_to_exitcode(status)).encode())
    child.watcher.close()
    os.close(child.pidfd)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def look(talk: socket.socket) -> None:
    """One look, in a process of its own: a request comes, what is seen goes, and how it ended."""
    stream = cast("BinaryIO", talk.makefile("rwb", buffering=1 << 16))
    first = wire.read_frame(stream)
    if first is None or first[0] != wire.REQUEST:
        return
    request = json.loads(first[1])
    _limit(request["deadline_s"], request["max_pack_bytes"])
    with suppress(BrokenPipeError):
        stream.write(_outcome(_Look(request, stream)))
        stream.flush()


def _limit(deadline_s: float, max_pack_bytes: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, deadline_s)
    seconds = int(deadline_s) + 1
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_DATA, MAX_MEMORY_BYTES),
        (resource.RLIMIT_AS, MAX_ADDRESS_BYTES),
        (resource.RLIMIT_FSIZE, max_pack_bytes + (64 << 20)),
    ):
        with suppress(ValueError):  # a lower hard limit holds already
            resource.setrlimit(kind, (value, value))


def _outcome(a_look: "_Look") -> bytes:
    """Run it to its end; the last frame."""
    try:
        a_look.run()
    except BrokenPipeError:
        raise
    except Unreachable as error:
        return _failure(error.code, error.cause)
    except (Damaged, Undecodable) as error:
        return _failure("repository-damaged", str(error))
    except (MemoryError, RecursionError):
        return _failure("repository-damaged", "it needs more memory than a look may have")
    except OSError as error:
        return _failure("repository-unreachable", f"{type(error).__name__}: {error.strerror}")
    except Exception as error:  # noqa: BLE001 - whatever hostile data makes the decoders raise is told, not lost
        return _failure("repository-damaged", type_name(error))
    return wire.frame(wire.DONE)


def _failure(code: str, cause: str) -> bytes:
    return wire.json_frame(wire.FAILED, {"code": code, "cause": cause})


class _Look:
    """The course of one look."""

    def __init__(self, request: dict[str, Any], stream: BinaryIO) -> None:
        self._request = request
        self._stream = stream
        self._tips = set() if request["full"] else {tip.encode() for tip in request["tips"]}

    def run(self) -> None:
        """Tip, then what is new. Raises Unreachable, Damaged, Undecodable."""
        path = local_path(self._request["url"])
        folder = Path(self._request["folder"])
        if path is not None:
            self._local(LocalRepository(path, self._request["branch"], folder))
        else:
            self._remote(folder)

    def _local(self, repository: LocalRepository) -> None:
        tip = repository.tip()
        self._say(tip)
        repository.keep(self._request["keep"], self._request["tools_path"])
        if tip.commit is not None and tip.commit.encode() not in self._tips:
            self._walk(tip.commit, Objects(repository.objects_folder, mend=repository.mend))

    def _remote(self, folder: Path) -> None:
        request = self._request
        remote = Remote(Address.parse(request["url"], request["username"], request["token"]), request["branch"])
        tip = remote.tip()
        self._say(tip)
        if tip.commit is None:
            return
        mirror = BareMirror(
            folder,
            remote,
            request["branch"],
            tip.commit,
            max_pack_bytes=request["max_pack_bytes"],
            progress=lambda done: self._say(Progress("fetch", done)),
        )
        mirror.keep(request["keep"])
        if tip.commit.encode() not in self._tips:
            mirror.bring()
            self._walk(tip.commit, Objects(mirror.objects_folder, mend=mirror.mend))
            mirror.clones.succeeded()

    def _walk(self, tip: str, objects: Objects) -> None:
        walk = Walk(
            objects,
            tools_path=self._request["tools_path"],
            tips=self._tips,
            known=self._known,
            read_definition=read_open,
        )
        for seen in walk.from_tip(tip.encode()):
            self._say(seen)

    def _known(self) -> set[bytes]:
        if self._request["full"]:
            return set()
        self._stream.write(wire.frame(wire.ASK_KNOWN))
        self._stream.flush()
        answer = wire.read_frame(self._stream)
        return wire.unpack_ids(answer[1]) if answer else set()

    def _say(self, seen: Seen) -> None:
        self._stream.write(wire.seen_frame(seen))
        if isinstance(seen, (Tip, Progress)):
            self._stream.flush()


def main() -> None:
    """Get ready once, then serve."""
    _prctl(_PR_SET_DUMPABLE, 0)
    control = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # what was imported stays shared with every child
    serve(control)


if __name__ == "__main__":
    main()
