"""A call's parameters as they stand on a command line: `key=value`, from a file or standard input, or one JSON object."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from service.cli import showing
from service.domain import strict_json
from service.errors import Message, UsageError

_TEXT: Final = "string"
_INPUT: Final = "-"
_FILE: Final = "@"


class Parameters:
    """What was given. `key=@FILE` and `key=-` keep a value out of the process list; `key=@@x` is the text `@x`.

    Raises UsageError for what cannot be read, or is given twice.
    """

    def __init__(self, pairs: Sequence[str], given_as_json: str | None) -> None:
        self._input_is = ""  # which parameter standard input became
        self._from_outside: set[str] = set()
        self._texts: dict[str, str] = {}
        self._others = self._object(given_as_json)
        for pair in pairs:
            self._take(pair)

    @property
    def need_schema(self) -> bool:
        """Whether the definition has to say of which type they are."""
        return bool(self._texts)

    def typed(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """As the tool's `params_schema` types them: texts as they are, all else as JSON. Raises UsageError."""
        return self._others | {key: self._value(key, text, schema.get(key)) for key, text in self._texts.items()}

    def _take(self, pair: str) -> None:
        key, equals, text = pair.partition("=")
        shown = showing.cell(key)
        if not equals or not key:
            raise UsageError(
                Message(f"参数写作 key=value，不是 {shown}。", f"Write parameters as key=value, not {shown}.")
            )
        if key in self._texts or key in self._others:
            raise UsageError(Message(f"参数 {shown} 给了两次。", f"The parameter {shown} is given twice."))
        self._texts[key] = self._read(key, text)

    def _read(self, name: str, text: str) -> str:
        """The text, or what stands in the file or comes on standard input that it names."""
        if text.startswith(_FILE * 2):
            return text[1:]
        if text != _INPUT and not text.startswith(_FILE):
            return text
        self._from_outside.add(name)
        content = self._input(name) if text == _INPUT else _file(text[1:])
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            shown = showing.cell(name)
            raise UsageError(
                Message(f"{shown}：内容不是 UTF-8 文本。", f"{shown}: what was read is no UTF-8 text.")
            ) from None

    def _input(self, name: str) -> bytes:
        if self._input_is:
            raise UsageError(
                Message("标准输入只能给一个参数。", "Standard input can be the value of one parameter only.")
            )
        self._input_is = name
        return sys.stdin.buffer.read()

    def _object(self, text: str | None) -> dict[str, Any]:
        if text is None:
            return {}
        try:
            value = strict_json.loads(self._read("--params", text).encode("utf-8", "surrogateescape"))
        except strict_json.NotJson as error:
            raise UsageError(Message(f"--params 不是 JSON（{error}）。", f"--params is no JSON ({error}).")) from None
        if not isinstance(value, dict):
            raise UsageError(Message("--params 应为 JSON 对象。", "--params takes a JSON object."))
        return value

    def _value(self, key: str, text: str, rule: Any) -> Any:
        rule = rule if isinstance(rule, dict) else {}
        kind = rule.get("type", _TEXT)
        if kind == _TEXT:
            # An editor or `echo` ends a file with a line break, which no password has.
            ends = rule.get("secret") is True and key in self._from_outside
            return text.removesuffix("\n").removesuffix("\r") if ends else text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            shown = showing.cell(key)
            raise UsageError(
                Message(
                    f"参数 {shown} 的类型是 {kind}，须写成 JSON。",
                    f"The parameter {shown} is of type {kind}: write it as JSON.",
                )
            ) from None


def _file(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except (OSError, ValueError) as error:
        shown = showing.cell(name)
        why = showing.cell(getattr(error, "strerror", None) or str(error))
        raise UsageError(Message(f"读不到文件 {shown}（{why}）。", f"Cannot read the file {shown} ({why}).")) from None
