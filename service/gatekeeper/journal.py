"""Which runs were begun here and how they ended: at most one attempt for each run_id, across restarts.

An append-only file of JSON lines: `{run_id, digest, at}` before anything happens, flushed to the disk where it has
effects, and `{run_id, ending}` after. In memory stands where an ending lies, not the ending.
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from service.errors import CannotRecord, Message, UsageError
from service.gatekeeper.answers import Answer, json_bytes, without_output

# An ending larger than this is kept without its output.
ENDING_BYTES: Final = 256 * 1024
# The file is written anew, without what is old, when it has grown to this, or to twice what was left the last time.
FILE_BYTES: Final = 64 * 1024 * 1024
# Of that much, endings may stay: else a rewrite would leave a file that is due for the next one.
KEEP_PART: Final = 4
KEEP_RUNS_S: Final = 7 * 24 * 3600
KEEP_RUNS: Final = 50_000
KEEP_ENDINGS: Final = 1_000


@dataclass(slots=True)
class _Entry:
    """One run. `ending`: where the line of its ending lies, as (offset, length)."""

    digest: str
    at: float
    state: str
    ending: tuple[int, int] | None = None


class Journal:
    """One folder's journal, for one gatekeeper at a time. Safe from any thread."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        """Raises UsageError where another gatekeeper uses this folder."""
        self._path = folder / "runs.jsonl"
        self._clock = clock
        self._lock = threading.Lock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._guard = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                Message(f"{folder} 不能用：{error.strerror}", f"{folder} cannot be used: {error.strerror}")
            ) from error
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._guard)
            raise UsageError(
                Message(f"{folder} 正被另一个网关使用", f"{folder} is in use by another gatekeeper")
            ) from None
        self._full_at = FILE_BYTES
        self._file = self._open()
        self._runs = dict(self._read())
        self._write_anew()

    def close(self) -> None:
        """Flush, and let another one have the folder."""
        with self._lock:
            os.fsync(self._file)
            os.close(self._file)
            os.close(self._guard)

    def claim(self, run_id: str, digest: str, *, durable: bool) -> tuple[str, Answer | None]:
        """Begin this run, if it was not begun before: ("new", None).

        Else "running", "interrupted" (begun before a restart, end unknown), "other" (the id stands for another call) or
        "ended", with its ending where that is kept. `durable`: on the disk before this returns. Raises
        CannotRecord; then it must not run.
        """
        with self._lock:
            entry = self._runs.get(run_id)
            if entry is not None:
                # A run that was cancelled before it arrived has no digest: it never was another call.
                if entry.digest and digest and entry.digest != digest:
                    return "other", None
                return entry.state, self._ending(entry)
            at = self._clock()
            self._runs[run_id] = _Entry(digest, at, "running")
            try:
                self._append({"run_id": run_id, "digest": digest, "at": at})
            except OSError as error:
                raise self._not_begun(run_id, error) from error
            # A descriptor of its own: the flush is not under the lock, and the file may be written anew meanwhile.
            file = os.dup(self._file)
        try:
            if durable:
                os.fdatasync(file)
        except OSError as error:
            raise self._not_begun(run_id, error) from error
        finally:
            os.close(file)
        return "new", None

    def end(self, run_id: str, ending: Answer) -> None:
        """How it ended. Not flushed: lost with the power, it reads as interrupted, which is true enough."""
        if len(json_bytes(ending)) > ENDING_BYTES:
            ending = without_output(ending)
        with self._lock:
            entry = self._runs[run_id]
            entry.state = "ended"
            try:
                entry.ending = self._append({"run_id": run_id, "ending": ending})
                if entry.ending[0] > self._full_at:
                    self._write_anew()
            except OSError:
                entry.ending = None

    def look(self, run_id: str) -> tuple[str, Answer | None]:
        """("running" | "ended" | "interrupted" | "unknown", its ending)."""
        with self._lock:
            entry = self._runs.get(run_id)
            return ("unknown", None) if entry is None else (entry.state, self._ending(entry))

    def _not_begun(self, run_id: str, error: OSError) -> CannotRecord:
        self._runs[run_id].state = "interrupted"
        return CannotRecord(
            Message(f"记不下这次运行，没有执行：{error.strerror}", f"cannot record the run, not run: {error.strerror}")
        )

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _append(self, line: dict[str, Any]) -> tuple[int, int]:
        """Where the line lies. A line that was cut by a crash stays one that does not parse: a new one follows it."""
        data = json_bytes(line) + b"\n"
        offset = os.lseek(self._file, 0, os.SEEK_END)
        written = os.write(self._file, data)
        if written != len(data):
            os.write(self._file, b"\n")
            raise OSError(28, "No space left on device")
        return offset, len(data)

    def _ending(self, entry: _Entry) -> Answer | None:
        if entry.ending is None:
            return None
        offset, length = entry.ending
        ending = json.loads(os.pread(self._file, length, offset))["ending"]
        return ending if isinstance(ending, dict) else None

    def _read(self) -> Iterator[tuple[str, _Entry]]:
        """The runs the file holds, oldest first; those without an ending were interrupted."""
        runs: dict[str, _Entry] = {}
        offset = 0
        with self._path.open("rb") as lines:
            for line in lines:
                self._take(runs, line, offset)
                offset += len(line)
        if offset and not line.endswith(b"\n"):
            os.write(self._file, b"\n")
        yield from runs.items()

    def _take(self, runs: dict[str, _Entry], line: bytes, offset: int) -> None:
        try:
            document = json.loads(line)
            if "ending" not in document:
                runs[document["run_id"]] = _Entry(document["digest"], document["at"], "interrupted")
            elif entry := runs.get(document["run_id"]):
                entry.state, entry.ending = "ended", (offset, len(line))
                if document["ending"] is None:
                    entry.ending = None
        except (ValueError, KeyError, TypeError):
            return

    def _newest_endings(self, runs: list[tuple[str, _Entry]]) -> set[str]:
        """The runs whose endings stay: the newest, within number and bytes."""
        kept: set[str] = set()
        left = FILE_BYTES // KEEP_PART
        for run_id, entry in reversed(runs[-KEEP_ENDINGS:]):
            if entry.ending is not None and (left := left - entry.ending[1]) >= 0:
                kept.add(run_id)
        return kept

    def _write_anew(self) -> None:
        """Without what is old: runs after a week or 50,000 newer ones, endings after 1,000 or 16 MiB newer ones."""
        oldest = self._clock() - KEEP_RUNS_S
        newest = list(self._runs.items())[-KEEP_RUNS:]
        runs = [(run_id, entry) for run_id, entry in newest if entry.at >= oldest or entry.state == "running"]
        with_ending = self._newest_endings(runs)
        fresh = self._path.with_suffix(".new")
        places: dict[str, tuple[int, int]] = {}
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            for run_id, entry in runs:
                file.write(json_bytes({"run_id": run_id, "digest": entry.digest, "at": entry.at}) + b"\n")
                if entry.state == "ended":
                    ending = self._ending(entry) if run_id in with_ending else None
                    line = json_bytes({"run_id": run_id, "ending": ending}) + b"\n"
                    if ending is not None:
                        places[run_id] = (file.tell(), len(line))
                    file.write(line)
            file.flush()
            os.fsync(file.fileno())
            self._full_at = max(FILE_BYTES, 2 * file.tell())
        fresh.replace(self._path)
        old, self._file = self._file, self._open()
        os.close(old)
        for run_id, entry in runs:
            entry.ending = places.get(run_id)
        self._runs = dict(runs)
