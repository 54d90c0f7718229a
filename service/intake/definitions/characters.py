"""What the bytes of a TOOL.hdlp are before they are YAML: encoding, control characters, and characters nobody can see.

All of this is looked at in comments too: what a reviewer reads must be what is registered (cases.md Y10 to Y16).
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

from service.domain.definitions import Problem
from service.domain.quoting import code_point

BOM: Final = "\ufeff"
MAX_REPORTED: Final = 100

# Control characters, line breaks that only some readers know, and code points that are no characters.
_CONTROLS: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufdd0-\ufdef" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
)
# Unicode's Default_Ignorable_Code_Point (bidirectional controls, tags, variation selectors), and what draws nothing.
_INVISIBLE: Final = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000110bd\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SURROGATES: Final = "\ud800-\udfff"
_BAD: Final = re.compile(f"[{_CONTROLS}{_INVISIBLE}{_SURROGATES}]")
_BAD_CONTROL: Final = re.compile(f"[{_CONTROLS}{_SURROGATES}]")
_UNREADABLE: Final = re.compile(f"[{_CONTROLS}\ufeff]")  # parsers refuse these, or differ about them

ZERO_WIDTH_JOINER: Final = "\u200d"
EMOJI_SELECTOR: Final = "\ufe0f"
_KEYCAP: Final = "\u20e3"
# Ranges that hold emoji; other symbols (category So) count too.
_EMOJI: Final = re.compile(
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001faff]"
)

# What a Chinese input method makes of YAML's own punctuation.
WIDE: Final = {
    "：": ":", "，": ",", "、": ",", "“": '"', "”": '"', "＂": '"', "‘": "'", "’": "'", "＇": "'", "「": '"', "」": '"',
    "『": '"', "』": '"', "｛": "{", "｝": "}", "［": "[", "］": "]", "【": "[", "】": "]", "＃": "#",
    "－": "-", "—": "-", "﹣": "-", "＿": "_", "．": ".", "。": ".",
    "\u3000": " ", "\u00a0": " ", "；": ";", "（": "(", "）": ")",
}  # fmt: skip
_TO_NARROW: Final = {ord(wide): narrow for wide, narrow in WIDE.items()} | {
    point: point - 0xFEE0 for point in range(0xFF01, 0xFF5F) if chr(point) not in WIDE
}


class Decoded(NamedTuple):
    r"""A file's text with `\n` for every line break and U+FFFD for what is not read on; `characters` were reported."""

    text: str
    problems: list[Problem]
    warnings: list[Problem]
    characters: frozenset[str]


def decode(content: bytes) -> Decoded | Problem:
    """The text of a file, or the one problem that leaves none."""
    if problem := _encoding_problem(content):
        return problem
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return _not_utf8(content, error.start)
    warnings = []
    if text.startswith(BOM):
        text = text[1:]
        warnings.append(
            Problem(
                "byte-order-mark",
                "文件开头有BOM（U+FEFF），已忽略；请存为不带BOM的UTF-8。",
                "The file begins with a byte order mark (U+FEFF), ignored: save it as UTF-8 without one.",
                line=1,
                column=1,
            )
        )
    text = text.replace("\r\n", "\n")
    problems = list(_lone_returns(text))
    if problems:
        text = text.replace("\r", "\n")
    problems += _bad_characters(text)
    seen = frozenset(_BAD.findall(text)) if problems else frozenset()
    return Decoded(_UNREADABLE.sub("\ufffd", text) if seen else text, problems, warnings, seen)


def _encoding_problem(content: bytes) -> Problem | None:
    """UTF-16 and UTF-32, by their marks or by the NULs that plain Latin letters leave in them."""
    if content.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return _encoding("UTF-32")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or content.count(0) * 4 > len(content):
        return _encoding("UTF-16")
    return None


def _encoding(name: str, line: int = 1, column: int = 1) -> Problem:
    return Problem(
        "not-utf-8",
        f"文件不是UTF-8，看起来是{name}；请在编辑器里另存为UTF-8。",
        f"The file is not UTF-8; it looks like {name}: save it as UTF-8.",
        line=line,
        column=column,
    )


