"""Each top-level field of a TOOL.hdlp: its node in, its value or None out (contract/tool-hdlp.md)."""

import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any, Final

from service.domain.definitions import (
    DEFAULT_OUTPUT_BYTES,
    DEFAULT_TIMEOUT_MS,
    EFFECTS,
    EXECUTORS,
    MAX_OUTPUT_BYTES,
    MAX_TIMEOUT_MS,
    Constraints,
)
from service.domain.quoting import code_point, quoted
from service.intake.definitions import fields
from service.intake.definitions import strict_yaml as yaml
from service.intake.definitions.characters import narrow, wide_names
from service.intake.definitions.fields import Notes
from service.intake.definitions.parameter_schema import read_parameters, warn_of_wide_commas

MAX_EXAMPLES: Final = 20
RESERVED_NAMES: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))]
)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _name(notes: Notes, node: yaml.Node) -> str | None:
    found = fields.scalar(notes, node, "name", ("英文工具名，例如shell-exec", "the tool's name, such as shell-exec"))
    if found is None:
        return None
    name = found.text
    if _NAME.fullmatch(name) is None:
        _bad_name(notes, found)
        return None
    if name.lower() in RESERVED_NAMES:
        notes.problem(
            node,
            "name",
            "reserved-name",
            f"{name}是Windows保留的设备名，不能用作工具名。",
            f"{name} is a reserved device name of Windows: choose another.",
        )
        return None
    return name


def _bad_name(notes: Notes, node: yaml.Scalar) -> None:
    name = node.text
    strange = [character for character in dict.fromkeys(name) if not re.fullmatch("[A-Za-z0-9_-]", character)]
    if strange and all(character in notes.reported for character in strange):
        return
    if strange:
        listed = " ".join(f"{quoted(character)} {code_point(character)}" for character in strange[:6])
        zh, en = f"不能有{listed}", f"it cannot hold {listed}"
        better = narrow(name).strip("\"' ")
        if better != name and _NAME.fullmatch(better):
            zh, en = f"{zh}，请写{better}", f"{en}: write {better}"
    elif len(name) > 64:
        zh, en = f"最多64个字符，现在是{len(name)}", f"it has {len(name)} characters, and 64 are the most"
    else:
        zh, en = "要以英文字母开头", "it must begin with a letter"
    notes.problem(
        node,
        "name",
        "bad-name",
        f"工具名{quoted(name)}不行：{zh}。规则：英文字母开头，只用英文字母、数字、-、_，最多64个。",
        f"The name {quoted(name)} is not taken: {en}. The rule: a letter, then letters, digits, - and _, 64 at most.",
    )


def _text(field: str, most: int | None, *, single_line: bool = False) -> Callable[[Notes, yaml.Node], str | None]:
    def read(notes: Notes, node: yaml.Node) -> str | None:
        return fields.text(notes, node, field, most, single_line=single_line)

    return read


def _executor(notes: Notes, node: yaml.Node) -> str | None:
    if isinstance(node, yaml.Scalar) and node.text.strip() == "hldp-api":
        notes.warn(
            node,
            "executor",
            "spelling",
            "hldp-api读作hlpd-api；请写hlpd-api。",
            "hldp-api is read as hlpd-api: write hlpd-api.",
        )
        return "hlpd-api"
    return fields.choice(notes, node, "executor", EXECUTORS)


def _constraints(notes: Notes, node: yaml.Node) -> Constraints | None:
    if isinstance(node, yaml.Broken) or (isinstance(node, yaml.Scalar) and node.empty):
        return None
    if not isinstance(node, yaml.Mapping):
        wide = fields.named(wide_names(node.text)) if isinstance(node, yaml.Scalar) else ("", "")
        notes.problem(
            node, "constraints", "full-width" if wide[0] else "wrong-type",
            f"constraints应是映射，例如{{ timeout_ms: 30000 }}{wide[0]}。",
            f"constraints takes a mapping, such as {{ timeout_ms: 30000 }}{wide[1]}.",
        )  # fmt: skip
        return None
    found, _ = fields.keys(notes, node, "constraints.", ("timeout_ms", "max_output_bytes", "require_confirm"))
    timeout, output, confirm = DEFAULT_TIMEOUT_MS, DEFAULT_OUTPUT_BYTES, False
    if "timeout_ms" in found:
        timeout = fields.integer(notes, found["timeout_ms"], "constraints.timeout_ms", 1, MAX_TIMEOUT_MS) or timeout
    if "max_output_bytes" in found:
        output = (
            fields.integer(notes, found["max_output_bytes"], "constraints.max_output_bytes", 1, MAX_OUTPUT_BYTES)
            or output
        )
    if "require_confirm" in found:
        confirm = fields.boolean(notes, found["require_confirm"], "constraints.require_confirm") or False
    return Constraints(timeout, output, confirm)


