"""Texts of strangers made harmless to look at: control and direction characters become signs (cases.md P5)."""

from typing import Any, Final

from markupsafe import Markup

_PICTURES: Final = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
# What turns the direction of text around, or cannot be seen at all.
_INVISIBLE: Final = (
    *range(0x80, 0xA0),
    0xAD,
    0x61C,
    0x180E,
    *range(0x200B, 0x2010),
    0x2028,
    0x2029,
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),
)
_SIGNS: Final = _PICTURES | {0x7F: "␡"} | {code: f"⟨U+{code:04X}⟩" for code in _INVISIBLE if code != 0x200D}
_ONE_LINE: Final = _SIGNS | {0x0A: "␤", 0x09: "␉"}


def shown(value: Any) -> Any:
    """A value as a page prints it; markup of our own is left alone. Line ends and tabs stay."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return value.translate(_SIGNS).encode("utf-8", "replace").decode("utf-8")


def one_line(value: Any) -> str:
    """A text for a place of one line: line ends and tabs become signs too."""
    return str(value).translate(_ONE_LINE)
