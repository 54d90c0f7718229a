"""The one table from kinds of failure to HTTP statuses, and the two shapes errors have (RFC 9457; `/exec`'s own)."""

from collections.abc import Mapping
from typing import Any, Final

from service import errors
from service.errors import BitongError, Message

STATUS: Final[Mapping[type[BitongError], int]] = {
    errors.Malformed: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.Unsupported: 415,
    errors.RangeNotSatisfiable: 416,
    errors.Invalid: 422,
    errors.Busy: 429,
    errors.Unavailable: 503,
}
TITLES: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    431: "Request Header Fields Too Large",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
INTERNAL: Final = Message("服务内部出错，已记入日志。", "Something went wrong inside; it is in the log.")


def status_of(error: BitongError) -> int:
    """The status of a failure: that of its nearest kind; 500 for what is of none."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def problem(status: int, code: str, message: Message, problems: Any = None) -> dict[str, Any]:
    """RFC 9457 problem details: type, title, status, detail (both languages), `code`, and `problems` where several."""
    shape = {
        "type": "about:blank",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": f"{message.zh} / {message.en}",
        "code": code,
        "message": message.as_json(),
    }
    return shape if problems is None else shape | {"problems": problems}


def headers_of(error: BitongError) -> dict[str, str]:
    """What a failure says in headers: when to come back, how to authenticate."""
    if isinstance(error, errors.Busy):
        return {"Retry-After": str(error.facts.get("retry_after_s", 1))}
    if isinstance(error, errors.RangeNotSatisfiable):
        return {"Content-Range": f"bytes */{error.facts['size']}"}
    if isinstance(error, errors.Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    return {}
