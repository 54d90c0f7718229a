"""Where a command on this host runs: in bubblewrap, or plain where the operator says so (executors.md, shell).

What is seen inside is an allow-list: `/usr` and the loader's links, single files of `/etc`, `shell_read_paths`, and
the tool's folder at `/tool`, written fresh into the sandbox's own memory, so that nothing is left behind whatever
happens. bubblewrap's arguments and all files come by memfd; the command, its environment and directory stand in
launcher.py's image, so that none of them shows in bubblewrap's argument vector or environment. The deadline and a
cancel kill process 1 of the namespace and with it all others, then bubblewrap; the service's death kills bubblewrap (the
thread that started it must live as long as the run) and that in turn process 1.

In both modes the launcher sets the limits of rlimits.py. The filter of seccomp.py is bubblewrap's alone, and nothing
runs there before selftest.py has seen the walls stand.
"""

import dataclasses
import errno
import functools
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from service.domain.executors import Cancel, ToolFile
from service.errors import Message, UsageError
from service.execution.executors.bubblewrap import (
    LAUNCHER,
    TOOL_FOLDER,
    checked_read_paths,
    closing_options,
    fixed_options,
    own_files,
)
from service.execution.executors.descendants import end_children, end_descendants
from service.execution.executors.folder import beneath, laid_out
from service.execution.executors.launched import Descriptors, as_reported, joined, write_all
from service.execution.executors.launcher import launcher_code, launcher_image, read_report
from service.execution.executors.process import NOT_STARTED, Finished, Keeper, run_process
from service.execution.executors.rlimits import MIB, ToolLimits
from service.execution.executors.seccomp import filter_program
from service.execution.executors.selftest import Check, SelfTest, Walls, try_walls

TEST_AGAIN_S: Final = 30.0

