"""Where a command on this host runs: in bubblewrap, or plain where the operator says so (executors.md, shell).

What is seen inside is an allow-list: `/usr` and the loader's links, single files of `/etc`, `shell_read_paths`, and
the tool's folder at `/tool`, written fresh into the sandbox's own memory, so that nothing is left behind whatever
happens. bubblewrap's arguments and all files come by memfd; the command, its environment and directory stand in
launcher.py's image, so that none of them shows in bubblewrap's argument vector or environment. Killing bubblewrap
(the deadline, a cancel, the service's death: the thread that started it must live as long as the run) kills process 1
of the namespace and with it all others.

Added here later: prlimit and the seccomp filter (in launcher.py) and the start-up self-test (beside `unavailable`).
"""

import dataclasses
import errno
import functools
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from service.domain.executors import Cancel, ToolFile
from service.errors import Message, UsageError
from service.execution.executors.folder import beneath, laid_out
from service.execution.executors.launcher import Report, launcher_code, launcher_image, read_report
from service.execution.executors.process import EMPTY, NOT_STARTED, Finished, run_process

TOOL_FOLDER: Final = "/tool"
MIB: Final = 1024 * 1024
PROBE_S: Final = 10.0
PROBE_AGAIN_S: Final = 30.0

_LAUNCHER: Final = "/.launch"
# Not the service's user: files of that user would look like the tool's own.
_UID: Final = "1000"
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


class Sandbox:
    """Runs commands in one of two modes: "bubblewrap", or "none" for plain processes of the service's own user.

    `read_paths`: the operator's `shell_read_paths`, absolute, seen read-only; UsageError where one would open what
    the contract closes. `tmp_bytes`, `shm_bytes`: sizes of the sandbox's `/tmp` and `/dev/shm`.
    """

    def __init__(
        self,
        mode: str = "bubblewrap",
        *,
        read_paths: Sequence[str] = (),
        network: bool = False,
        tmp_bytes: int = 64 * MIB,
        shm_bytes: int = 16 * MIB,
        bwrap: str = "bwrap",
    ) -> None:
        if mode not in ("bubblewrap", "none"):
            raise UsageError(Message(f"shell_sandbox 不能是 {mode!r}", f"shell_sandbox cannot be {mode!r}"))
        self.mode = mode
        self._bwrap = shutil.which(bwrap)
        self._before = _fixed_options(network=network)
        self._own_files = (
            (_PASSWD, "/etc/passwd"),
            (_GROUP, "/etc/group"),
            *(() if network else ((_HOSTS, "/etc/hosts"),)),
        )
        self._after = _closing_options(_checked(read_paths), tmp_bytes, shm_bytes)
        self._probing = threading.Lock()
        self._works = mode == "none"
        self._failure: Message | None = None
        self._probed_at = 0.0

    def unavailable(self) -> Message | None:
        """Why nothing can run here now, or None. Tried once by running `true`; a failure is tried again after 30 s."""
        if self._works:
            return None
        with self._probing:
            if self._failure is None or time.monotonic() - self._probed_at > PROBE_AGAIN_S:
                self._failure = self._probe()
                self._works = self._failure is None
                self._probed_at = time.monotonic()
            return self._failure

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        files: Sequence[ToolFile],
        deadline: float,
        keep: int,
        cwd: str | None = None,
        stdin: bytes = b"",
        cancel: Cancel | None = None,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> Finished:
        """As `run_process`, in the sandbox; `files` are the working directory, read-only; a relative `cwd` is beneath."""
        run = functools.partial(
            run_process, stdin=stdin, deadline=deadline, keep=keep, cancel=cancel, on_output=on_output
        )
        try:
            return self._run_inside(argv, env, files, cwd, run)
        except OSError as error:  # no descriptor or no space left for what is laid out
            return NOT_STARTED.not_started(error)
        except ValueError as error:  # a NUL
            return NOT_STARTED.not_started(OSError(errno.EINVAL, str(error)))

    def _run_inside(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        files: Sequence[ToolFile],
        cwd: str | None,
        run: Callable[..., Finished],
    ) -> Finished:
        if self.mode == "none":
            with laid_out(files) as folder:
                return run(argv, env=env, cwd=str(Path(folder, cwd or "")))
        if self._bwrap is None:
            raise FileNotFoundError(errno.ENOENT, "bwrap: " + os.strerror(errno.ENOENT))
        with _Descriptors() as descriptors:
            image = launcher_image(argv, env, cwd or TOOL_FOLDER, descriptors.report_fd)
            options_fd = descriptors.memfd(_joined(self._options(files, image, descriptors)))
            finished = run(
                [self._bwrap, "--args", str(options_fd), "--", _LAUNCHER],
                env={},
                cwd="/",
                pass_fds=(descriptors.report_fd, *descriptors.memfds),
                on_start=lambda _: descriptors.close_memfds(),
            )
            return _as_reported(finished, read_report(descriptors.report_fd))

    def _options(self, files: Sequence[ToolFile], image: bytes, descriptors: "_Descriptors") -> list[str]:
        options = [*self._before, "--dir", TOOL_FOLDER, "--chdir", TOOL_FOLDER]
        for file in files:
            mode = "0555" if file.executable else "0444"
            options += (
                "--perms",
                mode,
                "--file",
                str(descriptors.memfd(file.content)),
                beneath(TOOL_FOLDER, file.path),
            )
        options += ("--perms", "0555", "--file", str(descriptors.memfd(image)), _LAUNCHER)
        for content, path in self._own_files:
            options += ("--perms", "0444", "--file", str(descriptors.memfd(content)), path)
        return options + self._after

    def _probe(self) -> Message | None:
        if launcher_code() is None:
            return Message("沙箱尚不支持这种处理器", "the sandbox does not support this kind of processor yet")
        if self._bwrap is None:
            return Message("没有安装 bubblewrap (bwrap)", "bubblewrap (bwrap) is not installed")
        env = {"PATH": "/usr/bin:/bin"}
        finished = self.run(["true"], env=env, files=(), deadline=time.monotonic() + PROBE_S, keep=1000)
        if finished.ended == "exited" and finished.exit_code == 0:
            return None
        said = str(finished.error.strerror if finished.error else finished.signal or finished.ended)
        return Message(f"bubblewrap 在这里不能工作：{said}", f"bubblewrap does not work here: {said}")


