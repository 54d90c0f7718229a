"""One writer, many readers, on a SQLite whose commits are durable (design.md, Storage; facts/platform.md, SQLite).

`write` returns once its job's commit is on disk. Jobs that wait together share a commit; one connection writes, one thread
at a time.
A job that fails undoes only itself; a commit that fails fails every job in it, and nothing of it happened.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import pysqlite3.dbapi2 as sqlite
import structlog
from sqlalchemy import ClauseElement, Connection, insert
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from service.domain.audit import AuditEntry, Fact, seal
from service.domain.merkle import TiledLog
from service.domain.times import now
from service.errors import BitongError, CannotRecord, Message, Unavailable
from service.store import log as log_store
from service.store.sqlite import (
    BUSY_MS,
    READER_PRAGMAS,
    reader_engine,
    refuse_affected_sqlite,
    storage_failure,
    writer_engine,
)
from service.store.tables import log_entries, log_tiles

logger = structlog.get_logger(__name__)

T = TypeVar("T")
Reader = Connection  # what the store's functions read from; others hand it on and look no further

GROUP_LIMIT: Final = 256  # jobs in one commit
RESERVE_BYTES: Final = 4 * 1024 * 1024  # given up when the disk is full, so that what runs can still be recorded
HEADROOM_BYTES: Final = 1024 * 1024  # free beside the reserve before new work is taken again after a full disk
_EXIT_STORAGE: Final = 74  # EX_IOERR

_CANNOT_RECORD = Message(
    "无法写入记录，因此没有执行。请检查数据目录所在磁盘的空间与状态。",
    "The record could not be written, so nothing was done. Check the space and health of the disk that holds data_dir.",
)
_CANNOT_READ = Message(
    "数据库现在读不到。请检查数据目录所在磁盘的状态，并运行 bitong audit verify。",
    "The database cannot be read now. Check the health of the disk that holds data_dir, and run bitong audit verify.",
)
_CLOSED = Message("服务正在停止，不再写入。", "The service is stopping; nothing more is written.")


_DIALECT: Final = SQLiteDialect(paramstyle="named")


def compiled(statement: ClauseElement) -> str:
    """A statement's SQL, with named parameters, to run on a transaction's cursor.

    SQLAlchemy takes longer to hand one of these over than SQLite to run it, and each run needs seven.
    """
    return str(statement.compile(dialect=_DIALECT))


_INSERT_ENTRY: Final = compiled(insert(log_entries))


class Transaction:
    """What a job works with: the writer's connection, the one `now` of its commit, and the log."""

    def __init__(self, connection: Connection, log: TiledLog, moment: str) -> None:
        self.connection = connection
        self.cursor: sqlite.Cursor = (
            connection.connection.cursor()
        )  # for statements of every run, as `compiled` writes them
        self.now = moment
        self.log = log

    def append(self, fact: Fact) -> AuditEntry:
        """Append to the log in this transaction; the entry exists exactly if the transaction does."""
        return self.append_all([fact])[0]

    def append_all(self, facts: Sequence[Fact]) -> list[AuditEntry]:
        """Append in order, as `append` does, with one statement for all of them."""
        entries, rows, tiles = [], [], []
        for fact in facts:
            entry = seal(fact, self.log.size, self.now)
            self.log, completed = self.log.append(entry.leaf)
            entries.append(entry)
            rows.append(log_store.row(fact, entry))
            tiles += [{"level": tile.level, "idx": tile.index, "hash": tile.hash} for tile in completed]
        if len(rows) == 1:
            self.cursor.execute(_INSERT_ENTRY, rows[0])
        elif rows:
            self.cursor.executemany(_INSERT_ENTRY, rows)
        if tiles:
            self.connection.execute(insert(log_tiles), tiles)
        return entries


