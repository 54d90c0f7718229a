"""What a command started by the gatekeeper cannot see: denied folders, the token file, other processes (X35).

A mask, not a jail: a command works with all else the gatekeeper's user has. It runs in a mount and a PID namespace of
its own (bubblewrap), with the denied folders empty, without capabilities, which could take the masks away, and without
`/run`, through whose sockets (systemd, D-Bus, containers) another process would read for it. Where it is root, the
kernel's settings are read-only: what `core_pattern` or `uevent_helper` names runs outside.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LAUNCHER: Final = "/run/.launch"
# Root owns these without capabilities too. Costs what root's commands write there, user namespaces' maps included.
_AS_ROOT: Final = ("--remount-ro", "/proc", "--ro-bind-try", "/sys", "/sys")
_OWN: Final = (
    *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"),
    *("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"),
    *("--unshare-pid", "--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
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

    def options(self, image_fd: int) -> list[str]:
        """For `bwrap --args`. `image_fd`: the program that stands at LAUNCHER (launcher.py) and starts the command.

        bubblewrap itself would start text that is no program by a shell, and make a signal an exit code (X4, X5).
        """
        hidden = [str(path) for path in self.hidden if os.path.exists(path)]  # noqa: PTH110 - no error for what we cannot see
        options = ["--bind", "/", "/"]
        for folder in _ways_to(hidden):
            options += ["--bind", folder, folder]
        options += _OWN + (_AS_ROOT if os.geteuid() == 0 else ())
        for place in hidden:
            if os.path.isdir(place):  # noqa: PTH112
                options += ["--tmpfs", place, "--remount-ro", place]
            else:
                options += ["--ro-bind", "/dev/null", place]
        return [*options, "--perms", "0555", "--file", str(image_fd), LAUNCHER]


def _ways_to(places: Sequence[str]) -> list[str]:
    """The folders above them, from the top, each to be a mount point, which nobody can rename.

    A mask stands at a path: were the folder above it renamed, the next command would find all of it elsewhere. Costs
    commands the rename and the hard link from outside such a folder into it (EXDEV; `mv` copies then).
    """
    parents = {str(parent) for place in places for parent in Path(place).parents}
    return sorted(parents - {"/"}, key=len)
