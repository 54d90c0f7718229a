"""Our own modules as other processes, and what the demo needs of processes: an end that comes, and what they said."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_TAIL_BYTES: Final = 2000
_LIBC: Final = ctypes.CDLL(None)


def own(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours with this interpreter; nothing is imported from the folder it starts in."""
    return [sys.executable, "-P", "-m", module, *arguments]


class Child:
    """A process that ends no later than we do, however we end. What it says goes to `log`, written anew."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,  # Ctrl-C is ours to pass on, in order
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - this process has one thread
            )
        finally:
            os.close(descriptor)

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self, within_s: float) -> None:
        """SIGTERM, and SIGKILL when that was not enough."""
        if self.runs():
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """At once."""
        self._process.kill()
        self._process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").strip()


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
