"""Keeps the database within its settings: old output goes, new runs stop at the size's bound (contract/audit.md, Growth).

A background part: each minute it looks, and where something has to go it purges step by step, so that nobody waits for it.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from service.domain.audit import SYSTEM
from service.domain.runs import Run
from service.domain.times import rfc3339
from service.errors import BitongError, Message
from service.store import keys
from service.store.database import Database
from service.store.purging import Wanted, kept_bytes, oldest, step

logger = structlog.get_logger(__name__)

INTERVAL_S: Final = 60.0
PAUSE_S: Final = 0.05  # between two steps
COUNT_S: Final = 3600.0  # between two counts of all that is kept; what runs add meanwhile is told by `ran`
EASE: Final = 0.95  # of keep_output_bytes: what a purge by size leaves, so that it is not due again at once
DAY_S: Final = 86_400.0
FOLD_TRIES: Final = 20

_OVER: Final = Message(
    "数据库已超过 max_database_bytes，不再执行新的调用。请清除旧输出（bitong audit purge-output）或调高此设置。",
    "The database is over max_database_bytes; nothing new runs. Purge old output (bitong audit purge-output) or raise it.",
)


class Retention:
    """`keep_days`, `keep_bytes`: of output and parameters; `most_bytes`: of the database, None for no bound."""

    def __init__(self, database: Database, *, keep_days: int, keep_bytes: int, most_bytes: int | None) -> None:
        self._database = database
        self._keep_days = keep_days
        self._keep_bytes = keep_bytes
        self._most_bytes = most_bytes
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._kept = 0
        self._counted_at = -COUNT_S
        self._looked = False

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._work, name="retention", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the step that runs; to be called before the database closes."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def kept(self) -> int:
        """Bytes of output and parameters kept, as last counted and told since."""
        return self._kept

    def ran(self, run: Run) -> None:
        """A run ended: so many bytes more are kept."""
        if run.outcome is not None:
            self._add(len(run.outcome.stdout.kept) + len(run.outcome.stderr.kept))

    def _add(self, size: int) -> None:
        with self._lock:
            self._kept += size

    def look(self) -> int:
        """One look, to its end; how many runs it purged. Raises what storage raises."""
        self._database.write(keys.drop_ended)
        purged = self._by_age() + self._by_size()
        self._looked = not self._ending.is_set()
        if purged:
            self._fold()
            logger.info("output purged", runs=purged, kept_bytes=self._kept)
        self._watch_size()
        return purged

    def _work(self) -> None:
        while True:
            try:
                self.look()
            except BitongError as error:
                logger.warning("retention waits", why=error.message.en)
            except Exception as error:
                logger.exception("retention failed inside", error=type(error).__name__)
            if self._ending.wait(INTERVAL_S):
                return

    def _by_age(self) -> int:
        before = rfc3339(time.time() - self._keep_days * DAY_S)
        return self._purge(Wanted(ended_before=before), "keep_output_days", lambda: False)

    def _by_size(self) -> int:
        if time.monotonic() - self._counted_at >= COUNT_S:
            self._count()
        if self._kept <= self._keep_bytes:
            return 0
        enough = int(self._keep_bytes * EASE)
        purged = self._purge(Wanted(), "keep_output_bytes", lambda: self._kept <= enough)
        if self._kept > enough and not self._ending.is_set():
            self._count()  # all that could go has gone, so the count was wrong
        return purged

    def _purge(self, wanted: Wanted, why: str, enough: Callable[[], bool]) -> int:
        """Step by step, oldest first."""
        purged, after = 0, self._first()
        while not (enough() or self._ending.is_set()):
            done = step(self._database, wanted, actor=SYSTEM, why=why, after=after)
            self._add(-done.bytes)
            purged += done.runs
            if done.next is None:
                break
            after = done.next
            self._ending.wait(PAUSE_S if done.runs else PAUSE_S / 10)
        return purged

    def _first(self) -> int:
        """Where to begin: at the first look at the very first run, later where anything is left."""
        if not self._looked:
            return 0
        with self._database.read() as connection:
            return oldest(connection)

    def _count(self) -> None:
        total, after = 0, self._first()
        while not self._ending.is_set():
            with self._database.read() as connection:
                size, following = kept_bytes(connection, after)
            total += size
            if following is None:
                break
            after = following
            self._ending.wait(PAUSE_S / 10)
        self._counted_at = time.monotonic()
        with self._lock:
            self._kept = total

    def _fold(self) -> None:
        for _ in range(FOLD_TRIES):
            if self._database.fold() or self._ending.wait(PAUSE_S):
                return

    def _watch_size(self) -> None:
        over = self._most_bytes is not None and self._database.used_bytes() > self._most_bytes
        if over and self._database.refusing is None:
            logger.error("the database is over max_database_bytes: nothing new runs")
        self._database.refusing = _OVER if over else None
