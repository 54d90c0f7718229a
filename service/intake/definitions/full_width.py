"""Where a Chinese input method's punctuation stands in for YAML's own: said with line and character (cases.md Y7, Y8).

Only a text that could not be read as a mapping is looked at here; inside a text value they are ordinary text.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

from service.domain.definitions import Problem
from service.domain.quoting import code_point
from service.intake.definitions.characters import narrow

MAX_HINTS: Final = 20
MAX_LINE: Final = 2_000  # characters of a line that are looked at
_INDENTATION: Final = re.compile(r"^[ -]*([\u3000\u00a0])")
_KEY: Final = re.compile(r"""^[ \u3000\u00a0-]*["'“‘]?([A-Za-z_][A-Za-z0-9_-]*)["'”’]?\s*(：)""")
_QUOTED: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'""")
# Inside brackets only where YAML's own would stand: after a key, before one, around a value.
_INSIDE_BRACKETS: Final = re.compile(
    r"""(?<=[A-Za-z0-9_"])\s*(?P<colon>：)|(?P<comma>[，、])\s*["“]?[A-Za-z_]\w*["”]?\s*[:：]"""
    r"""|[:：,，{\[]\s*(?P<opening>[“”‘’｛［【\u3000])|(?P<closing>[｝］】])\s*$"""
)


def hints(text: str, fields: Collection[str], around: int | None) -> list[Problem]:
    """Hints for a text that is no mapping; `around` is the line where the parser gave up, or None when it read all."""
    found: list[Problem] = []
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole[:MAX_LINE]
        near = around is None or around - 1 <= number <= around + 1
        found.extend(_in_line(line, number, fields, near=near))
        if len(found) >= MAX_HINTS:
            break
    return found[:MAX_HINTS]


def _in_line(line: str, number: int, fields: Collection[str], *, near: bool) -> Iterator[Problem]:
    if line.isascii():
        return
    if near and (match := _INDENTATION.match(line)):
        yield _hint(line, number, match.start(1))
    if (match := _KEY.match(line)) and (near or match.group(1) in fields):
        yield _hint(line, number, match.start(2))
        return
    bracket = re.search(r"[\[{]", line)
    if near and bracket:
        unquoted = _QUOTED.sub(lambda quote: '"' * len(quote.group()), line)
        if match := _INSIDE_BRACKETS.search(unquoted, bracket.start()):
            yield _hint(line, number, match.start(match.lastgroup or 0))


def _hint(line: str, number: int, index: int) -> Problem:
    character = line[index]
    plain = narrow(character)
    shown = "" if character.isspace() else f"{character} "
    zh = "半角空格" if plain == " " else f"半角的 {plain}"
    en = "a plain space" if plain == " " else f"'{plain}'"
    return Problem(
        "full-width",
        f"第{number}行有全角字符{shown}{code_point(character)}；请写{zh}。",
        f"Line {number} has a full-width {shown}{code_point(character)}: write {en}.",
        None,
        number,
        index + 1,
    )
