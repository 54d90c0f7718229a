"""People's sessions: opened by signing in, kept as hashes, looked up in memory, ended at once (contract/http-api.md)."""

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.domain.actors import SCOPES, Actor, Session, person_of, token_hash
from service.domain.audit import Fact
from service.domain.times import later, now, uuid7
from service.errors import Conflict, Message, NotFound
from service.store import sessions
from service.store.database import Database, Transaction
from service.web.oauth import Forge

LINK_S: Final = 600  # cases.md P2
MOST: Final = 20  # sessions of one person at once; the oldest gives way
PERSON: Final = "person:"
OPERATOR_NAME: Final = "operator"  # who has a link was on this host, or was let in by one who was
_SPENT: Final = Message(
    "这个登录链接已用过或已过期；请重新运行 bitong login。",
    "This sign-in link was used or has expired; run bitong login again.",
)


class Sessions:
    """Who is signed in. `hours`: how long a session lives.

    What a cookie holds is 256 random bits, of which only the hash is kept.
    """

    def __init__(self, database: Database, hours: int) -> None:
        self._database = database
        self.seconds = hours * 3600
        self._lock = threading.Lock()
        with database.read() as connection:
            known = sessions.all_sessions(connection)
        self._by_hash = {session.hash: session for session in known if session.live(self._database.moment())}
        self._names = {PERSON + session.who: session.name for session in reversed(known)}

    def find(self, cookie: str) -> Session | None:
        """The live session of this cookie."""
        session = self._by_hash.get(token_hash(cookie))
        return session if session is not None and session.live(self._database.moment()) else None

    def standing(self, name: str) -> Actor | None:
        """What the person of this name may now, over all their sessions; None once the last one has ended."""
        moment = now()
        with self._lock:
            theirs = [s for s in self._by_hash.values() if s.live(moment) and PERSON + s.who == name]
        return Actor(name, frozenset(scope for s in theirs for scope in s.scopes)) if theirs else None

    def still(self, session_id: str) -> Actor | None:
        """What the person may in this session now; None once it has ended."""
        moment = now()
        with self._lock:
            found = next((s for s in self._by_hash.values() if s.id == session_id and s.live(moment)), None)
        return None if found is None else person_of(found)

    def called(self, name: str) -> str | None:
        """How a person is called who is or was signed in."""
        return self._names.get(name)

    def open(self, who: str, name: str, scopes: Sequence[str], via: str) -> tuple[Session, str]:
        """A new session and what its cookie holds, which is never to be had again."""
        session, cookie = self._new(who, name, scopes, via)
        for oldest in self._living(who)[: -(MOST - 1)]:
            self.close(oldest.id, person_of(oldest))
        session = self._database.write(lambda transaction: self._open(transaction, session))
        self._put(session)
        return session, cookie

    def _living(self, who: str) -> list[Session]:
        """A person's sessions, oldest first."""
        moment = now()
        with self._lock:
            theirs = [s for s in self._by_hash.values() if s.who == who and s.live(moment)]
        return sorted(theirs, key=lambda session: session.id)

    def close(self, session_id: str, by: Actor) -> Session:
        """End a session, from this moment on. Raises NotFound when no live one has this id."""
        with self._lock:
            found = next(
                (s for s in self._by_hash.values() if s.id == session_id and s.live(self._database.moment())), None
            )
        if found is None:
            raise NotFound(Message("没有这个会话，或它已结束。", "There is no such session, or it has ended."))
        self._put(replace(found, closed_at=now()))  # first of all: from here on it opens nothing

        def work(transaction: Transaction) -> str:
            if sessions.close(transaction.connection, found.id, transaction.now):
                transaction.append(Fact("session.closed", by.name, _facts(found)))
            return transaction.now

        try:
            ended = replace(found, closed_at=self._database.write(work))
        except BaseException:
            self._put(found)  # not recorded, so not done
            raise
        with self._lock:
            self._by_hash.pop(found.hash, None)
        return ended

    def everyone(self) -> list[Session]:
        """Every session that is kept, newest first."""
        with self._database.read() as connection:
            return sessions.all_sessions(connection)

    def make_link(self) -> tuple[str, str]:
        """What a one-time sign-in link holds, and until when it can be used."""
        text = secrets.token_urlsafe(32)

        def work(transaction: Transaction) -> str:
            expires_at = later(transaction.now, LINK_S)
            sessions.add_link(transaction.connection, token_hash(text), transaction.now, expires_at)
            return expires_at

        return text, self._database.write(work)

    def spend_link(self, text: str) -> tuple[Session, str]:
        """Use a link: a session with every scope, since who could make the link may issue any token. Raises Conflict."""
        session, cookie = self._new("", OPERATOR_NAME, SCOPES, "link")
        session = replace(session, who=f"link-{session.id}")

        def work(transaction: Transaction) -> Session:
            if not sessions.spend_link(transaction.connection, token_hash(text), transaction.now):
                raise Conflict(_SPENT)
            return self._open(transaction, session)

        session = self._database.write(work)
        self._put(session)
        return session, cookie

    def _new(self, who: str, name: str, scopes: Sequence[str], via: str) -> tuple[Session, str]:
        cookie, moment = secrets.token_urlsafe(32), now()
        session = Session(
            id=uuid7(),
            hash=token_hash(cookie),
            who=who,
            name=name,
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            via=via,
            opened_at=moment,
            expires_at=later(moment, self.seconds),
        )
        return session, cookie

    def _open(self, transaction: Transaction, session: Session) -> Session:
        """Write it, with its entry; its times are those of the transaction, so that they follow from the record."""
        moment = transaction.now
        session = replace(session, opened_at=moment, expires_at=later(moment, self.seconds))
        sessions.add(transaction.connection, session)
        transaction.append(Fact("session.opened", person_of(session).name, _facts(session)))
        return session

    def _put(self, session: Session) -> None:
        moment = now()
        with self._lock:
            gone = [key for key, known in self._by_hash.items() if moment >= known.expires_at]
            for key in gone:
                del self._by_hash[key]
            self._by_hash[session.hash] = session
            self._names[PERSON + session.who] = session.name


@dataclass(frozen=True, slots=True)
class People:
    """What pages for people need beside the API's parts.

    `forge`: where they sign in, or None; `language`: theirs when it is unknown; `commits`: the address of commits on the
    forge, which an id is appended to, or None.
    """

    sessions: Sessions
    forge: Forge | None
    language: str
    commits: str | None


def _facts(session: Session) -> dict[str, object]:
    return {
        "session": session.id,
        "who": session.who,
        "name": session.name,
        "scopes": list(session.scopes),
        "via": session.via,
        "expires": session.expires_at,
        "hash": session.hash.hex(),
    }
