"""Values of single fields: a node in; a checked value out, or None and a noted problem. Nothing is coerced.

A scalar stays text unless its field is a number or a boolean; those are plain scalars in JSON's grammar
(contract/tool-hdlp.md).
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from service.domain.definitions import Problem
from service.domain.parameters import MAX_INTEGER
from service.domain.quoting import code_point, quoted, shown_name
from service.intake.definitions import strict_yaml as yaml
from service.intake.definitions.characters import bad_character, first_bad, narrow, wide_names

MAX_PROBLEMS: Final = 100
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NULLS: Final = frozenset({"null", "Null", "NULL", "~"})

# What people write for a field, where no spelling would lead to it.
_MEANT: Final[Mapping[str, str]] = {
    "params": "params_schema", "parameters": "params_schema", "timeout": "timeout_ms", "description": "intent",
    "desc": "description", "args": "command", "argv": "command", "confirm": "require_confirm", "reason": "why",
    "title": "display", "date": "created", "min": "minimum", "max": "maximum",
    "sensitive": "secret", "regex": "pattern",
    "名称": "name", "名字": "name", "显示名": "display", "意图": "intent", "方法": "method", "执行器": "executor",
    "参数": "params_schema", "约束": "constraints", "作者": "author", "创建时间": "created",
    "原因": "why", "为什么": "why",
    "类型": "type", "必填": "required", "描述": "description", "说明": "description",
    "默认值": "default", "命令": "command",
}  # fmt: skip


class Notes:
    """Collects problems and warnings, and remembers where each field stands."""

    def __init__(self, problems: Collection[Problem] = (), warnings: Collection[Problem] = ()) -> None:
        self.problems = list(problems)
        self.warnings = list(warnings)
        self.places: dict[str, tuple[int, int]] = {}
        self.reported: frozenset[str] = frozenset()  # characters that were reported where they stand

    @property
    def full(self) -> bool:
        """Whether more problems would only be counted; suggestions for them are not worth their time."""
        return len(self.problems) > MAX_PROBLEMS

    def problem(self, node: yaml.Node, field: str | None, code: str, zh: str, en: str) -> None:
        """Note what is wrong at a node."""
        self.problems.append(Problem(code, zh, en, field, node.line, node.column))

    def warn(self, node: yaml.Node, field: str | None, code: str, zh: str, en: str) -> None:
        """Note what is allowed and probably not meant."""
        self.warnings.append(Problem(code, zh, en, field, node.line, node.column))

    def without_reported(self, key: str) -> str:
        """A key without the characters that were reported where they stand, so that one mistake is one problem."""
        return "".join(character for character in key if character not in self.reported) if self.reported else key

    def placed(self, found: Problem) -> Problem:
        """The problem of a rule that knows fields only, with the place of its field or of the nearest one around it."""
        if found.line is not None or found.field is None:
            return found
        field = found.field
        while field not in self.places and field:
            field = re.sub(r"(?:\.[^.\[]*|\[\d+\]|^[^.\[]*)$", "", field)
        line, column = self.places.get(field, (None, None))
        return replace(found, line=line, column=column)


def kind_of(node: yaml.Node) -> tuple[str, str]:
    """How a node is called in zh and en."""
    if isinstance(node, yaml.Sequence):
        return "列表", "a list"
    if isinstance(node, yaml.Mapping):
        return "映射", "a mapping"
    return ("空的", "nothing") if isinstance(node, yaml.Scalar) and node.empty else ("文本", "a text")


def scalar(notes: Notes, node: yaml.Node, field: str, wanted: tuple[str, str]) -> yaml.Scalar | None:
    """The node, when it is a scalar that is not empty; `wanted` says in zh and en what to write."""
    if isinstance(node, yaml.Broken):
        return None
    if isinstance(node, yaml.Scalar):
        if node.empty:
            notes.problem(
                node, field, "empty", f"{field}是空的；请写{wanted[0]}。", f"{field} is empty: write {wanted[1]}."
            )
            return None
        return node
    zh, en = kind_of(node)
    notes.problem(
        node,
        field,
        "wrong-type",
        f"{field}要{wanted[0]}，写的是{zh}。",
        f"{field} takes {wanted[1]}, and {en} stands there.",
    )
    return None


def text(notes: Notes, node: yaml.Node, field: str, most: int | None, *, single_line: bool = False) -> str | None:
    """A text of 1 to `most` code points after trimming."""
    found = scalar(notes, node, field, ("文本", "a text"))
    if found is None:
        return None
    value = found.text.strip()
    if value == "":
        notes.problem(node, field, "empty", f"{field}是空的；请写上内容。", f"{field} is empty: write something.")
        return None
    if not clean(notes, node, field, value, single_line=single_line):
        return None
    if most is not None and len(value) > most:
        notes.problem(
            node,
            field,
            "too-long",
            f"{field}最多{most}个字符，现在是{len(value)}。",
            f"{field} takes at most {most:,} characters, not {len(value):,}.",
        )
        return None
    warn_of_null(notes, found, field)
    return value


def clean(notes: Notes, node: yaml.Node, field: str, value: str, *, single_line: bool = False) -> bool:
    """Whether a value holds no control or invisible character, escaped ones included; raw ones were reported."""
    bad = first_bad(value, single_line=single_line)
    if bad is None:
        return True
    if bad not in notes.reported:
        if bad in "\n\t":
            notes.problem(
                node,
                field,
                "control-character",
                f"{field}只能写一行，不能有换行和制表符。",
                f"{field} is one line, without tabs.",
            )
        else:
            notes.problems.append(bad_character(bad, field, node.line, node.column))
    return False


def warn_of_null(notes: Notes, node: yaml.Scalar, field: str) -> None:
    """`null` is a text here, and hardly meant as one."""
    if node.plain and node.text in _NULLS:
        notes.warn(
            node,
            field,
            "null-is-text",
            f"{field}的{node.text}在这里是一段文本；没有值就删掉这一行，真要这段文本就加引号。",
            f"{node.text} is a text in {field}: delete the line where there is no value, or quote it.",
        )


def integer(notes: Notes, node: yaml.Node, field: str, least: int, most: int) -> int | None:
    """A plain integer within both bounds."""
    found = scalar(notes, node, field, ("一个整数", "an integer"))
    if found is None:
        return None
    value = plain_integer(found)
    if value is None:
        _not_a_number(notes, found, field, ("整数", "an integer"))
        return None
    if not least <= value <= most:
        notes.problem(
            node,
            field,
            "out-of-range",
            f"{field}要在{least}和{most}之间，不是{quoted(value)}。",
            f"{field} must lie between {least:,} and {most:,}, not {quoted(value)}.",
        )
        return None
    return value


def number(notes: Notes, node: yaml.Node, field: str) -> int | float | None:
    """A plain number; an integer stays one."""
    found = scalar(notes, node, field, ("一个数字", "a number"))
    if found is None:
        return None
    value = plain_number(found)
    if value is None:
        _not_a_number(notes, found, field, ("数字", "a number"))
    return value


def plain_integer(node: yaml.Scalar) -> int | None:
    """The integer a plain scalar writes in JSON's grammar; beyond 40 digits it is none that any field takes."""
    return int(node.text) if node.plain and len(node.text) <= 40 and _INTEGER.fullmatch(node.text) else None