class _Job:
    """One unit of work and the promise of its result."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work = work
        self.future: Future[Any] = Future()


class Database:
    """The database in one data folder. Open it once a process; `close` waits for what was accepted.

    Raises Unavailable for a file that cannot be read and written.
    """

    def __init__(self, path: Path) -> None:
        refuse_affected_sqlite(sqlite.sqlite_version_info)
        self.path = path
        self._readers = reader_engine(path)
        self._own = threading.local()
        self._raw_readers: list[Any] = []
        self._writer_engine = writer_engine(path)
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._turn = threading.Lock()  # whoever holds it writes, through the one connection
        self._left_over = threading.Event()
        self._accepting = threading.Lock()
        self._closed = False
        self._full = threading.Event()
        self.refusing: Message | None = None  # why nothing new may run, where a setting's bound is reached
        self.held: Message | None = None  # why nothing is written but what is urgent, where the operator has to decide
        self._reserve = path.with_name("reserve")
        self._reserving = threading.Lock()
        with _readable():
            self._connection = self._writer_engine.connect()
            with self._connection.begin():
                self._log = log_store.load(self._connection)
                self._now = log_store.last_moment(self._connection)
        self._moment = self._now
        self._keep_reserve(RESERVE_BYTES)
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A reader's connection with one consistent view. Raises Unavailable when storage fails, never as if absent."""
        with _readable(), self._readers.connect() as connection, connection.begin():
            yield connection

    def fetch(self, sql: str, parameters: Mapping[str, Any]) -> list[Any]:
        """One statement's rows, on this thread's own connection: for what each call reads. `sql` as `compiled` writes it."""
        with _readable():
            if (connection := getattr(self._own, "connection", None)) is None:
                connection = self._own.connection = self._raw_reader()
            return cast("list[Any]", connection.execute(sql, parameters).fetchall())

    def _raw_reader(self) -> Any:
        connection = sqlite.connect(str(self.path), timeout=10.0, isolation_level=None, check_same_thread=False)
        for pragma in (*READER_PRAGMAS, "PRAGMA cache_size = -256"):
            connection.execute(pragma)
        self._raw_readers.append(connection)
        return connection

    def write(self, work: Callable[[Transaction], T], *, urgent: bool = False) -> T:
        """Run `work` in a transaction and wait until it is durable.

        Raises what `work` raises, with nothing written, or CannotRecord when storage refuses. While the disk is full only
        `urgent` work (a receipt of what has already run) is tried.
        """
        if self.held is not None and not urgent:
            raise CannotRecord(self.held)
        if self._full.is_set() and not urgent and not self._space_again():
            raise CannotRecord(_CANNOT_RECORD)
        job = _Job(work)
        with self._accepting:
            if self._closed:
                raise CannotRecord(_CLOSED)
            self._jobs.put(job)
        if self._turn.acquire(blocking=False):
            # Nobody writes now, so this thread does it for all who wait: two hops between threads less for each run.
            try:
                self._commit(self._next_batch())
            finally:
                self._turn.release()
        if not self._jobs.empty():
            self._left_over.set()
        return cast("T", job.future.result())

    def moment(self) -> str:
        """Now, or the latest moment known where the clock was set back: what has expired stays expired (cases.md R18)."""
        self._moment = max(self._moment, self._now, now())
        return self._moment

    @property
    def full(self) -> bool:
        """Whether writes are refused until the disk has room again."""
        return self._full.is_set()

    @property
    def log(self) -> TiledLog:
        """The log as last committed."""
        return self._log

    def close(self) -> None:
        """Finish what was accepted, fold the write-ahead log in, and let go of the file."""
        with self._accepting:
            self._closed = True
            self._left_over.set()
        self._thread.join()
        self._connection.close()
        self._writer_engine.dispose()
        self._readers.dispose()
        for reader in self._raw_readers:
            reader.close()

    def bytes(self) -> int:
        """Size on disk of the database and its write-ahead log."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def used_bytes(self) -> int:
        """Bytes of the pages in use: what was purged leaves its pages to be used again, so the file does not shrink."""
        with self.read() as connection:
            pages, free, size = (
                connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)

    def fold(self) -> bool:
        """Write the write-ahead log into the database and empty it; False while a reader still holds an older view.

        Waits for no reader, since all writers would wait with it. What was purged is gone from the disk after this.
        """
        with self._turn, _readable():
            raw = self._connection.connection.driver_connection
            assert raw is not None
            raw.execute("PRAGMA busy_timeout = 0")
            try:
                (busy, *_) = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                raw.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        return bool(busy == 0)

    # Writing, by one thread at a time: one of those that ask, or for what came meanwhile the writer's own.

    def _work(self) -> None:
        while True:
            self._left_over.wait()
            self._left_over.clear()
            with self._turn:
                self._commit(self._next_batch())
            if not self._jobs.empty():
                self._left_over.set()
            elif self._closed:
                return

    def _next_batch(self) -> list[_Job]:
        batch: list[_Job] = []
        while len(batch) < GROUP_LIMIT:
            try:
                batch.append(self._jobs.get_nowait())
            except queue.Empty:
                break
        return batch

    def _commit(self, batch: Sequence[_Job]) -> None:
        if not batch:
            return
        results: list[tuple[_Job, Any, BaseException | None]] = []
        try:
            with self._connection.begin():
                self._now = max(self._now, now())  # a clock set back never puts a later commit before an earlier one
                transaction = Transaction(self._connection, self._log, self._now)
                alone = len(batch) == 1
                results += [(job, *_attempt(job, transaction, alone=alone)) for job in batch]
                if alone and results[0][2] is not None:
                    raise _Undone
        except _Undone:
            pass
        except BaseException as failure:  # noqa: BLE001 - whatever it is, nobody may be told that it was written
            self._refuse(batch, failure)
            return
        else:
            self._log = transaction.log
        for job, result, error in results:
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)

    def _refuse(self, batch: Sequence[_Job], failure: BaseException) -> None:
        kind = storage_failure(failure)
        logger.error("commit failed", error=type(failure).__name__, kind=kind, jobs=len(batch))
        if kind == "full":
            self._full.set()
            self._reserve.unlink(missing_ok=True)
        for job in batch:
            if isinstance(failure, BitongError):
                job.future.set_exception(failure)
            else:
                error = CannotRecord(_CANNOT_RECORD)
                error.__cause__ = failure
                job.future.set_exception(error)
        if kind == "broken":
            # After a failed fsync the kernel may have dropped the pages: only a fresh start knows what is on disk.
            os._exit(_EXIT_STORAGE)

    # The reserve: a file whose blocks are handed back when the disk is full.

    def _keep_reserve(self, needed: int) -> None:
        """Lay the reserve where the disk has `needed` bytes; afterwards it is there whole or not at all."""
        if self._reserve.exists() and self._reserve.stat().st_size == RESERVE_BYTES:
            return
        try:
            descriptor = os.open(self._reserve, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, needed)  # not free space as counted: quotas count too
                os.ftruncate(descriptor, RESERVE_BYTES)
            finally:
                os.close(descriptor)
        except OSError:
            self._reserve.unlink(missing_ok=True)

    def _space_again(self) -> bool:
        """Whether the reserve can be laid again with room beside it: a policy, since a small insert may succeed by luck.

        Looks before it takes, or each refused call would for a moment take the space that a receipt needs.
        """
        with self._reserving:
            disk = os.statvfs(self.path.parent)
            needed = RESERVE_BYTES + HEADROOM_BYTES
            if disk.f_bavail * disk.f_frsize < needed:
                return False
            self._keep_reserve(needed)
            if self._reserve.exists():
                self._full.clear()
                return True
            return False


class _Undone(Exception):
    """The only job of a transaction failed."""


@contextmanager
def _readable() -> Iterator[None]:
    """A fault of the storage is Unavailable: a failure of ours, which says nothing about what was asked for."""
    try:
        yield
    except (sqlite.Error, DBAPIError, PoolTimeoutError) as failure:
        if not isinstance(failure, PoolTimeoutError) and storage_failure(failure) is None:
            raise
        raise _unreadable(failure) from failure


def _unreadable(failure: BaseException) -> Unavailable:
    # Without a traceback: to show one may need a descriptor, and that none is left may be what went wrong (R5).
    logger.error("read failed", error=type(failure).__name__, kind=storage_failure(failure))
    return Unavailable(_CANNOT_READ)


def _attempt(job: _Job, transaction: Transaction, *, alone: bool) -> tuple[Any, BaseException | None]:
    if alone:
        try:
            return job.work(transaction), None
        except BaseException as error:
            if storage_failure(error):
                raise
            return None, error
    before = transaction.log
    savepoint = transaction.connection.begin_nested()
    try:
        result = job.work(transaction)
    except BaseException as error:
        if storage_failure(error):
            raise
        savepoint.rollback()
        transaction.log = before
        return None, error
    savepoint.commit()
    return result, None
