"""SQLite as the store uses it: which versions, how a connection is set up, and whose fault an error is."""

from pathlib import Path
from typing import Any, Final

import pysqlite3.dbapi2 as sqlite
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool, QueuePool

from service.errors import Message, Unavailable

READERS: Final = 8
BUSY_MS: Final = 10_000  # that a statement waits for another process


def storage_failure(error: BaseException) -> str | None:
    """`full`, `broken` (I/O error, corrupt file), `refused` (read-only, locked), or None when storage is not at fault."""
    original = getattr(error, "orig", error)
    if not isinstance(original, sqlite.Error):
        return None
    name = getattr(original, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL") or "database or disk is full" in str(original):
        return "full"
    if name.startswith(("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return "broken"
    text = str(original)
    if "disk I/O error" in text or "malformed" in text:
        return "broken"
    if name.startswith(("SQLITE_READONLY", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN")) or "readonly" in text:
        return "refused"
    if "database is locked" in text:
        return "refused"
    return None


def refuse_affected_sqlite(version: tuple[int, ...]) -> None:
    """Raise Unavailable for a SQLite with the WAL-reset race (facts/platform.md): it can lose acknowledged commits."""
    fixed = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    if fixed or version < (3, 7):
        return
    text = ".".join(map(str, version))
    raise Unavailable(
        Message(
            f"SQLite {text} 有会丢失已确认写入的缺陷，拒绝启动。请安装带有 3.51.3 或更新版本的 pysqlite3。",
            f"SQLite {text} can lose acknowledged writes; refusing to start. Install a pysqlite3 that carries 3.51.3 or newer.",
        ),
        code="affected-sqlite",
    )


def writer_engine(path: Path) -> Engine:
    """An engine whose transactions write from their first statement on; one connection, made by whoever asks."""
    return _engine(path, begin="BEGIN IMMEDIATE", readers=False)


def reader_engine(path: Path) -> Engine:
    """An engine of readers: each transaction has one consistent view, and none can write."""
    return _engine(path, begin="BEGIN", readers=True)


def _engine(path: Path, *, begin: str, readers: bool) -> Engine:
    pool: dict[str, Any] = (
        {"poolclass": QueuePool, "pool_size": READERS, "max_overflow": 16} if readers else {"poolclass": NullPool}
    )
    engine = create_engine(
        f"sqlite:///{path}",
        module=sqlite,
        hide_parameters=True,  # an error's text goes to the log
        connect_args={"check_same_thread": False, "timeout": BUSY_MS / 1000, "cached_statements": 256},
        **pool,
    )
    pragmas = READER_PRAGMAS if readers else WRITER_PRAGMAS

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are ours to begin, DDL included
        for pragma in pragmas:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def open_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


WRITER_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA secure_delete = ON",
    "PRAGMA journal_size_limit = 67108864",
)
READER_PRAGMAS: Final = (
    "PRAGMA query_only = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cache_size = -1024",
)
