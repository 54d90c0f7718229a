"""Where checkpoints were committed outside, as rows (contract/audit.md, Anchors)."""

from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select

from service.domain.audit import SYSTEM, Fact
from service.store.database import Transaction
from service.store.tables import anchors, log_entries

KEPT: Final = 10_000  # of the newest: the branch itself and the log have them all


@dataclass(frozen=True, slots=True)
class Anchor:
    """One checkpoint of `size` entries, in a commit of a branch."""

    size: int
    at: str
    repository: str
    branch: str
    commit: str
    seq: int = 0

    def as_json(self) -> dict[str, Any]:
        """An item of the list of anchors."""
        return {name: getattr(self, name) for name in ("size", "at", "repository", "branch", "commit")}


def add(transaction: Transaction, anchor: Anchor, root: bytes) -> Anchor:
    """Write it with its entry; answers it with its time. The oldest beyond KEPT go."""
    facts = {
        "size": anchor.size,
        "root": root.hex(),
        "repository": anchor.repository,
        "branch": anchor.branch,
        "commit": anchor.commit,
    }
    transaction.append(Fact("checkpoint.anchored", SYSTEM, facts))
    row = anchor.as_json() | {"commit_id": bytes.fromhex(anchor.commit), "at": transaction.now}
    del row["commit"]
    transaction.connection.execute(insert(anchors), row)
    old = select(anchors.c.seq).order_by(anchors.c.seq.desc()).limit(1).offset(KEPT).scalar_subquery()
    transaction.connection.execute(delete(anchors).where(anchors.c.seq <= old))
    return replace(anchor, at=transaction.now)


def listed(connection: Connection, *, before: int | None, limit: int) -> list[Anchor]:
    """Newest first."""
    statement = select(anchors).order_by(anchors.c.seq.desc()).limit(limit)
    if before is not None:
        statement = statement.where(anchors.c.seq < before)
    return [
        Anchor(row.size, row.at, row.repository, row.branch, row.commit_id.hex(), row.seq)
        for row in connection.execute(statement)
    ]


def is_about_an_anchor(connection: Connection, index: int) -> bool:
    """Whether an entry only says that a checkpoint was anchored."""
    kind = connection.execute(select(log_entries.c.type).where(log_entries.c.idx == index)).scalar()
    return bool(kind == "checkpoint.anchored")


def was_restored(connection: Connection) -> int | None:
    """The index of the newest `log.restored`: what others hold of the log beyond it may be of another past."""
    newest = select(log_entries.c.idx).where(log_entries.c.type == "log.restored").order_by(log_entries.c.idx.desc())
    return connection.execute(newest.limit(1)).scalar()
