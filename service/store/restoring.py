"""Putting a backup in the database's place, and what has to be said before anything is appended to it (contract/audit.md).

A log that is shorter than the newest checkpoint known is another past: whoever holds that checkpoint will see it. So such a
database is not opened for writing until the operator acknowledged it, which writes `log.restored`.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pysqlite3.dbapi2 as sqlite
from sqlalchemy import delete

from service.domain.actors import OPERATOR
from service.domain.audit import SYSTEM, Fact
from service.domain.confirmations import REFUSED_BY, Confirmation
from service.domain.merkle import TiledLog
from service.domain.notes import Checkpoint, read_checkpoint
from service.domain.times import now
from service.errors import BitongError, Message, Unavailable, UsageError
from service.store import confirmations, log, proofs, run_steps, runs
from service.store.backup import snapshot
from service.store.checkpointing import NOTE_FILE
from service.store.database import Database, Transaction
from service.store.folder import DataFolder
from service.store.migrations import known_revisions, revision
from service.store.run_steps import Asked, Waiting
from service.store.sqlite import reader_engine
from service.store.tables import idempotency_keys, sign_in_links

MARK: Final = "restored"  # a file in the data folder: a backup stands here that nobody acknowledged yet
_PARTS: Final = ("bitong.db", "bitong.db-wal", "bitong.db-shm")
_COMING: Final = ".restoring"

_UNACKNOWLEDGED: Final = Message(
    "这里恢复了一份备份，日志可能比已知的短；确认之前什么都不写入。请运行 bitong restore --acknowledge。",
    "A backup was restored here whose log may be shorter than what was known; nothing is written before you acknowledge it:"
    " bitong restore --acknowledge.",
)
_DROPPED: Final = Message(
    "恢复了一份备份，等待中的确认都已作废，没有执行；请重新请求。",
    "A backup was restored, which ends all waiting confirmations; it did not run. Ask again.",
)


@dataclass(frozen=True, slots=True)
class Head:
    """How long a log is, and its root."""

    size: int
    root: bytes

    def as_json(self) -> dict[str, Any]:
        """`{size, root}`."""
        return {"size": self.size, "root": self.root.hex()}


@dataclass(frozen=True, slots=True)
class Placed:
    """What `place` did. `known`: the newest head known before; `aside`: where the old database is; `whole`: it extends it."""

    size: int
    known: Head | None
    aside: Path | None
    whole: bool


def refuse_unacknowledged(folder: DataFolder, database: Database) -> None:
    """Raise Unavailable where a backup was put here, by command or by hand, and nobody has acknowledged it."""
    if (folder.path / MARK).exists():
        raise Unavailable(_UNACKNOWLEDGED, code="not-acknowledged")
    known = _noted(folder.path)
    if known is not None and known.size > database.log.size:
        raise Unavailable(
            Message(
                f"日志只有 {database.log.size} 条，而最新的检查点有 {known.size} 条：这是一份旧备份？确认之前什么都不写入。"
                "请放回新的数据库，或运行 bitong restore --acknowledge。",
                f"The log has {database.log.size} entries, the newest checkpoint {known.size}: is this an older backup? Nothing"
                " is written before you acknowledge it. Put the newer database back, or run bitong restore --acknowledge.",
            ),
            code="not-acknowledged",
        )


def hold(folder: DataFolder, database: Database, known: Checkpoint) -> None:
    """An anchor turned out to be of a longer log: nothing is appended from now on but what ends runs, until acknowledged."""
    said = {"at": now(), "size": database.log.size, "known": Head(known.size, known.root).as_json()}
    folder.write(MARK, json.dumps(said).encode())
    database.held = _UNACKNOWLEDGED


def place(folder: DataFolder, source: Path) -> Placed:
    """Put a copy of `source` in the database's place; the folder is locked by the caller. The old one is kept aside.

    Safe to stop anywhere: once the mark is laid, nothing opens the folder for writing before a restore ended and was
    acknowledged. Raises UsageError for what is no backup of this or an older version.
    """
    coming = folder.path / _COMING
    coming.unlink(missing_ok=True)
    _check(source)
    snapshot(source, coming)
    try:
        tree = _tree(coming)
        known = max(
            (head for head in _known(folder.path) if head is not None), key=lambda head: head.size, default=None
        )
        whole = known is not None and _extends(coming, tree, known)
        said = {"at": now(), "size": tree.size, "known": None if known is None else known.as_json()}
        folder.write(MARK, json.dumps(said).encode())
    except BaseException:
        coming.unlink(missing_ok=True)
        raise
    aside = _set_aside(folder.path)
    coming.rename(folder.path / _PARTS[0])
    _settle(folder.path)
    if whole:
        (folder.path / MARK).unlink()
    return Placed(tree.size, known, aside, whole)


def acknowledge(folder: DataFolder, database: Database) -> None:
    """Write `log.restored`, and end what was bound to the other past: sign-in links, waiting confirmations, keys.

    Sessions and tokens are the caller's to end; `settle` comes last. Raises UsageError where there is nothing to acknowledge.
    """
    known = _told(folder.path)
    size = database.log.size
    if not (folder.path / MARK).exists() and (known is None or known.size <= size):
        raise UsageError(Message("没有需要确认的恢复。", "There is no restore to acknowledge."))
    if size == 0:
        raise UsageError(
            Message(
                "日志是空的：请先恢复一份备份（bitong restore FILE），或移走文件 checkpoint 以开始新的日志。",
                "The log is empty: restore a backup first, or move the file checkpoint away to begin a new log.",
            )
        )
    facts: dict[str, Any] = {"size": size, "known_size": None, "known_root": None}
    if known is not None:
        facts |= {"known_size": known.size, "known_root": known.root.hex()}

    def work(transaction: Transaction) -> None:
        transaction.append(Fact("log.restored", OPERATOR.name, facts))
        transaction.connection.execute(delete(sign_in_links))
        transaction.connection.execute(delete(idempotency_keys))
        for question in confirmations.waiting(transaction.connection):
            _drop(transaction, confirmations.confirmation(transaction.connection, question.id))

    database.write(work)


def settle(folder: DataFolder) -> None:
    """All was acknowledged: the checkpoint of the other past goes aside, and the folder opens again."""
    note = folder.path / NOTE_FILE
    if note.exists():
        note.rename(folder.path / f"{NOTE_FILE}.before-restore-{_stamp()}")
    (folder.path / MARK).unlink(missing_ok=True)
    _settle(folder.path)


def _drop(transaction: Transaction, asked: Confirmation | None) -> None:
    assert asked is not None
    confirmations.answer(transaction, asked, "dropped", SYSTEM, "restored")
    run = runs.run(transaction.connection, asked.run)
    assert run is not None
    commitment = runs.commitment(transaction.connection, run.seq)
    assert commitment is not None
    stood = Asked(run.id, run.version, run.actor, commitment, run.match_id, run.confirmation_id, run.key_hash)
    place = Waiting(run.seq, run.created_at)
    run_steps.refuse(transaction, stood, code=REFUSED_BY["dropped"], message=_DROPPED, problems=[], waiting=place)


# What is known of how long the log was.


def _known(folder: Path) -> list[Head | None]:
    return [_noted(folder), _told(folder), _here(folder)]


def _noted(folder: Path) -> Head | None:
    """The newest checkpoint's file."""
    try:
        head = read_checkpoint((folder / NOTE_FILE).read_text())
    except (OSError, ValueError):
        return None
    return Head(head.size, head.root)


