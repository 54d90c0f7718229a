"""Who may: tokens, people signed in, links to sign in with."""

from sqlalchemy import Column, Integer, LargeBinary, Table, Text

from service.store.tables.metadata import metadata

# Bearer tokens: only the SHA-256 of what was handed out (contract/http-api.md, Who may what).
tokens = Table(
    "tokens",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("scopes", Text, nullable=False),
    Column("tools", Text),
    Column("created_at", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Text),
    Column("revoked_at", Text),
)

# People who signed in: only the SHA-256 of what their cookie holds. `who` is the actor's name without `person:`.
sessions = Table(
    "sessions",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("who", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("via", Text, nullable=False),  # link, forgejo
    Column("opened_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("closed_at", Text),
)

# One-time sign-in links (`bitong login`): spent by POST, once.
sign_in_links = Table(
    "sign_in_links",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("made_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("used_at", Text),
)
