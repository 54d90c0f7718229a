"""Tokens: listed, issued once, ended (contract/http-api.md, The rest)."""

from typing import Any

from service.domain import strict_json
from service.domain.actors import Token
from service.errors import Malformed, Message
from service.web.lists import check_names, page
from service.web.parts import Parts
from service.web.routing import Answer, Asked


def list_tokens(parts: Parts, asked: Asked) -> Answer:
    """Newest first, ended ones too; never the token itself."""
    check_names(asked, ())
    everything = parts.authority.all_tokens()
    numbered = list(zip(range(len(everything), 0, -1), everything, strict=True))

    def fetch(before: int | None, limit: int) -> list[tuple[int, Token]]:
        return [row for row in numbered if before is None or row[0] < before][:limit]

    return Answer(page(asked, fetch, lambda row: row[0], lambda row: item_of(row[1])))


def issue(parts: Parts, asked: Asked) -> Answer:
    """A new token: `{name, scopes, tools, expires_at}` → 201 with `token`, shown this once."""
    body = _object(asked.body)
    name, scopes, tools, expires_at = (body.get(key) for key in ("name", "scopes", "tools", "expires_at"))
    fits = (
        isinstance(name, str)
        and _texts(scopes)
        and (tools is None or _texts(tools))
        and (expires_at is None or isinstance(expires_at, str))
        and set(body) <= {"name", "scopes", "tools", "expires_at"}
    )
    if not fits:
        raise Malformed(
            Message(
                '请求应为 {"name": 文本, "scopes": [文本], "tools": [文本] 或省略, "expires_at": 时间或省略}。',
                'The request is {"name": text, "scopes": [text], "tools": [text] or left out, "expires_at": time or left out}.',
            )
        )
    assert isinstance(name, str)
    token, text = parts.authority.issue(name, scopes or [], tools, expires_at, asked.actor)
    return Answer(item_of(token) | {"token": text}, 201)


def revoke(parts: Parts, asked: Asked) -> Answer:
    """End a token by its id or name."""
    return Answer(item_of(parts.authority.revoke(asked.path["id"], asked.actor)))


def item_of(token: Token) -> dict[str, Any]:
    """An item of the list of tokens."""
    return {
        "id": token.id,
        "name": token.name,
        "actor": f"token:{token.id}",
        "scopes": list(token.scopes),
        "tools": None if token.tools is None else list(token.tools),
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    }


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = strict_json.loads(content)
    except strict_json.NotJson as error:
        raise Malformed(Message(f"请求体不是 JSON（{error}）。", f"The body is no JSON ({error}).")) from None
    if not isinstance(body, dict):
        raise Malformed(Message("请求体不是 JSON 对象。", "The body is no JSON object."))
    return body
