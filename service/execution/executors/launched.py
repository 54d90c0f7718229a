"""What goes with a launcher (launcher.py) and comes back from it: a run's descriptors, and how it ended by its report.

For whoever runs it in bubblewrap or from memory: sandbox.py, and the gatekeeper's masks.
"""

import dataclasses
import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self

from service.execution.executors.launcher import Report
from service.execution.executors.process import EMPTY, Finished

_MFD_EXEC: Final = 0x10


class Descriptors:
    """The descriptors of one run: where the launcher reports, and files in memory; all closed on leaving."""

    def __init__(self) -> None:
        self.report_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.memfds: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_memfds()
        os.close(self.report_fd)

    def memfd(self, content: bytes) -> int:
        """A file in memory with this content."""
        fd = _memfd()
        self.memfds.append(fd)
        write_all(fd, content)
        return fd

    def close_memfds(self) -> None:
        """Once they are open in the program that was started."""
        while self.memfds:
            os.close(self.memfds.pop())


def _memfd() -> int:
    """Files that may be executed have to be asked for as such since 6.3, and cannot be before."""
    with suppress(OSError):
        return os.memfd_create("bitong", os.MFD_CLOEXEC | _MFD_EXEC)
    return os.memfd_create("bitong")


def write_all(fd: int, content: bytes) -> None:
    """From the file's beginning; where it is read from stays."""
    done = 0
    while done < len(content):
        done += os.pwrite(fd, memoryview(content)[done:], done)


def joined(options: Sequence[str]) -> bytes:
    """As `bwrap --args` reads them."""
    return b"".join(option.encode("utf-8", "surrogateescape") + b"\0" for option in options)


def as_reported(finished: Finished, report: Report | None) -> Finished:
    """What the launcher saw stands for what bubblewrap's exit code can only hint at (launcher.py)."""
    if finished.ended in ("deadline", "cancelled") and report is not None and report.error is None:
        return finished.with_returncode(os.waitstatus_to_exitcode(report.status))
    if finished.ended != "exited":
        return finished
    if report is None:
        return _without_report(finished)
    if report.error is not None:
        return finished.not_started(report.error)
    return finished.with_returncode(os.waitstatus_to_exitcode(report.status))


def _without_report(finished: Finished) -> Finished:
    """Process 1 was killed from outside (128 + n), or bubblewrap was, or it could not build the sandbox."""
    if finished.exit_code is None:
        return finished
    if finished.exit_code > 128:
        return finished.with_returncode(128 - finished.exit_code)
    said = finished.stderr.kept.decode("utf-8", "replace").strip() or "bwrap failed"
    return dataclasses.replace(finished.not_started(OSError(errno.EIO, said)), stderr=EMPTY)
