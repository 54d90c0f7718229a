"""What every list has in common: `{items, next}`, `limit`, a cursor, and filters that say what they take."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from service.domain.times import parse_time
from service.errors import Invalid, Message
from service.web.routing import Asked

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 500
COMMIT: Final = re.compile(r"[0-9a-f]{4,40}\Z")

T = TypeVar("T")


def page(
    asked: Asked, fetch: Callable[[int | None, int], Sequence[T]], key: Callable[[T], int], item: Callable[[T], Any]
) -> dict[str, Any]:
    """One page, newest first. `fetch(before, limit)` gives rows below a key; one more is asked for, to know of a next."""
    limit, before = read_limit(asked), read_cursor(asked)
    rows = fetch(before, limit + 1)
    shown = rows[:limit]
    following = write_cursor(key(shown[-1])) if len(rows) > limit else None
    return {"items": [item(row) for row in shown], "next": following}


def check_names(asked: Asked, known: Sequence[str]) -> None:
    """Raise Invalid for a filter that this list does not have: a misspelt one must not look as if it held."""
    for name in asked.query:
        if name not in (*known, "limit", "cursor"):
            allowed = ", ".join(known)
            raise unfit(name, f"没有这个筛选条件；可用：{allowed}。", f"There is no such filter; there are: {allowed}.")


def read_limit(asked: Asked, default: int = DEFAULT_LIMIT) -> int:
    """`limit`, 1 to 1,000."""
    text = asked.query.get("limit")
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,4}", text, re.ASCII) or not 1 <= int(text) <= MAX_LIMIT:
        raise unfit("limit", "limit 为 1 至 1000。", "limit is 1 to 1,000.")
    return int(text)


def write_cursor(key: int | str) -> str:
    """An opaque cursor: the next page begins after the item with this key."""
    return base64.urlsafe_b64encode(f"v1:{key}".encode()).decode().rstrip("=")


def read_cursor(asked: Asked) -> int | None:
    """The inverse of `write_cursor`, for lists by number; None for the first page."""
    key = read_cursor_text(asked)
    if key is None:
        return None
    if not re.fullmatch(r"\d{1,18}", key, re.ASCII):
        raise _bad_cursor()
    return int(key)


def read_cursor_text(asked: Asked) -> str | None:
    """The inverse of `write_cursor`, for lists by name; None for the first page."""
    text = asked.query.get("cursor")
    if text is None:
        return None
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
    except ValueError:
        raise _bad_cursor() from None
    version, _, key = plain.partition(":")
    if version != "v1":
        raise _bad_cursor()
    return key


def _bad_cursor() -> Invalid:
    return unfit("cursor", "cursor 须取自上一页的 next。", "cursor has to be the next of a page before.")


def read_text(asked: Asked, name: str) -> str | None:
    """A text to search for, of a length that a search can mean."""
    text = asked.query.get(name)
    if text is not None and len(text) > MAX_TEXT:
        raise unfit(name, f"最多 {MAX_TEXT} 个字符。", f"At most {MAX_TEXT} characters.")
    return text


def read_time(asked: Asked, name: str) -> str | None:
    """A time filter, in the form that the store sorts by."""
    text = asked.query.get(name)
    if text is None:
        return None
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise unfit(
            name, "时间写作 2026-05-31 或 2026-05-31T08:00:00Z。", "Write 2026-05-31 or 2026-05-31T08:00:00Z."
        ) from None


def read_flag(asked: Asked, name: str) -> bool | None:
    """`true`, `false`, or absent."""
    text = asked.query.get(name)
    if text is None or text in ("true", "false"):
        return None if text is None else text == "true"
    raise unfit(name, "取 true 或 false。", "It takes true or false.")


def read_choice(asked: Asked, name: str, choices: Sequence[str]) -> str | None:
    """One of some words, or absent."""
    text = asked.query.get(name)
    if text is None or text in choices:
        return text
    allowed = ", ".join(choices)
    raise unfit(name, f"取其中之一：{allowed}。", f"It takes one of: {allowed}.")


def read_commit(asked: Asked, name: str = "commit") -> str | None:
    """A commit's id or the first digits of one (4 to 40)."""
    text = asked.query.get(name)
    if text is None or COMMIT.match(text):
        return text
    raise unfit(name, "提交号为 4 至 40 位小写十六进制。", "A commit is 4 to 40 lower-case hex digits.")


def unfit(name: str, zh: str, en: str) -> Invalid:
    """The refusal of one query parameter."""
    shape: Mapping[str, str] = {"param": name[:64], "code": "unfit", "zh": zh, "en": en}
    return Invalid(Message(f"{name[:64]}：{zh}", f"{name[:64]}: {en}"), facts={"problems": [shape]})
