"""JSON from outside, read strictly (cases.md W19, M4): no NaN, no key twice, no number or nesting without measure."""

import json
import re
from typing import Any, Final

MAX_DIGITS: Final = 400
MAX_VALUES: Final = 200_000  # commas, colons and brackets outside texts
_SIGNS: Final = (b",", b":", b"[", b"{")
_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class NotJson(ValueError):
    """The bytes are no JSON as RFC 8259 means it, or more deeply nested than anybody needs. Says why, quoting nothing."""


def loads(content: bytes) -> Any:
    """Parse UTF-8 JSON. Raises NotJson; never anything else."""
    _refuse_many(content)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise NotJson("not UTF-8") from None
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_integer, parse_float=_number
        )
    except NotJson:
        raise
    except ValueError as error:
        raise NotJson(_where(error)) from None
    except RecursionError:
        raise NotJson("nested too deep") from None


def _refuse_many(content: bytes) -> None:
    """Eight megabytes of `[],[],…` become three hundred in memory; as long texts they stay eight."""
    if sum(content.count(sign) for sign in _SIGNS) <= MAX_VALUES:
        return
    outside = _TEXT.sub(b"", content)
    if sum(outside.count(sign) for sign in _SIGNS) > MAX_VALUES:
        raise NotJson("too many values")


def is_text(value: Any) -> bool:
    """Whether it is a text that UTF-8 can write: JSON's escapes can name half a character, which nothing can keep."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise NotJson("a key twice in one object")
    return result


def _no_constant(name: str) -> Any:
    raise NotJson(f"{name} is no JSON")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise NotJson("a number of too many digits")
    return int(digits)


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise NotJson("a number too large")
    return value


def _where(error: ValueError) -> str:
    position = getattr(error, "pos", None)
    return "not JSON" if position is None else f"not JSON at character {position}"
