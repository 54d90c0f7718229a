"""Idempotency keys as rows: claimed in the transaction of the run they stand for (contract/http-api.md, Idempotency)."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, delete, insert, select

from service.domain.times import later
from service.store.database import Database, Transaction, compiled
from service.store.tables import idempotency_keys

LIFE_S: Final = 7 * 24 * 3600.0

_KEY: Final = (
    idempotency_keys.c.actor == bindparam("owner"),
    idempotency_keys.c.key_hash == bindparam("hash"),
)
_FIND: Final = compiled(
    select(idempotency_keys.c.run, idempotency_keys.c.call_digest).where(
        *_KEY, idempotency_keys.c.ends_at > bindparam("moment")
    )
)
_DROP: Final = compiled(delete(idempotency_keys).where(*_KEY))
_DROP_ENDED: Final = compiled(delete(idempotency_keys).where(idempotency_keys.c.ends_at <= bindparam("moment")))
_INSERT: Final = compiled(insert(idempotency_keys))


@dataclass(frozen=True, slots=True)
class Key:
    """A key of an actor and the call it came with: a keyed hash of each."""

    actor: str
    hash: bytes
    call_digest: bytes


class Taken(Exception):
    """Another call claimed the key first."""


def find(database: Database, actor: str, key_hash: bytes, moment: str) -> tuple[str, bytes] | None:
    """The run that a live key stands for, and the digest of the call that made it."""
    rows = database.fetch(_FIND, {"owner": actor, "hash": key_hash, "moment": moment})
    return (rows[0][0], bytes(rows[0][1])) if rows else None


def claim(transaction: Transaction, key: Key, run_id: str) -> None:
    """Make the key stand for this run. Raises Taken when it stands for another."""
    where = {"owner": key.actor, "hash": key.hash}
    if transaction.cursor.execute(_FIND, {**where, "moment": transaction.now}).fetchone() is not None:
        raise Taken
    transaction.cursor.execute(_DROP, where)
    ends_at = later(transaction.now, LIFE_S)
    transaction.cursor.execute(
        _INSERT,
        {"actor": key.actor, "key_hash": key.hash, "call_digest": key.call_digest, "run": run_id, "ends_at": ends_at},
    )


def release(transaction: Transaction, actor: str, key_hash: bytes) -> None:
    """Let the key stand for nothing again."""
    transaction.cursor.execute(_DROP, {"owner": actor, "hash": key_hash})


def drop_ended(transaction: Transaction) -> None:
    """Forget the keys whose time is over."""
    transaction.cursor.execute(_DROP_ENDED, {"moment": transaction.now})
