"""People's sessions and one-time sign-in links, by hash (contract/http-api.md, Who may what; contract/cli.md, login)."""

import json
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, update

from service.domain.actors import Session
from service.domain.times import later
from service.store.tables import sessions, sign_in_links

KEPT_S: Final = 90 * 86_400  # an ended session stays listed so long; the log knows of it for ever


def add(connection: Connection, session: Session) -> None:
    """Keep a new session; forget those that ended long ago."""
    connection.execute(delete(sessions).where(sessions.c.expires_at < later(session.opened_at, -KEPT_S)))
    connection.execute(
        insert(sessions),
        {
            "id": session.id,
            "hash": session.hash,
            "who": session.who,
            "name": session.name,
            "scopes": json.dumps(list(session.scopes)),
            "via": session.via,
            "opened_at": session.opened_at,
            "expires_at": session.expires_at,
        },
    )


def close(connection: Connection, session_id: str, now: str) -> bool:
    """End a session that has not been ended; whether it was this call that did."""
    open_one = (sessions.c.id == session_id, sessions.c.closed_at.is_(None))
    return connection.execute(update(sessions).where(*open_one).values(closed_at=now)).rowcount == 1


def all_sessions(connection: Connection) -> list[Session]:
    """Every session kept, newest first."""
    return [_noun(row) for row in connection.execute(select(sessions).order_by(sessions.c.seq.desc())).mappings()]


def add_link(connection: Connection, digest: bytes, now: str, expires_at: str) -> None:
    """Keep a sign-in link; forget those that cannot be used any more."""
    connection.execute(delete(sign_in_links).where(sign_in_links.c.expires_at < now))
    connection.execute(insert(sign_in_links), {"hash": digest, "made_at": now, "expires_at": expires_at})


def spend_link(connection: Connection, digest: bytes, now: str) -> bool:
    """Use a link up; whether it could still be used."""
    usable = (sign_in_links.c.hash == digest, sign_in_links.c.used_at.is_(None), sign_in_links.c.expires_at > now)
    return connection.execute(update(sign_in_links).where(*usable).values(used_at=now)).rowcount == 1


def _noun(row: Any) -> Session:
    return Session(
        id=row["id"],
        hash=row["hash"],
        who=row["who"],
        name=row["name"],
        scopes=tuple(json.loads(row["scopes"])),
        via=row["via"],
        opened_at=row["opened_at"],
        expires_at=row["expires_at"],
        closed_at=row["closed_at"],
    )
