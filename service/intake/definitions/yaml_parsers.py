"""The parser that reads YAML's events: libyaml's where PyYAML was built with it, else Python's, with the same answers.

PyYAML's wheels have libyaml. What the two say when they give up differs; here it becomes words for people.
"""

import re
from typing import Any, Final

import yaml
from yaml.scanner import ScannerError
from yaml.tokens import ScalarToken

from service.errors import Message

_BREAKS: Final = "\0 \t\r\n\x85\u2028\u2029"


class PythonParser(yaml.SafeLoader):
    """PyYAML's own parser, taking `?` and `:` inside a plain text in brackets as libyaml does: `[a?b]`."""

    def scan_plain(self) -> ScalarToken:
        """A plain scalar's token."""
        chunks: list[str] = []
        start = end = self.get_mark()
        indent = self.indent + 1
        spaces: list[str] | None = []
        while self.peek() != "#":
            length = self._plain_length()
            if length == 0:
                break
            self.allow_simple_key = False
            chunks.extend(spaces or ())
            chunks.append(self.prefix(length))
            self.forward(length)
            end = self.get_mark()
            spaces = self.scan_plain_spaces(indent, start)
            if not spaces or self.peek() == "#" or (not self.flow_level and self.column < indent):
                break
        return ScalarToken("".join(chunks), plain=True, start_mark=start, end_mark=end)

    def scan_block_scalar_indentation(self) -> Any:
        """The first line's spaces; a tab there is refused, as by libyaml."""
        found = super().scan_block_scalar_indentation()
        if self.peek() == "\t":
            said = "found a tab character where an indentation space is expected"
            raise ScannerError("while scanning a block scalar", None, said, self.get_mark())
        return found

    def _plain_length(self) -> int:
        length = 0
        closing = ",[]{}" if self.flow_level else ""
        while True:
            character = self.peek(length)
            if character in _BREAKS or character in closing:
                return length
            if character == ":":
                after = self.peek(length + 1)
                if after in _BREAKS:
                    return length
                if after in closing or (closing and after == "?"):
                    raise ScannerError("while scanning a plain scalar", None, "found unexpected ':'", self.get_mark())
            length += 1


PARSER: Final[Any] = getattr(yaml, "CSafeLoader", PythonParser)

# What the parsers say (libyaml and PyYAML word it differently), in words for people.
_SAID: Final = (
    (
        r"mapping values are not allowed",
        "这里不能再有“: ”；值里有冒号就给它加引号，或检查缩进",
        "a `: ` cannot stand here: quote the value if it holds one, or check the indentation",
    ),
    (
        r"could not find expected ':'",
        "这一行不是“键: 值”；检查冒号（半角，后面有空格）和缩进",
        "this line is no `key: value`: check the colon and the space after it, and the indentation",
    ),
    (
        r"found unexpected ':'",
        "冒号后面要有空格和值；值里有冒号就给它加引号",
        "a space and a value follow a colon: quote the value if it holds one",
    ),
    (
        r"cannot start any token",
        "值不能以这个字符开头；请给它加引号",
        "a value cannot begin with this character: quote it",
    ),
    (
        r"while scanning a quoted scalar|unexpected end of stream|found unexpected document",
        "引号没有配对",
        "a quote is not closed",
    ),
    (
        r"unknown escape|escape sequence|hexadecimal|escape character|Unicode character",
        "双引号里的 \\ 转义不对；反斜杠写成 \\\\，或改用单引号",
        "an escape inside double quotes is not valid: write \\\\ for a backslash, or use single quotes",
    ),
    (
        r"expected ',' or '[\]}]'|flow (mapping|sequence)|flow node",
        "括号里的写法不对：逗号、冒号要半角，括号要配对",
        "something inside the brackets is not valid: plain commas and colons, and each bracket closed",
    ),
    (
        r"expected key|<block end>|block (mapping|collection|sequence)|expected '-'",
        "缩进和上面的行不一致，或值后面多了东西（给值加引号）",
        "the indentation does not agree with the lines above, or something follows a value (quote it)",
    ),
    (r"block scalar|indentation indicator", "| 或 > 后面的写法不对", "what follows | or > is not valid"),
    (r"alias|anchor", "* 或 & 开头的文本要加引号", "a text that begins with * or & needs quotes"),
    (r"tag", "! 开头的文本要加引号", "a text that begins with ! needs quotes"),
    (r"directive", "% 开头的行不是这里能用的", "a line that begins with % is not taken here"),
    (r"document start", "这里多出了内容，不属于上面的任何一项", "this belongs to nothing above it"),
)


def explain(context: str | None, problem: str | None) -> Message:
    """What a parser said when it gave up, in words for people."""
    said = f"{context or ''}; {problem or ''}"
    for sign, zh, en in _SAID:
        if re.search(sign, said):
            return Message(zh, en)
    return Message("读到这里就不通了", "it cannot be read on from here")
