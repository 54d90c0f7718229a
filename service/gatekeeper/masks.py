"""What a command started by the gatekeeper cannot see: denied folders, the token file, other processes (X35).

A mask, not a jail: a command works with all else the gatekeeper's user has. It runs in a mount and a PID namespace of
its own (bubblewrap), with the denied folders empty, without capabilities, which could take the masks away, and without
`/run`, through whose sockets (systemd, D-Bus, containers) another process would read for it. The kernel's settings are
read-only: root owns them without capabilities too, and what `core_pattern` or `uevent_helper` names runs outside.
"""

import dataclasses
import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service.execution.executors.process import EMPTY, Finished

_OWN: Final = (
    *("--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"),
    *("--ro-bind-try", "/sys", "/sys", "--tmpfs", "/run"),
    *("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"),
    *("--unshare-pid", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)


@dataclass(frozen=True, slots=True)
class Masks:
    """What to hide, folders and files, and the `bwrap` to hide it with (None: there is none)."""

    hidden: tuple[Path, ...]
    bwrap: str | None

    @classmethod
    def of(cls, hidden: Sequence[Path]) -> "Masks":
        """By their real paths, each once and none inside another, with the bubblewrap that PATH has."""
        real = dict.fromkeys(Path(os.path.realpath(path)) for path in hidden)
        outermost = (one for one in real if not any(one != other and one.is_relative_to(other) for other in real))
        return cls(tuple(outermost), shutil.which("bwrap"))

    def options(self, env: Mapping[str, str], cwd: str) -> bytes:
        """For `bwrap --args`: by descriptor, so that the environment is in no process list and not bwrap's own."""
        options = list(_OWN)
        for path in self.hidden:
            if path.is_dir():
                options += ["--tmpfs", str(path), "--remount-ro", str(path)]
            elif path.exists():
                options += ["--ro-bind", "/dev/null", str(path)]
        options += ["--clearenv", *(part for item in env.items() for part in ("--setenv", *item)), "--chdir", cwd]
        return b"\0".join(option.encode("utf-8", "surrogateescape") for option in options)


@contextmanager
def memory_file(content: bytes = b"") -> Iterator[int]:
    """A descriptor of a file in memory that holds it, at its beginning."""
    descriptor = os.memfd_create("bwrap", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def as_started(finished: Finished, status_fd: int) -> Finished:
    """What bubblewrap's `--json-status-fd` says of it: an exit code stands there only if the command began.

    Else the exit code is bubblewrap's own, and so are the words on standard error (X4).
    """
    if finished.ended != "exited" or finished.exit_code is None or b'"exit-code"' in os.pread(status_fd, 4096, 0):
        return finished
    said = finished.stderr.kept.decode("utf-8", "replace").strip() or "bwrap failed"
    return dataclasses.replace(finished.not_started(OSError(errno.EIO, said)), stderr=EMPTY)
