"""Checkpoints as rows, and the keys that the log names (contract/audit.md, Checkpoints)."""

import json
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from service.domain.notes import Checkpoint, VerifierKey, read_checkpoint, read_key
from service.store.database import Transaction
from service.store.proofs import entries_of
from service.store.tables import anchors, checkpoints

KEPT: Final = 4096  # of the newest; older ones go unless they were anchored, since any can be proved from a newer one


def newest(connection: Connection) -> tuple[Checkpoint, str] | None:
    """The newest row's tree head and its note. Raises ValueError for a row that holds no note."""
    statement = select(checkpoints.c.note).order_by(checkpoints.c.size.desc()).limit(1)
    note = connection.execute(statement).scalar()
    return None if note is None else (read_checkpoint(note.decode()), note.decode())


def add(transaction: Transaction, checkpoint: Checkpoint, moment: str, note: str) -> None:
    """Write one; `moment` is the time of the last entry that it covers. The oldest beyond `KEPT` go."""
    row = {"size": checkpoint.size, "root": checkpoint.root, "at": moment, "note": note.encode()}
    transaction.connection.execute(insert(checkpoints), row)
    oldest = select(checkpoints.c.size).order_by(checkpoints.c.size.desc()).limit(1).offset(KEPT).scalar_subquery()
    transaction.connection.execute(
        delete(checkpoints).where(checkpoints.c.size <= oldest, checkpoints.c.size.not_in(select(anchors.c.size)))
    )


def keys(connection: Connection) -> list[VerifierKey]:
    """The keys that the log names, oldest first; the last one is in use."""
    entries = entries_of(connection, ("key.created", "key.rotated"))
    return [read_key(json.loads(entry.content)["facts"]["key"]) for entry in entries]


def origin(connection: Connection) -> str:
    """The log's name, said once by its first entry."""
    (first,) = entries_of(connection, ("log.opened",))
    return str(json.loads(first.content)["facts"]["origin"])
