"""How messages show what somebody else wrote: cut, JSON-escaped, unable to move a cursor or turn a line's direction."""

import json
from typing import Any, Final

SHOWN_CHARACTERS: Final = 40


def escaped(text: str) -> str:
    r"""The text with every character that is not printable (controls, bidi, surrogates, invisible) as `\uXXXX`."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _as_escape(character) for character in text)


def _as_escape(character: str) -> str:
    point = ord(character)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def quoted(value: Any, limit: int = SHOWN_CHARACTERS) -> str:
    """A value as JSON, `limit` characters at most, `…` where it was cut; arrays and objects by their brackets only."""
    if isinstance(value, (list, tuple, dict)):
        return "{…}" if isinstance(value, dict) else "[…]"
    if isinstance(value, str):
        cut = value[:limit]
        return escaped(json.dumps(cut, ensure_ascii=False)) + ("…" if len(value) > limit else "")
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "…"  # str() of it may cost, or raise beyond 4,300 digits
    shown = json.dumps(value) if isinstance(value, (int, float, bool, type(None))) else type(value).__name__
    return shown[:limit]


def shown_name(name: str, limit: int = 64) -> str:
    """A name somebody else chose, without quotes, for a field such as `param`."""
    return escaped(name[:limit]) + ("…" if len(name) > limit else "")


def code_point(character: str) -> str:
    """`U+200B`, as problems name a character that nobody can see."""
    return f"U+{ord(character):04X}"