def plain_number(node: yaml.Scalar) -> int | float | None:
    """The finite number a plain scalar writes in JSON's grammar."""
    if not node.plain or _NUMBER.fullmatch(node.text) is None:
        return None
    if _INTEGER.fullmatch(node.text):
        value = plain_integer(node)
        return value if value is not None and abs(value) <= MAX_INTEGER else None
    fraction = float(node.text)
    return fraction if math.isfinite(fraction) else None


def _not_a_number(notes: Notes, node: yaml.Scalar, field: str, wanted: tuple[str, str]) -> None:
    """Says what to write where the number can be guessed."""
    zh, en = f"{field}要{wanted[0]}", f"{field} takes {wanted[1]}"
    guess = re.sub(r"[_,\s]", "", narrow(node.text)).lstrip("+").removesuffix("ms")
    better = guess if _NUMBER.fullmatch(guess) and (wanted[0] != "整数" or _INTEGER.fullmatch(guess)) else None
    code = "full-width" if better is not None and wide_names(node.text) else "wrong-type"
    if better is not None and len(better) <= 20:
        notes.problem(
            node,
            field,
            code,
            f"{zh}：请写{better}，不加引号，不是{quoted(node.text)}。",
            f"{en}: write {better} without quotes, not {quoted(node.text)}.",
        )
    else:
        notes.problem(
            node,
            field,
            code,
            f"{zh}，只用半角数字、不加引号，例如30000；不是{quoted(node.text)}。",
            f"{en} in plain digits without quotes, such as 30000; not {quoted(node.text)}.",
        )


_YES: Final = frozenset({"yes", "y", "on", "true", "1", "是", "真"})
_NO: Final = frozenset({"no", "n", "off", "false", "0", "否", "假"})