def _created(notes: Notes, node: yaml.Node) -> str | None:
    found = fields.scalar(notes, node, "created", ("日期，例如2026-05-31", "a date such as 2026-05-31"))
    if found is None:
        return None
    value = found.text.strip()
    if _DATE.fullmatch(value):
        try:
            date.fromisoformat(value)
        except ValueError:
            notes.problem(node, "created", "bad-date", f"没有{value}这一天。", f"There is no day {value}.")
            return None
        return value
    guess = re.fullmatch(r"([0-9]{4})\D([0-9]{1,2})\D([0-9]{1,2})\D?", narrow(value))
    example = f"{guess[1]}-{int(guess[2]):02}-{int(guess[3]):02}" if guess else "2026-05-31"
    notes.problem(
        node, "created", "bad-date", f"created要写成年-月-日，例如{example}，不是{quoted(value)}。",
        f"created takes year-month-day, such as {example}, not {quoted(value)}.",
    )  # fmt: skip
    return None


def _list(notes: Notes, node: yaml.Node, field: str, example: str) -> list[yaml.Node]:
    if isinstance(node, yaml.Sequence) and node.items:
        warn_of_wide_commas(notes, node, field)
        for index, item in enumerate(node.items):
            notes.places[f"{field}[{index}]"] = (item.line, item.column)
        return node.items
    if not isinstance(node, yaml.Broken):
        zh, en = ("空列表", "an empty list") if isinstance(node, yaml.Sequence) else fields.kind_of(node)
        notes.problem(
            node, field, "wrong-type", f"{field}应是列表，例如{example}；写的是{zh}，不会自动拆分。",
            f"{field} takes a list, such as {example}; {en} stands there, and nothing is split.",
        )  # fmt: skip
    return []


def _command(notes: Notes, node: yaml.Node) -> tuple[str, ...] | None:
    items = _list(notes, node, "command", "[df, -h]")
    vector = [_argument(notes, item, f"command[{index}]") for index, item in enumerate(items)]
    if vector and vector[0] == "":
        notes.problem(
            items[0],
            "command[0]",
            "empty",
            "command的第一项是程序，不能为空。",
            "The first item of command is the program: not empty.",
        )
        return None
    return tuple(item or "" for item in vector) if vector else None


def _argument(notes: Notes, node: yaml.Node, field: str) -> str | None:
    """Kept as it stands, not trimmed; a quoted empty text is an argument too."""
    found = fields.scalar(notes, node, field, ("文本", "a text"))
    return found.text if found is not None and fields.clean(notes, node, field, found.text) else None


def _examples(notes: Notes, node: yaml.Node) -> tuple[str, ...]:
    if isinstance(node, yaml.Sequence) and node.flow and not node.items:
        return ()
    items = _list(notes, node, "examples", "[查磁盘, df]")
    if len(items) > MAX_EXAMPLES:
        notes.problem(
            node, "examples", "too-long", f"examples最多{MAX_EXAMPLES}条，现在是{len(items)}。",
            f"examples takes at most {MAX_EXAMPLES} texts, not {len(items)}.",
        )  # fmt: skip
    texts: Iterable[str | None] = (
        fields.text(notes, item, f"examples[{index}]", None) for index, item in enumerate(items)
    )
    return tuple(text for text in texts if text is not None)


def _node(notes: Notes, node: yaml.Node) -> str | None:
    value = fields.text(notes, node, "node", 64, single_line=True)
    if value is not None and _NODE.fullmatch(value) is None:
        notes.problem(
            node, "node", "bad-name", f"node是设置里的节点名，例如BS-SG-001，不是{quoted(value)}。",
            f"node is a name from the settings, such as BS-SG-001, not {quoted(value)}.",
        )  # fmt: skip
        return None
    return value


def _effect(notes: Notes, node: yaml.Node) -> str | None:
    return fields.choice(notes, node, "effect", EFFECTS)


# In the order of contract/tool-hdlp.md: the ten of the seed, which are required, then the extensions.
READERS: Final[dict[str, Callable[[Notes, yaml.Node], Any]]] = {
    "name": _name,
    "display": _text("display", 80),
    "intent": _text("intent", 500),
    "method": _text("method", 200, single_line=True),
    "executor": _executor,
    "params_schema": read_parameters,
    "constraints": _constraints,
    "author": _text("author", 64, single_line=True),
    "created": _created,
    "why": _text("why", 2000),
    "command": _command,
    "examples": _examples,
    "node": _node,
    "effect": _effect,
    "deprecated": _text("deprecated", None),
}