def _not_utf8(content: bytes, at: int) -> Problem:
    before = content[:at].decode()
    line, column = place_of(before, len(before))
    if _looks_like_gbk(content):
        return _encoding("GBK", line, column)
    return Problem(
        "not-utf-8",
        f"第{line}行有字节0x{content[at]:02X}，不是UTF-8；请在编辑器里另存为UTF-8。",
        f"Line {line} holds the byte 0x{content[at]:02X}, which is not UTF-8: save the file as UTF-8.",
        line=line,
        column=column,
    )


def _looks_like_gbk(content: bytes) -> bool:
    """Whether it decodes as GBK, mostly to Chinese characters and their punctuation."""
    try:
        wide = [character for character in content.decode("gbk") if not character.isascii()]
    except UnicodeDecodeError:
        return False
    chinese = sum("\u3000" <= character <= "\u9fff" or "\uff00" <= character <= "\uffef" for character in wide)
    return chinese * 2 > len(wide)


def place_of(text: str, index: int) -> tuple[int, int]:
    r"""Line and column, both from 1, of an index into a text whose line breaks are `\n`."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _lone_returns(text: str) -> Iterator[Problem]:
    index = text.find("\r")
    if index >= 0:
        line, column = place_of(text, index)
        yield Problem(
            "control-character",
            "有单独的回车符（U+000D）；换行请用LF或CRLF。",
            "There is a carriage return alone (U+000D): end lines with LF or CRLF.",
            line=line,
            column=column,
        )


def _bad_characters(text: str) -> list[Problem]:
    """One problem for each character and line."""
    problems: list[Problem] = []
    if _BAD.search(text) is None:
        return problems
    for number, line in enumerate(text.split("\n"), 1):
        seen = set()
        for match in _BAD.finditer(line):
            character = match.group()
            if character not in seen and not _belongs_to_emoji(line, match.start()):
                seen.add(character)
                problems.append(bad_character(character, None, number, match.start() + 1))
        if len(problems) >= MAX_REPORTED:
            break
    return problems


def bad_character(character: str, field: str | None, line: int, column: int) -> Problem:
    """A control or invisible character, named, since nobody can see it."""
    name = f"{code_point(character)} {unicodedata.name(character, '')}".strip()
    if character == BOM:
        return Problem(
            "byte-order-mark",
            f"文件中间有BOM（{name}），请删掉。",
            f"There is a byte order mark inside ({name}): delete it.",
            field,
            line,
            column,
        )
    if _BAD_CONTROL.match(character):
        return Problem(
            "control-character",
            f"有控制字符{name}，请删掉。",
            f"There is a control character, {name}: delete it.",
            field,
            line,
            column,
        )
    return Problem(
        "invisible-character",
        f"有看不见的字符{name}，请删掉。",
        f"There is an invisible character, {name}: delete it.",
        field,
        line,
        column,
    )


def first_bad(text: str, *, single_line: bool = False) -> str | None:
    """The first character that may not stand in a value; newline and tab may, but in a single line."""
    for match in _BAD.finditer(text):
        if not _belongs_to_emoji(text, match.start()):
            return match.group()
    if single_line:
        return next((character for character in text if character in "\n\t\r"), None)
    return "\r" if "\r" in text else None


def _belongs_to_emoji(text: str, index: int) -> bool:
    """A joiner between two emoji, or the selector that makes one; of anything else invisible: no."""
    character = text[index]
    before = text[index - 1] if index else ""
    after = text[index + 1 : index + 2]
    if character == EMOJI_SELECTOR:
        return _is_emoji(before) or (before != "" and before in "0123456789#*" and after == _KEYCAP)
    if character == ZERO_WIDTH_JOINER:
        return (before == EMOJI_SELECTOR or _is_emoji(before)) and _is_emoji(after)
    return False


def _is_emoji(character: str) -> bool:
    return character != "" and (_EMOJI.match(character) is not None or unicodedata.category(character) == "So")


def narrow(text: str) -> str:
    """The text with full-width punctuation, letters, digits and spaces as the plain ones they were meant to be."""
    return text.translate(_TO_NARROW)


def wide_names(text: str) -> list[tuple[str, str]]:
    """Each full-width character in it, once, as (`：` U+FF1A, what to write instead)."""
    found = dict.fromkeys(character for character in text if ord(character) in _TO_NARROW)
    shown = []
    for character in found:
        plain = narrow(character)
        blank = "" if character.isspace() else character + " "
        shown.append((f"{blank}{code_point(character)}", "空格/space" if plain == " " else plain))
    return shown
