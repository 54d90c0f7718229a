"""Who calls, and what they may (contract/http-api.md, Who may what)."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

SCOPES: Final = ("read", "exec", "confirm", "admin")
TOKEN_PREFIX: Final = "bitong_"  # noqa: S105 - a prefix, so that scanners recognise a leaked token
MAX_PATTERNS: Final = 64
# What a pattern of tools may hold: of wildcards only those that every part reads alike.
TOOL_PATTERN: Final = re.compile(r"[A-Za-z0-9_*?-]{1,64}\Z", re.ASCII)
TOKEN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token as kept: its hash, never itself. `tools` None means every tool, else patterns such as `git-*`."""

    id: str
    name: str
    hash: bytes
    scopes: tuple[str, ...]
    tools: tuple[str, ...] | None
    created_at: str
    created_by: str
    expires_at: str | None = None
    revoked_at: str | None = None

    def live(self, now: str) -> bool:
        """Whether it authenticates at `now` (RFC 3339 UTC)."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Session:
    """A person who signed in, as kept: the hash of what their cookie holds. `who` is the actor's name without `person:`.

    `via`: link (a one-time link made on this host) or forgejo.
    """

    id: str
    hash: bytes
    who: str
    name: str
    scopes: tuple[str, ...]
    via: str
    opened_at: str
    expires_at: str
    closed_at: str | None = None

    def live(self, now: str) -> bool:
        """Whether it opens anything at `now` (RFC 3339 UTC)."""
        return self.closed_at is None and now < self.expires_at


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks: `token:<id>`, `person:<sub>` or the operator's own commands. A tool outside `tools` does not exist for them.

    `session`: of a person, the id of the one they ask in.
    """

    name: str
    scopes: frozenset[str]
    tools: tuple[str, ...] | None = None
    session: str | None = None

    def may(self, scope: str) -> bool:
        """Whether the actor holds this scope."""
        return scope in self.scopes

    def sees(self, tool: str) -> bool:
        """Whether the tool exists for this actor."""
        return self.tools is None or any(fnmatchcase(tool, pattern) for pattern in self.tools)


OPERATOR: Final = Actor("operator", frozenset({"read", "admin"}))  # commands beside the running service


def actor_of(token: Token) -> Actor:
    """The actor a live token stands for."""
    return Actor(f"token:{token.id}", frozenset(token.scopes), token.tools)


def person_of(session: Session) -> Actor:
    """The actor that somebody signed in is."""
    return Actor(f"person:{session.who}", frozenset(session.scopes), session=session.id)


def new_token() -> str:
    """A fresh bearer token: 256 random bits, shown once."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> bytes:
    """SHA-256; the token itself has full entropy, so no slow hash is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
