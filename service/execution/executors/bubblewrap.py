"""What bubblewrap is told: which namespaces, and the allow-list of what is seen inside (contract/executors.md, shell)."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from service.errors import Message, UsageError

TOOL_FOLDER: Final = "/tool"
LAUNCHER: Final = "/.launch"
# Not the service's user: files of that user would look like the tool's own.
TOOL_UID: Final = 1000
_UID: Final = str(TOOL_UID)
_PASSWD: Final = b"root:x:0:0::/:/bin/false\ntool:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
_GROUP: Final = b"root:x:0:\ntool:x:1000:\nnogroup:x:65534:\n"
_HOSTS: Final = b"127.0.0.1 localhost bitong\n::1 localhost\n"
_NAMESPACES: Final = (
    *("--unshare-user", "--disable-userns", "--uid", _UID, "--gid", _UID, "--cap-drop", "ALL"),
    *("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "bitong"),
    *("--new-session", "--die-with-parent", "--as-pid-1"),
)
_LOADER_FOLDERS: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# /etc/alternatives holds links into /usr only: awk, editors and pagers are found through it.
_ETC: Final = ("/etc/ld.so.cache", "/etc/alternatives")
_ETC_NETWORK: Final = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"),
    *("/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki/tls/certs"),
)
_NEVER_BENEATH: Final = ("/run", "/sys", "/proc", "/dev")
_NEVER_WHOLE: Final = ("/", "/var", "/home", "/root", "/srv", "/etc", "/tmp", TOOL_FOLDER)  # noqa: S108  names, not files


def fixed_options(*, network: bool) -> list[str]:
    """Namespaces and what of the host is seen, the same for each run."""
    options = [*_NAMESPACES, *(() if network else ("--unshare-net",)), "--ro-bind", "/usr", "/usr"]
    for folder in _LOADER_FOLDERS:
        if Path(folder).is_symlink():
            options += ("--symlink", str(Path(folder).readlink()), folder)
        elif Path(folder).is_dir():
            options += ("--ro-bind", folder, folder)
    options += ("--dir", "/etc")
    for path in (*_ETC, *(_ETC_NETWORK if network else ())):
        if Path(path).exists():
            options += ("--ro-bind", path, path)
    if (zone := Path("/etc/localtime")).is_symlink():
        options += ("--symlink", str(zone.readlink()), str(zone))
    return options


def shown_by(path: Path, read_paths: Sequence[str], *, network: bool) -> str | None:
    """What of the host's that tools see shows `path`, or a part of it; None where it stays hidden.

    By real paths: a link's name hides nothing. Inside, a tool is the service's own user, so modes hide nothing either.
    """
    real = Path(os.path.realpath(path))
    shown: Sequence[str] = ("/usr", *_LOADER_FOLDERS, *_ETC, *(_ETC_NETWORK if network else ()), *read_paths)
    for seen in shown:
        place = Path(os.path.realpath(seen))
        if real.is_relative_to(place) or place.is_relative_to(real):
            return seen
    return None


def own_files(*, network: bool) -> Sequence[tuple[bytes, str]]:
    """(content, path) of what the sandbox has instead of the host's."""
    files = ((_PASSWD, "/etc/passwd"), (_GROUP, "/etc/group"))
    return files if network else (*files, (_HOSTS, "/etc/hosts"))


def closing_options(read_paths: Sequence[str], tmp_bytes: int, shm_bytes: int) -> list[str]:
    """Last, since the root and /dev are written to until then, and are memory without a limit while they can be."""
    options = ["--proc", "/proc", "--dev", "/dev"]
    for size, path in ((shm_bytes, "/dev/shm"), (tmp_bytes, "/tmp")):  # noqa: S108  the sandbox's own
        options += ("--perms", "1777", "--size", str(size), "--tmpfs", path)
    for path in read_paths:
        options += ("--ro-bind", path, path)
    # /proc too: without capabilities, a service that is root still owns /proc/sys and /proc/sysrq-trigger, and
    # bubblewrap covers them only where it may write to the folder itself (0.8.0): core_pattern could be set from
    # inside.
    return [*options, "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]


def checked_read_paths(read_paths: Sequence[str]) -> Sequence[str]:
    """The operator's `shell_read_paths`; UsageError where one would open what the contract closes."""
    for path in read_paths:
        parts = Path(path).parts
        plain = path.startswith("/") and ".." not in parts and str(Path(path)) == path
        if not plain or _is_closed(path) or _is_closed(str(Path(path).resolve())):  # /var/run is /run
            raise UsageError(
                Message(
                    "设置 shell_read_paths 只接受绝对路径，且不能是 /run、/sys、/proc、/dev 之下或整个系统目录。",
                    "The setting shell_read_paths takes absolute paths, none below /run, /sys, /proc or /dev and none "
                    "of the system's top folders as a whole.",
                ),
            )
        if _is_neither(Path(path)):
            raise UsageError(
                Message(
                    "设置 shell_read_paths 只接受文件夹和普通文件，不接受套接字、管道或设备。",
                    "The setting shell_read_paths takes folders and regular files, no sockets, pipes or devices.",
                ),
            )
    return read_paths


def _is_neither(path: Path) -> bool:
    """Whether something stands there that a tool could speak through although it is bound read-only."""
    try:
        mode = path.stat().st_mode
    except OSError:  # not there, or not for us: the self-test says so
        return False
    return not stat.S_ISDIR(mode) and not stat.S_ISREG(mode)


def _is_closed(path: str) -> bool:
    return path in _NEVER_WHOLE or any(path == top or path.startswith(top + "/") for top in _NEVER_BENEATH)
