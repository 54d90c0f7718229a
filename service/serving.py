"""The process around the application: where it listens, how it ends, what it says of its event loop."""

import asyncio
import errno
import os
import resource
import signal
import socket
import time
from types import FrameType
from typing import Any, Final, Protocol

import structlog
import uvicorn

from service.domain.history import Progress
from service.errors import Message, UsageError

logger = structlog.get_logger(__name__)

BACKLOG: Final = 128
DESCRIPTORS: Final = 16_384
SAY_AGAIN_S: Final = 5.0
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Ending(Protocol):
    """Begins to end the service; `at_once`: without the grace."""

    def __call__(self, *, at_once: bool) -> None:
        """See the class."""


class Server(uvicorn.Server):
    """Ends in the order the contract names: no new runs, a grace for those that run, then their end, recorded."""

    def __init__(self, config: uvicorn.Config, ending: Ending) -> None:
        super().__init__(config)
        self._ending = ending

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of handlers
        """SIGTERM or SIGINT came; a second one ends the grace. Not uvicorn's own, which would raise the signal again."""
        first = not self.should_exit
        self.should_exit = True
        self.force_exit = not first and sig == signal.SIGINT
        self._ending(at_once=not first)


class LoopTrouble:
    """Says what the event loop meets, but not thousands of times a second: at RLIMIT_NOFILE it meets it for each try."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception handler of asyncio."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES):
            loop.default_exception_handler(context)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + SAY_AGAIN_S
            logger.warning("no more connections for now", error=os.strerror(error.errno or 0))


class ProgressLog:
    """Says in the log, every few seconds, how far a long look is."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SAY_AGAIN_S

    def __call__(self, progress: Progress) -> None:
        """One more step was made."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SAY_AGAIN_S
            logger.info("looking at the repository", phase=progress.phase, done=progress.done, total=progress.total)


def allow_descriptors() -> None:
    """As many as the host lets us have, within reason: each caller and each event stream holds one (cases.md R19)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UsageError that names the setting when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, or asyncio would not turn Nagle off for what is accepted: 40 ms on each answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:
        listener.close()
        if isinstance(error, socket.gaierror | UnicodeError):
            raise UsageError(
                Message("设置 host 不是可以监听的地址。", "The setting host is no address to listen on.")
            ) from None
        reason = os.strerror(error.errno or 0)
        raise UsageError(
            Message(f"无法监听 {host}:{port}：{reason}", f"Cannot listen on {host}:{port}: {reason}")
        ) from None
    listener.listen(BACKLOG)
    return listener


def loopback_of(host: str) -> str:
    """How this host reaches a service that listens on `host`."""
    if host in ("", "0.0.0.0"):  # noqa: S104 - compared only
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
