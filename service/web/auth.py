"""Bearer tokens: issued once, kept as hashes, looked up in memory, ended at once (contract/http-api.md, Who may what)."""

import hmac
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.domain.actors import (
    MAX_PATTERNS,
    OPERATOR,
    SCOPES,
    TOKEN_NAME,
    TOOL_PATTERN,
    Actor,
    Token,
    actor_of,
    new_token,
    token_hash,
)
from service.domain.audit import Fact
from service.domain.times import now, parse_time, uuid7
from service.errors import Conflict, Invalid, Message, NotFound, Unauthenticated
from service.store import tokens
from service.store.database import Database, Transaction
from service.web.guesses import Guesses
from service.web.people import PERSON, Sessions

_WHO: Final = Message(
    "需要有效的令牌：Authorization: Bearer <令牌>。", "A valid token is needed: Authorization: Bearer <token>."
)


class Authority:
    """Who a bearer token stands for. `control`: the running service's own token for commands on this host, or None."""

    def __init__(self, database: Database, sessions: Sessions, control: str | None = None) -> None:
        self._database = database
        self._sessions = sessions
        self._control = None if control is None else token_hash(control)
        self._guesses = Guesses()
        self._lock = threading.Lock()
        self._by_hash: dict[bytes, Token] = {}
        self._by_actor: dict[str, Token] = {}
        with database.read() as connection:
            for token in tokens.all_tokens(connection):
                self._put(token)

    def authenticate(self, header: str | None, *, source: str, from_loopback: bool) -> Actor:
        """The actor behind an `Authorization` header. Raises Unauthenticated for everything but a live bearer token.

        `source`: the address it came from; too many wrong tokens from there are Busy.
        """
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated(_WHO)
        digest = token_hash(token.strip())
        if self._control is not None and hmac.compare_digest(digest, self._control) and from_loopback:
            return OPERATOR
        known = self._by_hash.get(digest)
        if known is None or not known.live(self._database.moment()):
            self._guesses.wrong(source)
            raise Unauthenticated(_WHO)
        return actor_of(known)

    def standing(self, name: str) -> Actor | None:
        """What the actor of this name may now; None once its token or last session has been ended or has expired."""
        if name == OPERATOR.name:
            return OPERATOR
        if name.startswith(PERSON):
            return self._sessions.standing(name)
        token = self._by_actor.get(name)
        return actor_of(token) if token is not None and token.live(self._database.moment()) else None

    def still(self, actor: Actor) -> Actor | None:
        """The same for whoever asked and listens on: of a person what this very session may, not their others."""
        return self.standing(actor.name) if actor.session is None else self._sessions.still(actor.session)

    def called(self, name: str) -> str | None:
        """How people call the actor of this name: its token's name, or the person's."""
        token = self._by_actor.get(name)
        return token.name if token is not None else self._sessions.called(name)

    def issue(
        self, name: str, scopes: Sequence[str], tools: Sequence[str] | None, expires_at: str | None, by: Actor
    ) -> tuple[Token, str]:
        """A new token and the text of it, which is never to be had again. Raises Invalid or Conflict."""
        _check(name, scopes, tools, expires_at)
        text = new_token()

        def work(transaction: Transaction) -> Token:
            existing = tokens.all_tokens(transaction.connection)
            if any(token.name == name and token.live(transaction.now) for token in existing):
                raise Conflict(
                    Message(
                        f"已有名为 {name} 的有效令牌；请换名或先撤销它。",
                        f"A live token is named {name}; use another name or revoke it.",
                    ),
                    code="name-taken",
                )
            token = Token(
                id=uuid7(),
                name=name,
                hash=token_hash(text),
                scopes=tuple(scope for scope in SCOPES if scope in scopes),
                tools=None if tools is None else tuple(tools),
                created_at=transaction.now,
                created_by=by.name,
                expires_at=None if expires_at is None else parse_time(expires_at),
            )
            tokens.add(transaction.connection, token)
            transaction.append(_fact("token.issued", token, by))
            return token

        token = self._database.write(work)
        self._put(token)
        return token, text

    def revoke(self, id_or_name: str, by: Actor) -> Token:
        """End a token, by its id or its name, from this moment on. Raises NotFound when no live one is called so."""
        with self._lock:
            found = [t for t in self._by_hash.values() if id_or_name in (t.id, t.name) and t.revoked_at is None]
        found.sort(
            key=lambda t: not t.live(self._database.moment())
        )  # of two of one name, the one that still opens something
        if not found:
            raise NotFound(Message(f"没有名为 {id_or_name} 的有效令牌。", f"There is no live token {id_or_name}."))
        token = found[0]
        self._put(replace(token, revoked_at=now()))  # first of all: from here on it opens nothing

        def work(transaction: Transaction) -> str:
            tokens.revoke(transaction.connection, token.id, transaction.now)
            transaction.append(_fact("token.revoked", token, by))
            return transaction.now

        try:
            ended = replace(token, revoked_at=self._database.write(work))
        except BaseException:
            self._put(token)  # not recorded, so not done
            raise
        self._put(ended)
        return ended

    def all_tokens(self) -> list[Token]:
        """Every token, newest first."""
        with self._database.read() as connection:
            return tokens.all_tokens(connection)

    def _put(self, token: Token) -> None:
        with self._lock:
            self._by_hash[token.hash] = token
            self._by_actor[actor_of(token).name] = token


def _fact(kind: str, token: Token, by: Actor) -> Fact:
    return Fact(
        kind,
        by.name,
        {
            "token": token.id,
            "name": token.name,
            "scopes": list(token.scopes),
            "tools": None if token.tools is None else list(token.tools),
            "expires": token.expires_at,
            "hash": token.hash.hex(),
        },
    )


def _check(name: str, scopes: Sequence[str], tools: Sequence[str] | None, expires_at: str | None) -> None:
    problems = []
    if not TOKEN_NAME.match(name):
        problems.append(
            _problem("name", "名称为 1 至 64 个字母、数字或 . _ @ -。", "A name is 1 to 64 letters, digits or . _ @ -.")
        )
    if not scopes or not set(scopes) <= set(SCOPES):
        allowed = ", ".join(SCOPES)
        problems.append(
            _problem("scopes", f"权限为其中之一或多个：{allowed}。", f"Scopes are one or more of: {allowed}.")
        )
    if tools is not None and not (1 <= len(tools) <= MAX_PATTERNS and all(map(TOOL_PATTERN.match, tools))):
        zh = f"工具模式 1 至 {MAX_PATTERNS} 个，每个为 1 至 64 个字母、数字或 _ - * ?。"
        en = f"Patterns of tools: 1 to {MAX_PATTERNS}, each of 1 to 64 letters, digits, _ - * or ?."
        problems.append(_problem("tools", zh, en))
    if expires_at is not None:
        try:
            parse_time(expires_at)
        except (ValueError, OverflowError):
            problems.append(
                _problem("expires_at", "时间写作 2026-12-31T00:00:00Z。", "Write a time as 2026-12-31T00:00:00Z.")
            )
    if problems:
        raise Invalid(
            Message("令牌的要求不合适。", "The token asked for is not possible."), facts={"problems": problems}
        )


def _problem(param: str, zh: str, en: str) -> dict[str, str]:
    return {"param": param, "code": "unfit", "zh": zh, "en": en}