def _told(folder: Path) -> Head | None:
    """What the restore before wrote down, which was not acknowledged; else the checkpoint's file."""
    try:
        known = json.loads((folder / MARK).read_bytes())["known"]
        return Head(int(known["size"]), bytes.fromhex(known["root"]))
    except (OSError, ValueError, KeyError, TypeError):
        return _noted(folder)


def _here(folder: Path) -> Head | None:
    """The database that is to be replaced, where it can still be read."""
    file = folder / _PARTS[0]
    if not file.exists():
        return None
    try:
        tree = _tree(file)
    except (BitongError, sqlite.Error):
        return None
    return Head(tree.size, tree.root()) if tree.size else None


# Files.


def _check(source: Path) -> None:
    if not source.is_file():
        raise UsageError(Message(f"没有这个文件：{source}", f"There is no such file: {source}"))
    try:
        found = revision(source)
    except sqlite.Error:
        found = None
    if found not in known_revisions():
        raise UsageError(
            Message(
                f"{source} 不是本版本或更旧版本的备份。", f"{source} is no backup made by this version or an older one."
            )
        )


def _tree(file: Path) -> TiledLog:
    engine = reader_engine(file)
    try:
        with engine.connect() as connection, connection.begin():
            return log.load(connection)
    except Exception as error:
        raise Unavailable(
            Message(f"读不到 {file.name} 里的日志。", f"The log in {file.name} cannot be read.")
        ) from error
    finally:
        engine.dispose()


def _extends(file: Path, tree: TiledLog, known: Head) -> bool:
    if known.size > tree.size:
        return False
    engine = reader_engine(file)
    try:
        with engine.connect() as connection, connection.begin():
            return proofs.tree_at(connection, known.size).root() == known.root
    except proofs.Differs:
        return False
    finally:
        engine.dispose()


def _set_aside(folder: Path) -> Path | None:
    """Move the database that is here away, the log beside it first of all not left to be taken for the new one's."""
    there = [folder / name for name in _PARTS if (folder / name).exists()]
    if not there:
        return None
    aside = folder / f"before-restore-{_stamp()}"
    aside.mkdir(mode=0o700)
    for file in there:
        file.rename(aside / file.name)
    _settle(folder)
    return aside


def _stamp() -> str:
    return now().replace(":", "").replace("-", "").replace(".", "")


def _settle(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
