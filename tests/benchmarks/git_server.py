"""Git over HTTP from a process of its own, so that it shares no interpreter with who measures.

`python -m tests.benchmarks.git_server FOLDER` serves the bare repositories in FOLDER (tests/git_http.py) until it is ended.
"""

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.git_http import GitHttpServer


class GitServer:
    """Serves every bare repository below a folder while this is entered."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.git_server", str(folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._base = self._process.stdout.readline().decode().strip()

    def url(self, name: str) -> str:
        """The address of one repository in the folder."""
        return self._base + name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)


if __name__ == "__main__":
    with GitHttpServer(Path(sys.argv[1])) as server:
        print(server.url(""), flush=True)
        signal.sigwait([signal.SIGTERM, signal.SIGINT])