_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin"}
_READ_PATHS: Final = "read-paths"
_KEEP: Final = 16 * 1024
# When the host's memory ends, a tool is killed before the service, however little it seems to hold. Set before
# bubblewrap starts anything, in the same process: set from outside, it misses a child that is just being made.
_GO_FIRST: Final = ("/bin/sh", "-c", 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec "$@"', "sh")
_NOT_FROM_MEMORY: Final = (errno.EACCES, errno.EPERM)
_LOG = logging.getLogger(__name__)


class Sandbox:
    """Runs commands in one of two modes: "bubblewrap", or "none" for plain processes of the service's own user.

    `read_paths`: the operator's `shell_read_paths`, absolute, seen read-only; UsageError where one would open what
    the contract closes. `tmp_bytes`, `shm_bytes`: sizes of the sandbox's `/tmp` and `/dev/shm`. `limits`: what each
    run is held to, in both modes.
    """

    def __init__(
        self,
        mode: str = "bubblewrap",
        *,
        read_paths: Sequence[str] = (),
        network: bool = False,
        tmp_bytes: int = 64 * MIB,
        shm_bytes: int = 16 * MIB,
        limits: ToolLimits = ToolLimits(),  # noqa: B008 - frozen
        bwrap: str = "bwrap",
    ) -> None:
        if mode not in ("bubblewrap", "none"):
            raise UsageError(Message(f"shell_sandbox 不能是 {mode!r}", f"shell_sandbox cannot be {mode!r}"))
        self.mode = mode
        self._bwrap = shutil.which(bwrap)
        self._limits = limits
        self._before = fixed_options(network=network)
        self._own_files = own_files(network=network)
        self._after = closing_options(checked_read_paths(read_paths), tmp_bytes, shm_bytes)
        self._walls = Walls(
            limits.memory_bytes, limits.largest_file(), tmp_bytes, shm_bytes, network, tuple(read_paths)
        )
        self._testing = threading.Lock()
        self._tested: SelfTest | None = SelfTest() if mode == "none" else None
        self._tested_at = 0.0
        self._held = True

    @property
    def state(self) -> str:
        """For log, record and /readyz: "bubblewrap", "none", "none, as root" or "unavailable: <check>".

        Names only, and nothing is tried: "not tested yet" stands for the check before `unavailable` was first asked.
        """
        if self.mode == "none":
            return "none, as root" if os.geteuid() == 0 else "none"
        if self._tested is None:
            return "unavailable: not tested yet"
        failed = self._tested.failed()
        return self.mode if failed is None else f"unavailable: {failed.name}"

    def unavailable(self) -> Message | None:
        """Why nothing can run here now, or None: which wall of the self-test does not stand.

        The first call runs the self-test, and who asks meanwhile waits for it; a failure is tried again after 30 s.
        """
        tested = self._tested
        if tested is None or tested.failed() is not None:
            with self._testing:
                tested = self._tested
                too_old = time.monotonic() - self._tested_at > TEST_AGAIN_S
                if tested is None or (tested.failed() is not None and too_old):
                    self._tested = tested = self.self_test()
                    self._tested_at = time.monotonic()
        return _in_words(tested.failed())

    def self_test(self) -> SelfTest:
        """Try all walls now, some 30 ms. Empty without a sandbox."""
        if self.mode == "none":
            return SelfTest()
        if launcher_code() is None:
            return SelfTest((Check("processor", ok=False, seen=os.uname().machine),))
        if self._bwrap is None:
            return SelfTest((Check("bubblewrap", ok=False, seen="not installed"),))

        def run(argv: Sequence[str], files: Sequence[ToolFile], deadline: float) -> Finished:
            return self.run(argv, env=_ENVIRONMENT, files=files, deadline=deadline, keep=_KEEP)

        try:
            tested = try_walls(run, self._walls)
        except OSError as error:  # no descriptor or no folder for what listens on the host meanwhile
            return SelfTest((Check("start", ok=False, seen=os.strerror(error.errno or 0)),))
        failed = tested.failed()
        if (
            failed is not None
            and failed.name == "start"
            and any(path in failed.seen for path in self._walls.read_paths)
        ):
            return SelfTest((dataclasses.replace(failed, name=_READ_PATHS),))
        return tested

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
            if self.mode == "none":
                return self._run_plain(argv, env, files, cwd, run)
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
        if self._bwrap is None:
            raise FileNotFoundError(errno.ENOENT, "bwrap: " + os.strerror(errno.ENOENT))
        with Descriptors() as descriptors:
            image = launcher_image(
                argv,
                env,
                cwd or TOOL_FOLDER,
                descriptors.report_fd,
                limits=self._limits.table(own_namespace=True),
                filter_program=filter_program(),
            )
            options_fd = descriptors.memfd(joined(self._options(files, image, descriptors)))
            finished = run(
                [*_GO_FIRST, self._bwrap, "--args", str(options_fd), "--", LAUNCHER],
                env={},
                cwd="/",
                pass_fds=(descriptors.report_fd, *descriptors.memfds),
                on_start=lambda _: descriptors.close_memfds(),
                end_first=end_children,
            )
            return as_reported(finished, read_report(descriptors.report_fd))

    def _run_plain(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        files: Sequence[ToolFile],
        cwd: str | None,
        run: Callable[..., Finished],
    ) -> Finished:
        """By the launcher, run from memory; without one, or where programs may not run from memory, as it comes."""
        with laid_out(files) as folder:
            directory = str(Path(folder, cwd or ""))
            if self._held and launcher_code() is not None:
                finished = self._run_held(argv, env, directory, run)
                if finished is not None:
                    return finished
                self._held = False
                _LOG.warning("shell tools run without limits: this host runs no programs from memory")
            return run(argv, env=env, cwd=directory)

    def _run_held(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str, run: Callable[..., Finished]
    ) -> Finished | None:
        """None where the launcher may not be run from memory."""
        with Descriptors() as descriptors:
            image_fd = descriptors.memfd(b"")
            image = launcher_image(
                argv,
                env,
                directory,
                descriptors.report_fd,
                limits=self._limits.table(own_namespace=False),
                image_fd=image_fd,
                stays=True,
            )
            write_all(image_fd, image)
            finished = run(
                [f"/proc/self/fd/{image_fd}"],
                env={},
                cwd="/",
                pass_fds=(descriptors.report_fd, image_fd),
                on_start=lambda _: descriptors.close_memfds(),
                keeper=Keeper(descriptors.report_fd, end_descendants),
            )
            if finished.error is not None and finished.error.errno in _NOT_FROM_MEMORY:
                return None
            return as_reported(finished, read_report(descriptors.report_fd))

    def _options(self, files: Sequence[ToolFile], image: bytes, descriptors: Descriptors) -> list[str]:
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
        options += ("--perms", "0555", "--file", str(descriptors.memfd(image)), LAUNCHER)
        for content, path in self._own_files:
            options += ("--perms", "0444", "--file", str(descriptors.memfd(content)), path)
        return options + self._after


def _in_words(failed: Check | None) -> Message | None:
    """Why, and what the operator can do: never to take the walls away where a path in a setting is the cause."""
    if failed is None:
        return None
    if failed.name == _READ_PATHS:
        return Message(
            f"设置 shell_read_paths 里有用不了的路径（{failed.seen}）。请改正这个设置",
            f"a path in the setting shell_read_paths cannot be used ({failed.seen}); correct the setting",
        )
    zh, en = {
        "processor": ("沙箱尚不支持这种处理器", "the sandbox does not support this kind of processor yet"),
        "bubblewrap": ("没有安装 bubblewrap (bwrap)", "bubblewrap (bwrap) is not installed"),
        "start": (f"bubblewrap 在这里不能工作：{failed.seen}", f"bubblewrap does not work here: {failed.seen}"),
    }.get(
        failed.name,
        (
            f"沙箱自检未通过：{failed.name}（{failed.seen}）",
            f"the sandbox's self-test failed: {failed.name} ({failed.seen})",
        ),
    )
    return Message(
        f'{zh}。请装好 bubblewrap，或明确设置 shell_sandbox = "none"',
        f'{en}; make bubblewrap work, or set shell_sandbox = "none"',
    )
