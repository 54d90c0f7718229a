"""Verifying the database in use: the same verifier as `bitong audit verify`, in a process of its own, one at a time."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from service.domain.notes import VerifierKey
from service.errors import Busy, Message, Unavailable

LIMIT_S: Final = 600.0  # ten minutes: more entries than one service's disk is likely to hold
_RETRY_S: Final = 10

_RUNS: Final = Message("正在核对，请稍后再试。", "The log is being verified already; try again later.")
_FAILED: Final = Message(
    "没有核对完。请在这台主机上运行 bitong audit verify。",
    "It was not verified to its end. Run bitong audit verify on this host.",
)


class Verification:
    """Runs the verifier on the database at `path`, against the log's own keys."""

    def __init__(self, path: Path, keys: Callable[[], Sequence[VerifierKey]]) -> None:
        self._path = path
        self._keys = keys
        self._turn = threading.Lock()

    def run(self) -> dict[str, Any]:
        """The report as `bitong audit verify --json` prints it. Raises Busy while another runs, Unavailable past ten minutes.

        It holds one view of the database meanwhile, so the write-ahead log grows by what is written in that time.
        """
        if not self._turn.acquire(blocking=False):
            raise Busy(_RUNS, facts={"retry_after_s": _RETRY_S})
        try:
            return self._report()
        finally:
            self._turn.release()

    def _report(self) -> dict[str, Any]:
        keys = [part for key in self._keys() for part in ("--key", str(key))]
        command = [sys.executable, "-m", "service.verify", "--json", *keys, "--", str(self._path)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
            report = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, OSError, ValueError) as error:
            raise Unavailable(_FAILED) from error
        if "size" not in report:  # a sentence, where the file could not be read
            raise Unavailable(Message(report["error"]["zh"], report["error"]["en"]))
        return dict(report)
