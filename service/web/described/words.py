"""What is said of a route in the OpenAPI document, and the words that many routes share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from service.errors import Message
from service.web.described.forms import Schema, text, whole
from service.web.lists import DEFAULT_LIMIT, MAX_LIMIT
from service.web.routing import JSON

PLAIN: Final = "text/plain"
EVENTS: Final = "text/event-stream"

SAID: Final[Mapping[int, Message]] = {
    400: Message("请求的形式不对。", "The request has the wrong shape."),
    401: Message("需要有效的令牌。", "A valid token is needed."),
    403: Message("令牌没有所需的权限。", "The token lacks the scope."),
    404: Message("没有，或对这个令牌不存在。", "There is none, or none for this token."),
    405: Message("这里不接受这个方法。", "This method is not taken here."),
    409: Message("与现状不符。", "It does not agree with how things stand now."),
    413: Message("请求体太大。", "The body is too large."),
    415: Message("请求体必须是 JSON。", "The body must be JSON."),
    416: Message("所要的字节范围不存在。", "There is no such range of bytes."),
    422: Message("有不合适之处，见 problems。", "Something does not fit; see problems."),
    429: Message("现在太忙，请按 Retry-After 稍后再试。", "Too much at once; come back after Retry-After."),
    500: Message("服务内部出错。", "Something went wrong inside."),
    503: Message(
        "现在做不到：尚未提供、未设置好或无法记录。", "Not possible now: not built, not set up, or not recordable."
    ),
}


@dataclass(frozen=True, slots=True)
class Body:
    """One answer: what it means, the name of its schema, its media type (None: no body), headers beside the usual.

    `codes`: those that its `code` may be.
    """

    said: str
    schema: str | None = None
    media: str | None = JSON
    headers: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """What is said of one route. `query`, `headers`: parameters by name; `needs`: those that must be there.

    `pages`: it is a list with `limit` and `cursor`. `answers` and `problems` by status; a problem's are its codes.
    """

    tag: str
    summary: str
    zh: str
    en: str
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    path: Mapping[str, Schema] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    pages: bool = False
    body: str | None = None
    answers: Mapping[int, Body] = field(default_factory=dict)
    problems: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def here_is(schema: str, said: str = "", *headers: str) -> dict[int, Body]:
    """One answer, 200."""
    return {200: Body(said or "就是这些。Here it is.", schema, headers=headers)}


def paging(*, everything: bool) -> dict[str, Schema]:
    """`limit` and `cursor`; with `everything` the whole list comes unless a limit is given."""
    rules = {"minimum": 1, "maximum": MAX_LIMIT} | ({} if everything else {"default": DEFAULT_LIMIT})
    return {
        "limit": whole("每页多少条。Items of a page.", **rules),
        "cursor": text("上一页的 next。The `next` of the page before."),
    }


def moment(said: str) -> Schema:
    """A parameter that is a time."""
    return text(
        f"{said} A date or RFC 3339 time; UTC unless it says otherwise.",
        examples=["2026-05-31", "2026-05-31T08:00:00.000Z"],
    )


def between() -> dict[str, Schema]:
    """The two ends of a stretch of time."""
    return {
        "since": moment("从此刻起。From this moment on."),
        "until": moment("到此刻为止（不含）。Before this moment."),
    }
