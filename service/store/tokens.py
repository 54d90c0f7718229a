"""Bearer tokens by hash."""

import json
from typing import Any

from sqlalchemy import Connection, insert, select, update

from service.domain.actors import Token
from service.store.tables import tokens


def add(connection: Connection, token: Token) -> None:
    """Keep a new token."""
    connection.execute(
        insert(tokens),
        {
            "id": token.id,
            "name": token.name,
            "hash": token.hash,
            "scopes": json.dumps(list(token.scopes)),
            "tools": None if token.tools is None else json.dumps(list(token.tools)),
            "created_at": token.created_at,
            "created_by": token.created_by,
            "expires_at": token.expires_at,
        },
    )


def revoke(connection: Connection, token_id: str, now: str) -> None:
    """End a token; its row and id stay."""
    connection.execute(update(tokens).where(tokens.c.id == token_id).values(revoked_at=now))


def all_tokens(connection: Connection) -> list[Token]:
    """Every token ever issued, newest first."""
    return [_noun(row) for row in connection.execute(select(tokens).order_by(tokens.c.seq.desc())).mappings()]


def _noun(row: Any) -> Token:
    return Token(
        id=row["id"],
        name=row["name"],
        hash=row["hash"],
        scopes=tuple(json.loads(row["scopes"])),
        tools=None if row["tools"] is None else tuple(json.loads(row["tools"])),
        created_at=row["created_at"],
        created_by=row["created_by"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )
