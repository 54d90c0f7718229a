"""Tokens and sessions in the OpenAPI document."""

from service.domain.actors import SCOPES, TOKEN_NAME
from service.web.described.forms import Schema, listing, many, nullable, record, ref, text, whole_text
from service.web.described.words import Body, Text, here_is


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    scopes = many(text(enum=list(SCOPES)), minItems=1, uniqueItems=True)
    patterns = nullable(
        many(text(minLength=1, maxLength=128), "Patterns of tool names, such as `git-*`; null: every tool.", minItems=1)
    )
    name = text(pattern=whole_text(TOKEN_NAME.pattern))
    kept = {
        "id": ref("Id"),
        "name": name,
        "actor": ref("Actor"),
        "scopes": scopes,
        "tools": patterns,
        "created_at": ref("Time"),
        "created_by": ref("Actor"),
        "expires_at": nullable(ref("Time")),
        "revoked_at": nullable(ref("Time")),
    }
    expires = nullable(text("A date or an RFC 3339 time; null or left out: never."))
    return {
        "TokenRequest": record({"name": name, "scopes": scopes}, {"tools": patterns, "expires_at": expires}),
        "Token": record(kept),
        "TokenIssued": record(kept | {"token": text("令牌本身，只显示这一次。The token itself, shown this once.")}),
        "TokenPage": listing("Token"),
        "Session": record(
            {
                "id": ref("Id"),
                "name": text("As the forge calls the person."),
                "actor": ref("Actor"),
                "scopes": scopes,
                "via": text("登录的方式。How they signed in.", enum=["link", "forgejo"]),
                "opened_at": ref("Time"),
                "expires_at": ref("Time"),
                "closed_at": nullable(ref("Time")),
            }
        ),
        "SessionPage": listing("Session"),
        "SignInLink": record({"url": text("只能用一次。To be used once."), "expires_at": ref("Time")}),
    }


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    named = text("令牌的 id 或名字。Its id or its name.")
    return {
        "GET /tokens": Text(
            "access",
            "The tokens, newest first",
            "令牌本身从不显示。",
            "Ended ones too; never the token itself.",
            pages=True,
            answers=here_is("TokenPage"),
        ),
        "POST /tokens": Text(
            "access",
            "Issue a token",
            "新令牌，只显示这一次。",
            "The token is shown this once.",
            body="TokenRequest",
            answers={201: Body("新令牌。The token.", "TokenIssued")},
            problems={409: ("name-taken",), 422: ("bad-parameters",), 503: ("cannot-record",)},
        ),
        "DELETE /tokens/{id}": Text(
            "access",
            "End a token",
            "立即失效。",
            "From this moment on, for open streams, queued runs and waiting confirmations too.",
            path={"id": named},
            answers={200: Body("已失效。It has ended.", "Token")},
            problems={404: ("not-found",), 503: ("cannot-record",)},
        ),
        "GET /sessions": Text(
            "access",
            "People's sessions, newest first",
            "登录的人，已结束的会话也在内。",
            "Who is or was signed in.",
            pages=True,
            answers=here_is("SessionPage"),
        ),
        "DELETE /sessions/{id}": Text(
            "access",
            "End a session",
            "结束一次登录，立即生效。",
            "Signs somebody out, from this moment on.",
            path={"id": ref("Id")},
            answers={200: Body("已结束。It has ended.", "Session")},
            problems={404: ("not-found",), 503: ("cannot-record",)},
        ),
        "POST /sign-in-links": Text(
            "access",
            "Make a one-time sign-in link",
            "一次性登录链接，十分钟内有效。",
            "What `bitong login` prints: it opens a session with every scope, once, within ten minutes.",
            answers={201: Body("链接。The link.", "SignInLink")},
            problems={503: ("cannot-record",)},
        ),
    }
