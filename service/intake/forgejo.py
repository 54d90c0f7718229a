"""The one file that knows the forge's dialect: signatures, headers and payloads of Forgejo, Gitea and Gogs (facts/forgejo.md)."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.domain import strict_json
from service.domain.deliveries import Delivery
from service.domain.times import uuid7
from service.errors import Malformed, Message, Unauthenticated

SIGNATURE_HEADERS: Final = ("x-forgejo-signature", "x-gitea-signature", "x-gogs-signature", "x-hub-signature-256")
EVENT_HEADERS: Final = ("x-forgejo-event", "x-gitea-event", "x-gogs-event", "x-github-event")
_HUB_PREFIX: Final = b"sha256="
_MAX_ID: Final = 2**53

_UNSIGNED = Message(
    "签名缺失或不正确。请检查 Webhook 的密钥与 webhook_secret 是否一致。",
    "The signature is missing or wrong. Check that the webhook's secret is the one in webhook_secret.",
)


def verify(body: bytes, headers: Sequence[tuple[bytes, bytes]], secrets: Mapping[str, str]) -> str:
    """Which of `secrets` (name → secret) signed the body. Raises Unauthenticated when none did.

    Every SHA-256 signature header that is present must verify, at least one must be there, none twice
    (contract/http-api.md, The webhook). SHA-1 is not looked at.
    """
    given: dict[str, bytes] = {}
    for name, value in headers:
        lower = name.lower().decode("latin-1")
        if lower in SIGNATURE_HEADERS:
            if lower in given:
                raise Unauthenticated(_UNSIGNED)
            given[lower] = value.strip()
    for which, secret in secrets.items():
        expected = hmac.new(secret.encode("utf-8"), body, hashlib.sha256).hexdigest().encode("ascii")
        if secret and given and all(_matches(name, value, expected) for name, value in given.items()):
            return which
    raise Unauthenticated(_UNSIGNED)


def sign(body: bytes, secret: str) -> dict[str, str]:
    """The signature headers that the forge would send for this body."""
    digest = hmac.new(secret.encode("utf-8"), body, hashlib.sha256).hexdigest()
    return {"X-Forgejo-Signature": digest, "X-Hub-Signature-256": f"sha256={digest}"}


def _matches(name: str, value: bytes, expected: bytes) -> bool:
    if name == "x-hub-signature-256":
        expected = _HUB_PREFIX + expected
    return hmac.compare_digest(value, expected)


def read_delivery(body: bytes, headers: Sequence[tuple[bytes, bytes]], *, received_at: str, signed_by: str) -> Delivery:
    """What a verified body says. Its kind follows from its shape as well as from the header: they must agree.

    Raises Malformed for what is no JSON object, or has a repository or ref of the wrong type.
    """
    try:
        payload = strict_json.loads(body)
    except strict_json.NotJson as error:
        raise _malformed(str(error)) from None
    if not isinstance(payload, dict):
        raise _malformed("not an object")
    named = _event_header(headers)
    shape = _shape(payload)
    repository = payload.get("repository")
    if repository is not None and not isinstance(repository, dict):
        raise _malformed("repository is not an object")
    before, after = _range(payload, shape)
    return Delivery(
        id=uuid7(),
        received_at=received_at,
        event=named if named == shape else _mismatch(named, shape),
        ref=_ref(payload, shape),
        repository_id=_id(repository),
        repository=_text((repository or {}).get("full_name")),
        pusher=_pusher(payload) if shape == "push" else None,
        before=before,
        after=after,
        body_sha256=hashlib.sha256(body).hexdigest(),
        signed_by=signed_by,
    )


def _malformed(why: str) -> Malformed:
    return Malformed(Message(f"请求体不是预期的 JSON：{why}", f"The body is not the JSON expected: {why}"))


def _event_header(headers: Sequence[tuple[bytes, bytes]]) -> str:
    found = {name.lower().decode("latin-1"): value for name, value in headers}
    for header in EVENT_HEADERS:
        if header in found:
            return _text(found[header].decode("ascii", "replace")) or "unknown"
    return "unknown"


def _shape(payload: Mapping[str, Any]) -> str:
    def has(*names: str) -> bool:
        return all(isinstance(payload.get(name), str) for name in names)

    if has("ref", "before", "after"):
        return "push"
    if has("ref", "ref_type", "pusher_type"):
        return "delete"
    if has("ref", "ref_type", "sha"):
        return "create"
    return "other"


def _mismatch(named: str, shape: str) -> str:
    return named if shape == "other" and named not in ("push", "create", "delete") else f"{named}?"


def _ref(payload: Mapping[str, Any], shape: str) -> str | None:
    """The full ref; create and delete of hook type gitea shorten it (facts/forgejo.md 1.2)."""
    if shape == "other":
        return None
    ref = _text(payload["ref"]) or ""
    if shape == "push" or ref.startswith("refs/"):
        return ref if ref.startswith("refs/") else f"refs/heads/{ref}"
    return f"refs/tags/{ref}" if payload["ref_type"] == "tag" else f"refs/heads/{ref}"


def _range(payload: Mapping[str, Any], shape: str) -> tuple[str | None, str | None]:
    if shape == "push":
        return _commit(payload["before"]), _commit(payload["after"])
    return None, _commit(payload["sha"]) if shape == "create" else None


def _commit(value: str) -> str | None:
    """A commit's id; None for zeros of any length; empty for what is no id, so that it is never taken for a new branch."""
    if len(value) not in (40, 64) or not set(value) <= set("0123456789abcdef"):
        return ""
    return None if set(value) == {"0"} else value


def _id(repository: Mapping[str, Any] | None) -> int | None:
    value = (repository or {}).get("id")
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_ID else None


def _pusher(payload: Mapping[str, Any]) -> str | None:
    for field in ("pusher", "sender"):
        person = payload.get(field)
        if isinstance(person, dict):
            login = person.get("login") or person.get("username")
            if isinstance(login, str) and login:
                return _text(login)
    return None


def _text(value: Any, limit: int = 255) -> str | None:
    """Text as it may be kept: no lone surrogate, no control character, at most `limit` characters."""
    if not isinstance(value, str):
        return None
    clean = value.encode("utf-8", "replace").decode("utf-8")
    return "".join(character if character.isprintable() else "\ufffd" for character in clean[:limit])