def boolean(notes: Notes, node: yaml.Node, field: str) -> bool | None:
    """A plain `true` or `false`."""
    found = scalar(notes, node, field, ("true或false", "true or false"))
    if found is None:
        return None
    if (value := plain_boolean(found)) is not None:
        return value
    said = narrow(found.text).strip("\"' ").lower()
    better = "true" if said in _YES else "false" if said in _NO else "true或false"
    notes.problem(
        node,
        field,
        "wrong-type",
        f"{field}要写{better}，不加引号，不是{quoted(found.text)}。",
        f"{field} takes {better.replace('或', ' or ')} without quotes, not {quoted(found.text)}.",
    )
    return None


def plain_boolean(node: yaml.Scalar) -> bool | None:
    """What a plain `true` or `false` says."""
    return {"true": True, "false": False}.get(node.text) if node.plain else None


def choice(notes: Notes, node: yaml.Node, field: str, choices: Collection[str]) -> str | None:
    """One of a few words."""
    listed = " ".join(choices)
    found = scalar(notes, node, field, (f"其中一个：{listed}", f"one of {listed}"))
    if found is None:
        return None
    value = found.text.strip()
    if value in choices:
        return value
    wide = wide_names(value)
    near = get_close_matches(narrow(value).strip("\"' ").lower(), choices, 1, 0.5)
    guess_zh, guess_en = (f"，是不是{near[0]}？", f"; did you mean {near[0]}?") if near else ("。", ".")
    notes.problem(
        node,
        field,
        "full-width" if wide and near else "not-a-choice",
        f"{field}只能是{listed}之一，不是{quoted(value)}{named(wide)[0]}{guess_zh}",
        f"{field} takes one of {listed}, not {quoted(value)}{named(wide)[1]}{guess_en}",
    )
    return None


def named(wide: list[tuple[str, str]]) -> tuple[str, str]:
    """Full-width characters and what to write instead, in zh and en; empty for none."""
    if not wide:
        return "", ""
    zh = "、".join(f"{name}应写{plain.split('/')[0]}" for name, plain in wide[:4])
    en = ", ".join(
        f"{name} should be {plain.rsplit('/', maxsplit=1)[-1] if len(plain) > 1 else plain}" for name, plain in wide[:4]
    )
    return f"（全角字符：{zh}）", f" (full-width characters: {en})"


def keys(
    notes: Notes, node: yaml.Mapping, prefix: str, known: Collection[str]
) -> tuple[dict[str, yaml.Node], frozenset[str]]:
    """The known keys of a mapping, and those that unknown ones probably meant. Keys `x-…` are ignored."""
    found: dict[str, yaml.Node] = {}
    meant: set[str] = set()
    for written, (key, value) in node.pairs.items():
        name = notes.without_reported(written)
        if name in known and name not in found:
            found[name] = value
            place = value if isinstance(value, yaml.Scalar) else key
            notes.places[f"{prefix}{name}"] = (place.line, place.column)
        elif not name.startswith("x-"):
            guess = _unknown(notes, key, prefix, known)
            meant.update(() if guess is None else (guess,))
    return found, frozenset(meant)


def _unknown(notes: Notes, key: yaml.Scalar, prefix: str, known: Collection[str]) -> str | None:
    field = f"{prefix}{shown_name(key.text)}"
    if notes.full:
        notes.problem(key, field, "unknown-field", "没有这个字段。", "There is no such field.")
        return None
    narrowed = narrow(key.text).strip()
    name = re.split(r"[:\s]", narrowed, maxsplit=1)[0].strip("\"'")
    if name in known and name != key.text:
        wide = named(wide_names(key.text))
        notes.problem(
            key,
            field,
            "full-width",
            f"{quoted(key.text)}不是字段名{wide[0]}；请写{name}: 加一个半角空格。",
            f"{quoted(key.text)} is no field{wide[1]}: write `{name}: ` with a plain colon and space.",
        )
        return name
    guess = _MEANT.get(narrowed.lower())
    if guess not in known:
        near = get_close_matches(name, known, 1) if len(name) <= 40 else []
        guess = near[0] if near else None
    strange = "".join(f" {code_point(character)}" for character in dict.fromkeys(key.text) if not character.isascii())[
        :60
    ]
    odd_zh, odd_en = (f"（含{strange.strip()}）", f" (it holds{strange})") if strange and guess else ("", "")
    help_zh, help_en = (f"是不是{guess}？", f"did you mean {guess}?") if guess else (
        f"有的是：{' '.join(known)}；自己加的请以x-开头。", f"there are {' '.join(known)}; your own begin with x-."
    )  # fmt: skip
    notes.problem(
        key,
        field,
        "unknown-field",
        f"没有字段{quoted(key.text)}{odd_zh}；{help_zh}",
        f"There is no field {quoted(key.text)}{odd_en}: {help_en}",
    )
    return guess
