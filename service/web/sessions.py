"""Sessions and sign-in links through the API: listed, ended, made (contract/http-api.md, The rest)."""

from typing import Any

from service.domain.actors import Session, person_of
from service.web.lists import check_names, page
from service.web.parts import Parts
from service.web.routing import Answer, Asked


def list_sessions(parts: Parts, asked: Asked) -> Answer:
    """Newest first, ended ones too; never what a cookie holds."""
    check_names(asked, ())
    everyone = parts.people.sessions.everyone()
    numbered = list(zip(range(len(everyone), 0, -1), everyone, strict=True))

    def fetch(before: int | None, limit: int) -> list[tuple[int, Session]]:
        return [row for row in numbered if before is None or row[0] < before][:limit]

    return Answer(page(asked, fetch, lambda row: row[0], lambda row: item_of(row[1])))


def end(parts: Parts, asked: Asked) -> Answer:
    """End a session by its id."""
    return Answer(item_of(parts.people.sessions.close(asked.path["id"], asked.actor)))


def make_link(parts: Parts, _asked: Asked) -> Answer:
    """A one-time sign-in link, as `bitong login` prints it: 201 {url, expires_at}."""
    text, expires_at = parts.people.sessions.make_link()
    return Answer({"url": parts.link(f"/sign-in/link?token={text}"), "expires_at": expires_at}, 201)


def item_of(session: Session) -> dict[str, Any]:
    """An item of the list of sessions."""
    return {
        "id": session.id,
        "name": session.name,
        "actor": person_of(session).name,
        "scopes": list(session.scopes),
        "via": session.via,
        "opened_at": session.opened_at,
        "expires_at": session.expires_at,
        "closed_at": session.closed_at,
    }