class _Descriptors:
    """The descriptors of one run; all closed on leaving."""

    def __init__(self) -> None:
        self.report_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.memfds: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_memfds()
        os.close(self.report_fd)

    def memfd(self, content: bytes) -> int:
        fd = os.memfd_create("bitong")
        self.memfds.append(fd)
        done = 0
        while done < len(content):
            done += os.pwrite(fd, memoryview(content)[done:], done)
        return fd

    def close_memfds(self) -> None:
        while self.memfds:
            os.close(self.memfds.pop())


def _fixed_options(*, network: bool) -> list[str]:
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


def _closing_options(read_paths: Sequence[str], tmp_bytes: int, shm_bytes: int) -> list[str]:
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


def _checked(read_paths: Sequence[str]) -> Sequence[str]:
    for path in read_paths:
        parts = Path(path).parts
        closed = path in _NEVER_WHOLE or any(path == top or path.startswith(top + "/") for top in _NEVER_BENEATH)
        if not path.startswith("/") or ".." in parts or str(Path(path)) != path or closed:
            raise UsageError(
                Message(
                    "设置 shell_read_paths 只接受绝对路径，且不能是 /run、/sys、/proc、/dev 之下或整个系统目录。",
                    "The setting shell_read_paths takes absolute paths, none below /run, /sys, /proc or /dev and none "
                    "of the system's top folders as a whole.",
                ),
            )
    return read_paths


def _joined(options: Sequence[str]) -> bytes:
    return b"".join(option.encode("utf-8", "surrogateescape") + b"\0" for option in options)


def _as_reported(finished: Finished, report: Report | None) -> Finished:
    """What the launcher saw stands for what bubblewrap's exit code can only hint at (launcher.py)."""
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
