"""Signing in through Forgejo: OAuth2 as a confidential client (RFC 6749) with PKCE (RFC 7636); facts/forgejo.md 3.7 and 8.

The person's browser goes to the forge's public address, our own calls to its address on this host. Their access token is a
full-power one: it is used for one `userinfo` and dropped.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from service.domain.actors import SCOPES
from service.errors import Forbidden, Message, Unavailable

CALL_S: Final = 10.0
ANSWER_BYTES: Final = 64 * 1024
_SCOPE: Final = "openid profile email groups"  # fixed: the forge keeps the scope of the first consent
_AWAY: Final = Message(
    "Forgejo 没有给出可用的回答，请稍后再试。", "Forgejo gave no answer that can be used; try again later."
)
_REFUSED: Final = Message(
    "Forgejo 没有认可这次登录，请重新登录。", "Forgejo did not confirm this sign-in; sign in again."
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sign-in under way, kept in the browser that began it: what the forge's answer is held against."""

    state: str
    nonce: str
    verifier: str
    next: str

    def as_text(self) -> str:
        """For a cookie."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> "Attempt | None":
        """The inverse; None for what is none."""
        try:
            shape = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            fits = isinstance(shape, dict) and all(isinstance(value, str) for value in shape.values())
            return cls(**shape) if fits else None
        except (ValueError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class Person:
    """Who the forge says it is: `sub` never changes, `login` may."""

    sub: str
    login: str
    name: str
    groups: tuple[str, ...]


class Forge:
    """The forge as provider. `scopes`: a user's login, a group or `group:team` → what they may here."""

    def __init__(
        self,
        *,
        public: str,
        internal: str,
        client_id: str,
        client_secret: str,
        back: str,
        scopes: Mapping[str, Sequence[str]],
    ) -> None:
        self._public = public
        self._internal = internal
        self._client = (client_id, client_secret)
        self._back = back
        self._scopes = {name.casefold(): tuple(held) for name, held in scopes.items()}

    def begin(self, next_page: str) -> tuple[Attempt, str]:
        """A new attempt, and the address on the forge where the person goes on."""
        attempt = Attempt(_random(), _random(), _random(), next_page)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "client_id": self._client[0],
            "redirect_uri": self._back,
            "response_type": "code",
            "scope": _SCOPE,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return attempt, f"{self._public}/login/oauth/authorize?{urlencode(query)}"

    def finish(self, attempt: Attempt, code: str) -> Person:
        """Trade the code for who it is. Raises Forbidden when the forge refuses, Unavailable when it cannot be asked."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._back,
            "code_verifier": attempt.verifier,
            "client_id": self._client[0],
            "client_secret": self._client[1],
        }
        with httpx.Client(trust_env=False, follow_redirects=False, timeout=CALL_S) as client:
            tokens = _asked(client, "POST", f"{self._internal}/login/oauth/access_token", data=form)
            claims = _claims(tokens.get("id_token"))
            if claims is not None and claims.get("nonce") != attempt.nonce:
                raise Forbidden(_REFUSED)
            bearer = {"Authorization": f"Bearer {tokens.get('access_token')}"}
            told = _asked(client, "GET", f"{self._internal}/login/oauth/userinfo", headers=bearer)
        sub, login = told.get("sub"), told.get("preferred_username")
        if not isinstance(sub, str) or not isinstance(login, str) or not sub or not login:
            raise Unavailable(_AWAY)
        if claims is not None and claims.get("sub") != sub:
            raise Forbidden(_REFUSED)
        groups = told.get("groups") or []
        return Person(sub, login, str(told.get("name") or login), tuple(g for g in groups if isinstance(g, str)))

    def scopes_of(self, person: Person) -> tuple[str, ...]:
        """What this person may here: all that their login and groups are given. Users and groups share one set of names."""
        held = {scope for name in (person.login, *person.groups) for scope in self._scopes.get(name.casefold(), ())}
        return tuple(scope for scope in SCOPES if scope in held)


def _random() -> str:
    return secrets.token_urlsafe(32)


def _asked(client: httpx.Client, method: str, url: str, **how: Any) -> dict[str, Any]:
    """One call; the forge's refusals are Forbidden, all else that is no JSON object Unavailable."""
    try:
        headers = {"Accept": "application/json"} | how.pop("headers", {})
        with client.stream(method, url, headers=headers, **how) as answer:
            content = _content(answer)
    except httpx.HTTPError:
        raise Unavailable(_AWAY) from None
    if answer.status_code in (400, 401, 403):
        raise Forbidden(_REFUSED)
    try:
        shape = json.loads(content)
    except (ValueError, RecursionError):
        shape = None
    if not answer.is_success or not isinstance(shape, dict):
        raise Unavailable(_AWAY)
    return shape


def _content(answer: httpx.Response) -> bytes:
    content = b""
    for chunk in answer.iter_bytes():
        content += chunk
        if len(content) > ANSWER_BYTES:
            raise Unavailable(_AWAY)
    return content


def _claims(token: Any) -> dict[str, Any] | None:
    """What an id_token says; it came straight from the forge, so its signature is not looked at (OIDC Core 3.1.3.7, 6)."""
    if not isinstance(token, str):
        return None
    try:
        body = token.split(".")[1]
        shape = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return shape if isinstance(shape, dict) else {}
