"""What processes use: CPU seconds, resident and proportional memory, and who is whose child; read from /proc."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> tuple[float, float]:
    """CPU seconds of a process itself, and of its children that have ended, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return own / _TICKS, ended / _TICKS


def rss(pid: int, field: str = "VmRSS") -> int:
    """Bytes a process holds now (VmRSS) or held at most (VmHWM); 0 when it is gone."""
    return _kilobytes(Path(f"/proc/{pid}/status"), field)


def pss(pid: int) -> int | None:
    """Bytes a process holds, what is shared divided among those who share it; None where that may not be read."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss") or None


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text(encoding="ascii").split()):
                found += [child, *descendants(child)]
    return found


class Peaks:
    """Watches a process and all below it while this is entered: the most each side held at one moment, in bytes."""

    def __init__(self, pid: int, every_s: float = 0.01) -> None:
        self.own = 0
        self.below = 0
        self._pid = pid
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(self._every_s):
            self.own = max(self.own, rss(self._pid))
            self.below = max(self.below, sum(map(rss, descendants(self._pid))))


def _kilobytes(file: Path, field: str) -> int:
    with suppress(OSError):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0
