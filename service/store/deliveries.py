"""Deliveries: what the forge sent, each body once with a count."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from service.domain.deliveries import Delivery
from service.store.tables import deliveries

PUSHES_LOOKED_AT: Final = 500  # of the newest, when asking who pushed a commit


def keep(connection: Connection, delivery: Delivery, now: str) -> bool:
    """Keep a signed delivery. Answers whether its body is new; a repeat raises the count of its row."""
    same = deliveries.c.body_sha256 == bytes.fromhex(delivery.body_sha256)
    raised = connection.execute(update(deliveries).where(same).values(count=deliveries.c.count + 1, last_at=now))
    if raised.rowcount:
        return False
    connection.execute(
        insert(deliveries),
        {
            "id": delivery.id,
            "received_at": delivery.received_at,
            "last_at": now,
            "event": delivery.event,
            "ref": delivery.ref,
            "repository_id": delivery.repository_id,
            "repository": delivery.repository,
            "pusher": delivery.pusher,
            "before": delivery.before,
            "after": delivery.after,
            "body_sha256": bytes.fromhex(delivery.body_sha256),
            "signed_by": delivery.signed_by,
            "count": 1,
            "outcome": delivery.outcome,
            "reason": delivery.reason,
            "registered": "[]",
            "removed": "[]",
            "rejected": "[]",
        },
    )
    return True


def waiting(connection: Connection) -> list[tuple[int, Delivery]]:
    """(seq, delivery) of those that no look has covered yet, or only one that failed; oldest first."""
    where = or_(deliveries.c.outcome.is_(None), deliveries.c.outcome == "failed")
    rows = connection.execute(select(deliveries).where(where).order_by(deliveries.c.seq)).mappings()
    return [(row["seq"], _noun(row)) for row in rows]


def newest(connection: Connection) -> int:
    """The highest seq given so far; 0 when there is none."""
    return connection.execute(select(deliveries.c.seq).order_by(deliveries.c.seq.desc()).limit(1)).scalar() or 0


def settle(connection: Connection, outcomes: Mapping[int, Mapping[str, Any]]) -> None:
    """Write the result of the look that covered each: `{outcome, reason, registered, removed, rejected}` by seq."""
    rows = [
        {
            "row": seq,
            "to": result["outcome"],
            "why": result.get("reason"),
            "a": json.dumps(result.get("registered", []), ensure_ascii=False),
            "b": json.dumps(result.get("removed", []), ensure_ascii=False),
            "c": json.dumps(result.get("rejected", []), ensure_ascii=False),
        }
        for seq, result in outcomes.items()
    ]
    if rows:
        statement = (
            update(deliveries)
            .where(deliveries.c.seq == bindparam("row"))
            .values(
                outcome=bindparam("to"),
                reason=bindparam("why"),
                registered=bindparam("a"),
                removed=bindparam("b"),
                rejected=bindparam("c"),
            )
        )
        connection.execute(statement, rows)


def pushes(
    connection: Connection, *, ref: str, repository_id: int | None, waiting_only: bool = False
) -> list[Delivery]:
    """The newest pushes to one branch, first received first; a test (nothing moved) says nothing of who pushed."""
    statement = select(deliveries).where(
        deliveries.c.event == "push", deliveries.c.ref == ref, deliveries.c.pusher.is_not(None)
    )
    if repository_id is not None:
        statement = statement.where(deliveries.c.repository_id == repository_id)
    if waiting_only:
        statement = statement.where(or_(deliveries.c.outcome.is_(None), deliveries.c.outcome == "failed"))
    newest_first = statement.order_by(deliveries.c.seq.desc()).limit(PUSHES_LOOKED_AT)
    found = [_noun(row) for row in connection.execute(newest_first).mappings()]
    return [item for item in reversed(found) if item.after is not None and item.before != item.after]


def listed(connection: Connection, *, before: int | None, limit: int) -> Sequence[tuple[int, Delivery]]:
    """(seq, delivery), newest first."""
    statement = select(deliveries).order_by(deliveries.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(deliveries.c.seq < before)
    return [(row["seq"], _noun(row)) for row in connection.execute(statement).mappings()]


def _noun(row: Any) -> Delivery:
    return Delivery(
        id=row["id"],
        received_at=row["received_at"],
        event=row["event"],
        ref=row["ref"],
        repository_id=row["repository_id"],
        repository=row["repository"],
        pusher=row["pusher"],
        before=row["before"],
        after=row["after"],
        body_sha256=row["body_sha256"].hex(),
        signed_by=row["signed_by"],
        count=row["count"],
        outcome=row["outcome"],
        reason=row["reason"],
        registered=tuple(json.loads(row["registered"])),
        removed=tuple(json.loads(row["removed"])),
        rejected=tuple(json.loads(row["rejected"])),
    )
