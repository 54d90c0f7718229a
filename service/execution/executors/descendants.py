"""Ends what a process has started: without a sandbox whatever descends from the launcher, else bubblewrap's child.

The launcher adopts orphans (PR_SET_CHILD_SUBREAPER), so that double forks stay its descendants. Best effort, unlike a
PID namespace: a tool may kill its launcher first, a set-user-ID program may not be ours to kill, a kernel without
`/proc/PID/task/TID/children` (CONFIG_PROC_CHILDREN) shows nothing, and nobody looks after a SIGKILL of the service.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 1.0
_ROUND_S: Final = 0.001  # those killed give their children to the launcher, and it reaps


def end_descendants(pid: int) -> None:
    """SIGKILL all that descends from `pid`, again and again until none is left or PATIENCE_S is over."""
    until = time.monotonic() + PATIENCE_S
    while (found := _descendants(pid)) and time.monotonic() < until:
        for child, parent in found:
            _end(child, {parent, pid})
        time.sleep(_ROUND_S)


def end_children(pid: int) -> None:
    """SIGKILL the children of `pid`, which is stopped first, so that there will be no others. It stays stopped.

    For bubblewrap, whose child is process 1 of a namespace and takes all of it along. Killed itself, bubblewrap leaves
    a child behind that has not yet asked to die with it, and that is then outside every limit (X2).
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + PATIENCE_S
    while not _is_still(pid) and time.monotonic() < until:
        time.sleep(_ROUND_S)
    for child in _children(pid):
        _end(child, {pid})


def _is_still(pid: int) -> bool:
    """Whether it is stopped or has ended; it is our own child, not yet reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _descendants(pid: int) -> list[tuple[int, int]]:
    """(process, its parent), parents first."""
    found: list[tuple[int, int]] = []
    parents = [pid]
    while parents:
        parent = parents.pop()
        children = _children(parent)
        found += [(child, parent) for child in children]
        parents += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - hot path: once for each run
            with suppress(OSError):
                children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split())
    return children


def _end(pid: int, parents: set[int]) -> None:
    """By pidfd, and only while its parent is one of `parents`: a number that was given away is a stranger's."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        with suppress(OSError):
            if int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1]) in parents:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)
