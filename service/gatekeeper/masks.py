"""What a command started by the gatekeeper cannot see: denied folders, the token file, other processes (X35).

A mask, not a jail: a command works with all else the gatekeeper's user has. It runs in a mount and a PID namespace of
its own (bubblewrap), with the denied folders empty, without capabilities, which could take the masks away, and without
`/run`, through whose sockets (systemd, D-Bus, containers) another process would read for it.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_OWN: Final = (
    *("--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"),
    *("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"),
    *("--unshare-pid", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)


@dataclass(frozen=True, slots=True)
class Masks:
    """Folders and files to hide, and the `bwrap` to hide them with (None: there is none)."""

    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    bwrap: str | None

    @classmethod
    def of(cls, folders: Sequence[Path], files: Sequence[Path]) -> "Masks":
        """By their real paths, each once and none inside another, with the bubblewrap that PATH has."""
        real = dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders)
        return cls(
            tuple(one for one in real if not any(one != other and one.is_relative_to(other) for other in real)),
            tuple(Path(os.path.realpath(file)) for file in files),
            shutil.which("bwrap"),
        )

    def options(self, env: Mapping[str, str], cwd: str) -> bytes:
        """For `bwrap --args`: by descriptor, so that the environment is in no process list and not bwrap's own."""
        options = list(_OWN)
        for folder in self.folders:
            if folder.is_dir():
                options += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
        for file in self.files:
            if file.exists() and not any(file.is_relative_to(folder) for folder in self.folders):
                options += ["--ro-bind", "/dev/null", str(file)]
        options += ["--clearenv", *(part for item in env.items() for part in ("--setenv", *item)), "--chdir", cwd]
        return b"\0".join(option.encode("utf-8", "surrogateescape") for option in options)


def options_file(options: bytes) -> int:
    """A descriptor in memory that holds them."""
    descriptor = os.memfd_create("bwrap", os.MFD_CLOEXEC)
    os.write(descriptor, options)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
