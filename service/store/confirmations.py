"""Confirmations as rows: asked, answered, and the lists of those who ask and those who answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, null, or_, select, update

from service.domain.audit import Fact
from service.domain.confirmations import Confirmation, OpenQuestion
from service.store.database import Transaction
from service.store.tables import confirmations, tools

_COLUMNS: Final = confirmations.columns
_OPEN: Final = select(
    _COLUMNS.id, _COLUMNS.actor, _COLUMNS.tool, _COLUMNS.expires_at, _COLUMNS.params.is_(None).label("in_memory")
)
_LISTED: Final = select(*(column for column in _COLUMNS if column.name != "params"), null().label("params"))


def ask(transaction: Transaction, asked: Confirmation) -> None:
    """Write the question and its entry."""
    facts = _facts(asked) | {"answerer": None, "self": None}
    entry = transaction.append(Fact("confirmation.requested", asked.actor, facts))
    transaction.connection.execute(
        insert(confirmations).values(
            id=asked.id,
            state=asked.state,
            run=asked.run,
            tool=asked.tool,
            version_id=asked.version_id,
            version=asked.version,
            commit_id=bytes.fromhex(asked.commit),
            sha256=bytes.fromhex(asked.sha256),
            params_digest=bytes.fromhex(asked.params_digest),
            params=None if asked.params is None else _json(asked.params),
            preview=_json(asked.preview).decode(),
            timeout_ms=asked.timeout_ms,
            actor=asked.actor,
            asked_at=asked.asked_at,
            expires_at=asked.expires_at,
            ask_index=entry.index,
        )
    )


def answer(transaction: Transaction, asked: Confirmation, state: str, by: str, reason: str | None) -> None:
    """Write how it ended, with its entry; `by` is a person's or token's actor, or the service's own."""
    answerer = by if state in ("approved", "rejected") else None
    itself = None if answerer is None else answerer == asked.actor
    facts = _facts(asked) | {"answerer": answerer, "self": itself}
    entry = transaction.append(Fact(f"confirmation.{state}", by, facts))
    transaction.connection.execute(
        update(confirmations)
        .where(_COLUMNS.id == asked.id)
        .values(
            state=state,
            answered_by=answerer,
            answered_at=transaction.now,
            reason=reason,
            params=None,
            answer_index=entry.index,
        )
    )


def confirmation(connection: Connection, confirmation_id: str) -> Confirmation | None:
    """One, by its id."""
    row = connection.execute(select(confirmations).where(_COLUMNS.id == confirmation_id)).first()
    return None if row is None else _confirmation(row)


def waiting_of(connection: Connection, actor: str) -> int:
    """How many of this actor's questions wait."""
    where = (_COLUMNS.actor == actor, _COLUMNS.state == "waiting")
    return int(connection.execute(select(func.count()).select_from(confirmations).where(*where)).scalar() or 0)


def of_run(connection: Connection, run_id: str) -> Confirmation | None:
    """The one that a run waits for, or waited for."""
    row = connection.execute(select(confirmations).where(_COLUMNS.run == run_id)).first()
    return None if row is None else _confirmation(row)


def waiting(connection: Connection) -> list[OpenQuestion]:
    """All that wait, oldest first; without their parameters, which may be megabytes."""
    return [_open(row) for row in connection.execute(_OPEN.where(_COLUMNS.state == "waiting").order_by(_COLUMNS.seq))]


def left_behind(connection: Connection) -> set[str]:
    """The ids of those that wait for a version which is no longer the active one of its tool."""
    stands = and_(tools.c.name == _COLUMNS.tool, tools.c.version_id == _COLUMNS.version_id, tools.c.state == "active")
    rows = connection.execute(
        select(_COLUMNS.id).outerjoin(tools, stands).where(_COLUMNS.state == "waiting", tools.c.name.is_(None))
    )
    return {row.id for row in rows}


def listed(
    connection: Connection,
    *,
    asker: str | None,
    patterns: Sequence[str] | None,
    state: str | None,
    before: int | None,
    limit: int,
) -> list[tuple[int, Confirmation]]:
    """Newest first, each with its place, without `params`; `asker`: only that actor's; `patterns`: only of these tools."""
    where: list[ColumnElement[bool]] = []
    if asker is not None:
        where.append(_COLUMNS.actor == asker)
    if patterns is not None:
        where.append(or_(*(_COLUMNS.tool.op("GLOB")(pattern) for pattern in patterns)))
    if state is not None:
        where.append(_COLUMNS.state == state)
    if before is not None:
        where.append(_COLUMNS.seq < before)
    rows = connection.execute(_LISTED.where(*where).order_by(_COLUMNS.seq.desc()).limit(limit))
    return [(row.seq, _confirmation(row)) for row in rows]


def _facts(asked: Confirmation) -> dict[str, Any]:
    """As contract/audit.md names them."""
    return {
        "confirmation": asked.id,
        "run": asked.run,
        "tool": asked.tool,
        "version": asked.version,
        "params_digest": asked.params_digest,
        "asker": asked.actor,
    }


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace")


def _open(row: Row[Any]) -> OpenQuestion:
    return OpenQuestion(row.id, row.actor, row.tool, row.expires_at, bool(row.in_memory))


def _confirmation(row: Any) -> Confirmation:
    return Confirmation(
        id=row.id,
        state=row.state,
        run=row.run,
        tool=row.tool,
        version_id=row.version_id,
        version=row.version,
        commit=row.commit_id.hex(),
        sha256=row.sha256.hex(),
        params_digest=row.params_digest.hex(),
        preview=json.loads(row.preview),
        params=None if row.params is None else json.loads(row.params),
        timeout_ms=row.timeout_ms,
        actor=row.actor,
        asked_at=row.asked_at,
        expires_at=row.expires_at,
        answered_by=row.answered_by,
        answered_at=row.answered_at,
        reason=row.reason,
    )
