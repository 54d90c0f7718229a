"""A whole copy of the database while it is in use (contract/cli.md, `bitong backup`; cases.md S8, S14)."""

import os
from pathlib import Path
from typing import Final

import pysqlite3.dbapi2 as sqlite

from service.errors import Message, Unavailable
from service.store.sqlite import BUSY_MS, storage_failure

PART: Final = "backup-"  # how copies in the making are called, in the data folder
SPARE_BYTES: Final = 16 * 1024 * 1024  # that a copy leaves free for what the service writes

_NO_ROOM: Final = Message("磁盘空间不足，没有备份。", "The disk has no room for a backup; none was made.")
_FAILED: Final = Message(
    "数据库读不全，没有备份。请运行 bitong audit verify。",
    "The database could not be read to its end; no backup was made. Run bitong audit verify.",
)


def snapshot(database: Path, target: Path) -> None:
    """Copy the database as one moment has it into `target`, a new file of its own (0600), durable.

    VACUUM INTO: no page of what was deleted comes along. It reads one view as long as it takes, so the write-ahead log grows
    by what is written meanwhile. Raises Unavailable, with nothing left behind.
    """
    disk = os.statvfs(target.parent)
    if disk.f_bavail * disk.f_frsize < database.stat().st_size + SPARE_BYTES:
        raise Unavailable(_NO_ROOM)
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise Unavailable(Message(f"无法写入 {target}：{why}", f"Cannot write {target}: {why}")) from None
    try:
        connection = sqlite.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_MS / 1000)
        try:
            connection.isolation_level = None
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("VACUUM INTO ?", (str(target),))
        finally:
            connection.close()
        _settle(target)
    except (sqlite.Error, OSError) as error:
        target.unlink(missing_ok=True)
        full = storage_failure(error) == "full" or isinstance(error, OSError)
        raise Unavailable(_NO_ROOM if full else _FAILED) from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def forget_parts(folder: Path) -> None:
    """Remove copies that a crash left half made."""
    for part in folder.glob(f"{PART}*"):
        part.unlink(missing_ok=True)


def _settle(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
