"""The part of YAML that a TOOL.hdlp may use, as nodes with their places, and what it may not use as problems.

No anchors, aliases, tags, merge keys, directives or second documents; no key twice; at most MAX_DEPTH deep and
MAX_NODES nodes. The parser's events are counted before anything is built, so that neither depth nor number costs
anything; PyYAML's own composer recurses.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any, Final

import yaml

from service.domain.definitions import Problem
from service.domain.quoting import quoted
from service.intake.definitions.characters import place_of
from service.intake.definitions.yaml_parsers import PARSER, explain

MAX_DEPTH: Final = 20
MAX_NODES: Final = 2_000
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*")
# So many brackets in a row are no text. Counted before parsing: Python's parser is quadratic in them, libyaml gives up.
_BRACKETS: Final = re.compile(r"(?:[\[{]\s*){64}")


@dataclass(slots=True)
class Scalar:
    """A text and how it was written. `plain`: without quotes; `start`, `end`: indexes into the file's text."""

    text: str
    line: int
    column: int
    plain: bool = True
    block: bool = False
    start: int = 0
    end: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing at all was written."""
        return self.plain and self.text == ""


@dataclass(slots=True)
class Sequence:
    """A list; `flow` when in brackets."""

    line: int
    column: int
    flow: bool = False
    items: "list[Node]" = attribute(default_factory=list)


@dataclass(slots=True)
class Mapping:
    """Pairs of keys and values in their order, each key once; `flow` when in braces."""

    line: int
    column: int
    flow: bool = False
    pairs: "dict[str, tuple[Scalar, Node]]" = attribute(default_factory=dict)


@dataclass(slots=True)
class Broken:
    """Stands where something not allowed was; its problem has been reported."""

    line: int
    column: int


Node = Scalar | Sequence | Mapping | Broken


@dataclass(slots=True)
class Document:
    """What one file holds. `root` is None where there is no document or it could not be parsed to its end."""

    root: Node | None
    problems: list[Problem]
    failed_at: tuple[int, int] | None = None


class _Stop(Exception):
    """Too deep or too many: nothing more is read."""


def compose(text: str, parser: Any = PARSER) -> Document:
    """Nodes of a text whose control characters have been dealt with. Never raises for what the text holds."""
    building = _Building(text)
    if match := _BRACKETS.search(text):
        building.too_deep(*place_of(text, match.start()))
        return Document(None, building.problems)
    try:
        for event in yaml.parse(text, Loader=parser):
            building.take(event)
    except _Stop:
        return Document(None, building.problems)
    except yaml.MarkedYAMLError as error:
        return _failed(building, error)
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:  # an escape beyond Unicode, in Python's parser
        building.problem(
            "not-yaml", f"不是YAML：{quoted(str(error), 80)}。", f"This is not YAML: {quoted(str(error), 80)}.", 1, 1
        )
        return Document(None, building.problems, (1, 1))
    building.check_tabs()
    return Document(building.root, building.problems)


class _Building:
    """Takes events, keeps a stack of open collections, and notes what is not allowed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._open: list[tuple[Sequence | Mapping, Node | None]] = []  # with the key that waits for its value
        self._nodes = 0
        self._documents = 0
        self._scalars: list[Scalar] = []

    def problem(self, code: str, zh: str, en: str, line: int, column: int) -> None:
        """Note one problem of structure."""
        self.problems.append(Problem(code, zh, en, None, line, column))

    def take(self, event: Any) -> None:
        """One event of the parser."""
        if isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(event), event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._enter(Sequence(*_place(event), flow=bool(event.flow_style)), event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._enter(Mapping(*_place(event), flow=bool(event.flow_style)), event)
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            self._open.pop()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._document(event)

    def _scalar(self, event: Any) -> Scalar:
        style = event.style
        scalar = Scalar(
            event.value,
            *_place(event),
            plain=style is None or style == "",
            block=style in ("|", ">"),
            start=event.start_mark.index,
            end=event.end_mark.index,
        )
        self._scalars.append(scalar)
        return scalar

    def _count(self, line: int, column: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self.problem(
                "too-many-nodes",
                f"内容太多：最多{MAX_NODES}个节点。",
                f"Too much: at most {MAX_NODES:,} nodes are taken.",
                line,
                column,
            )
            raise _Stop

    def _enter(self, node: Sequence | Mapping, event: Any) -> None:
        self._add(node, event)
        self._open.append((node, None))
        if len(self._open) > MAX_DEPTH:
            self.too_deep(node.line, node.column)
            raise _Stop

    def too_deep(self, line: int, column: int) -> None:
        """Note that collections are nested deeper than MAX_DEPTH."""
        self.problem(
            "too-deep",
            f"嵌套太深：最多{MAX_DEPTH}层。",
            f"Nested too deep: at most {MAX_DEPTH} levels are taken.",
            line,
            column,
        )

    def _alias(self, event: Any) -> None:
        line, column = _place(event)
        self.problem(
            "alias",
            f"不能用引用 *{event.anchor}；请把内容写出来，或给文本加引号。",
            f"The alias *{event.anchor} is not taken: write the content itself, or quote the text.",
            line,
            column,
        )
        self._attach(Broken(line, column))

    def _add(self, node: Scalar | Sequence | Mapping, event: Any) -> None:
        self._count(node.line, node.column)
        if event.anchor is not None:
            self.problem(
                "anchor",
                f"不能用锚点 &{event.anchor}；请删掉，或给文本加引号。",
                f"The anchor &{event.anchor} is not taken: delete it, or quote the text.",
                node.line,
                node.column,
            )
        if event.tag is not None:
            tag = quoted(event.tag.replace("tag:yaml.org,2002:", "!!"))
            self.problem(
                "tag",
                f"不能用标签 {tag}；请删掉，或给文本加引号。",
                f"The tag {tag} is not taken: delete it, or quote the text.",
                node.line,
                node.column,
            )
        self._attach(node)

    def _attach(self, node: Node) -> None:
        if not self._open:
            if self._documents <= 1:
                self.root = node
            return
        parent, key = self._open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif key is None:
            self._open[-1] = (parent, node)
        else:
            self._open[-1] = (parent, None)
            self._pair(parent, key, node)

    def _pair(self, parent: Mapping, key: Node, value: Node) -> None:
        if not isinstance(key, Scalar) or key.text == "":
            self.problem(
                "bad-key",
                "键必须是一个名字，不能为空或是列表、映射。",
                "A key is a name; it cannot be empty, a list or a mapping.",
                key.line,
                key.column,
            )
        elif key.plain and key.text == "<<":
            self.problem(
                "merge-key",
                "不能用合并键 <<；请把内容写出来。",
                "The merge key << is not taken: write the content itself.",
                key.line,
                key.column,
            )
        elif (first := parent.pairs.get(key.text)) is not None:
            self._twice(key, first[0])
        else:
            parent.pairs[key.text] = (key, value)

    def _twice(self, key: Scalar, first: Scalar) -> None:
        name = quoted(key.text)
        self.problem(
            "duplicate-key",
            f"键{name}写了两次：第{first.line}行和第{key.line}行；请只留一个。",
            f"The key {name} stands twice, in lines {first.line} and {key.line}: keep one.",
            key.line,
            key.column,
        )

    def _document(self, event: Any) -> None:
        self._documents += 1
        line, column = _place(event)
        if self._documents == 2:
            self.problem(
                "second-document", "一个文件只能有一个文档；请删掉后面的 --- 和它以下的内容。",
                "One file holds one document: delete the later --- and what follows.", line, column,
            )  # fmt: skip
        if event.version or event.tags:
            self.problem(
                "directive",
                "不能用 % 指令；请删掉这一行。",
                "Directives (%) are not taken: delete the line.",
                line,
                column,
            )

    def check_tabs(self) -> None:
        """A tab may stand in a quoted or block text and in a comment. libyaml takes others, Python's parser none."""
        if "\t" not in self.text:
            return
        plain = self._without_scalars()
        for number, line in enumerate(plain.split("\n"), 1):
            if "\t" in line and (place := _COMMENT.sub("", line).find("\t")) >= 0:
                self.problems.append(tab_problem(self.text, number, place + 1))

    def _without_scalars(self) -> str:
        """The text with the inside of quoted and block scalars, and each `#` of a plain one, masked; line breaks stay."""
        pieces, at = [], 0
        for scalar in self._scalars:
            if scalar.start < at or scalar.start == scalar.end:
                continue
            inside = self.text[scalar.start : scalar.end]
            masked = inside.replace("#", "x") if scalar.plain else re.sub(r"[^\n]", "x", inside)
            pieces += [self.text[at : scalar.start], masked]
            at = scalar.end
        return "".join([*pieces, self.text[at:]])


def tab_problem(text: str, line: int, column: int) -> Problem:
    """A tab where YAML wants spaces; of a line's indentation or between words."""
    begin = text.split("\n", line)[line - 1][: column - 1]
    if begin.strip() == "":
        return Problem(
            "tab",
            "缩进用了制表符（Tab）；请改成空格。",
            "A tab is used as indentation: use spaces.",
            None,
            line,
            column,
        )
    return Problem(
        "tab",
        "有制表符（Tab）；请改成空格，或给文本加引号。",
        "There is a tab: use a space, or quote the text.",
        None,
        line,
        column,
    )


def leading_tabs(text: str) -> Iterator[Problem]:
    """Each line indented with a tab; the most likely reason when a text that has some cannot be parsed."""
    for match in re.finditer(r"^ *\t(?=[ \t]*[^ \t\n#])", text, re.MULTILINE):
        yield tab_problem(text, *place_of(text, match.end() - 1))


def _place(event: Any) -> tuple[int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _failed(building: _Building, error: Any) -> Document:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if mark is not None and building.text[mark.index : mark.index + 1] == "\t":
        building.problems.append(tab_problem(building.text, line, column))
    else:
        message, raw = explain(error.context, error.problem), quoted(error.problem or error.context or "", 80)
        zh, en = f"不是YAML：{message.zh}（{raw}）。", f"This is not YAML: {message.en} ({raw})."
        building.problem("not-yaml", zh, en, line, column)
    return Document(None, building.problems, (line, column))
