"""What a tool may take, by setrlimit: set in launcher.py, inherited by all that the tool starts (executors.md, shell)."""

import functools
import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024
# The service raises its own soft limit; programs that close or select over all descriptors suffer under a high one.
DESCRIPTORS: Final = 1024
# Since then processes are counted for each user namespace, so for each run; before, for the user as a whole.
_COUNTED_BY_NAMESPACE: Final = (5, 14)


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """`memory_bytes`: address space of one process. `processes`: with threads; root is not held to it by the kernel.

    `file_bytes`: of one file. Core files are never written.
    """

    memory_bytes: int = 512 * MIB
    processes: int = 256
    file_bytes: int = 256 * MIB

    def largest_file(self) -> int:
        """Bytes, as `file_bytes`, or less where the service itself is held to less."""
        return min(self.file_bytes, _hard(resource.RLIMIT_FSIZE))

    def table(self, *, own_namespace: bool) -> Sequence[tuple[int, int, int]]:
        """(resource, soft, hard) for the launcher, nowhere above what the service itself is held to.

        `own_namespace`: whether the run has a user namespace. Where it has none, or the kernel counts processes by
        user, all that run on this host may be that user's: they are let in on top of `processes`.
        """
        processes = self.processes
        if not (own_namespace and _counts_by_namespace()):
            processes += _tasks_on_this_host()
        wanted = (
            (resource.RLIMIT_AS, self.memory_bytes),
            (resource.RLIMIT_NPROC, processes),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_CORE, 0),
        )
        hard = _hard(resource.RLIMIT_NOFILE)
        held = [(what, limit, limit) for what, limit in ((what, min(limit, _hard(what))) for what, limit in wanted)]
        return (*held, (resource.RLIMIT_NOFILE, min(DESCRIPTORS, hard), hard))


def _hard(what: int) -> int:
    """The service's own hard limit as the kernel's unsigned number, where "unlimited" is the largest."""
    return resource.getrlimit(what)[1] & 0xFFFF_FFFF_FFFF_FFFF


@functools.cache
def _counts_by_namespace() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    digits = "".join(character for character in minor if character.isdigit())
    return (int(major), int(digits or 0)) >= _COUNTED_BY_NAMESPACE


def _tasks_on_this_host() -> int:
    """Processes and threads of everybody, from `/proc/loadavg`'s "running/all": one read, and never too few."""
    fd = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)  # not by Path: once for each run
    try:
        return int(os.read(fd, 100).split()[3].partition(b"/")[2])
    finally:
        os.close(fd)
