"""Patterns of parameters: RE2, so that no pattern and no value can hold the interpreter (cases.md Y32).

A pattern is searched, not anchored. `$` is the very end of the text: RE2 has no exception for a final newline.
"""

import re
from functools import lru_cache
from typing import Any, Final

import re2

from service.domain.quoting import escaped, quoted
from service.errors import Message

# Bounds the compiled program and RE2's cache of states: 1 MiB compiles, or refuses, within 5 ms.
MAX_MEMORY_BYTES: Final = 1 << 20
MAX_PATTERN_CHARACTERS: Final = 1_000
# RE2's slowest engine takes about 4.5 ns for one instruction and one byte, without the interpreter's lock.
MAX_STEPS: Final = 64_000_000

_REASONS: Final = (
    (r"invalid perl operator: \(\?<?[=!]", "不支持前后查找 (?= (?! (?<= (?<!", "look-around is not supported"),
    (r"invalid perl operator", "不支持这种 (?…) 写法", "this (?…) form is not supported"),
    (r"invalid escape sequence: \\[1-9]", "不支持反向引用", "back-references are not supported"),
    (r"invalid escape sequence", "不认识的转义", "unknown escape"),
    (r"invalid repetition size", "重复次数最多1000，嵌套的要相乘", "repeats go up to 1000, nested ones multiplied"),
    (r"bad repetition operator", "重复符号不能叠用", "repetition operators cannot be stacked"),
    (r"no argument for repetition", "重复符号前面没有东西可重复", "nothing to repeat"),
    (r"missing closing \)|missing parenthesis", "缺少右括号 )", "a closing ) is missing"),
    (r"unexpected \)", "多了一个右括号 )", "one ) too many"),
    (r"missing closing \]", "缺少右方括号 ]", "a closing ] is missing"),
    (r"invalid character class range", "字符范围不对", "this range of characters is not valid"),
    (r"trailing \\", "末尾多了一个反斜杠", "a backslash stands at the end"),
    (r"pattern too large", "太大了，请写短些或减少重复次数", "too large: shorten it or repeat less"),
)


class PatternError(ValueError):
    """A pattern that cannot be used; `message` says why in both languages."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.en)
        self.message = message


class Pattern:
    """A compiled pattern. `size` is the number of RE2's instructions."""

    __slots__ = ("_regexp", "size")

    def __init__(self, regexp: Any) -> None:
        self._regexp = regexp
        self.size: int = regexp.programsize

    def affords(self, encoded: bytes) -> bool:
        """Whether matching stays within MAX_STEPS whatever the text holds."""
        return len(encoded) * self.size <= MAX_STEPS

    def found_in(self, encoded: bytes) -> bool:
        """Whether it matches anywhere in the UTF-8 text."""
        return self._regexp.search(encoded) is not None


@lru_cache(maxsize=512)
def compile_pattern(text: str) -> Pattern:
    """Compile, or raise PatternError (a ValueError) with the reason in words."""
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise PatternError(
            Message(f"最多{MAX_PATTERN_CHARACTERS}个字符", f"at most {MAX_PATTERN_CHARACTERS:,} characters are taken")
        )
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_MEMORY_BYTES
    try:
        return Pattern(re2.compile(text, options))
    except UnicodeEncodeError:
        raise PatternError(Message("有不成对的代理码位", "it holds a lone surrogate")) from None
    except re2.error as error:
        raise PatternError(_reason(error.args[0] if error.args else b"")) from None


def _reason(raw: Any) -> Message:
    """RE2's own words after ours, since they quote the place."""
    said = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    for sign, zh, en in _REASONS:
        if re.search(sign, said):
            place = quoted(said.split(": ", 1)[1]) if ": " in said else ""
            return Message(f"{zh}{'：' + place if place else ''}", f"{en}{': ' + place if place else ''}")
    return Message(escaped(said[:120]), escaped(said[:120]))
