"""`params_schema`: each parameter's mapping, read into a Parameter (contract/tool-hdlp.md)."""

import re
from dataclasses import replace
from typing import Any, Final

from service.domain.definitions import ABSENT, TYPES, Parameter
from service.domain.parameters import MAX_INTEGER, value_problem
from service.domain.patterns import PatternError, compile_pattern
from service.domain.quoting import code_point, quoted, shown_name
from service.intake.definitions import fields
from service.intake.definitions import strict_yaml as yaml
from service.intake.definitions.characters import wide_names
from service.intake.definitions.fields import Notes

KEYS: Final = (
    "type", "required", "description", "default", "enum", "pattern", "minimum", "maximum", "min_length", "max_length",
    "secret", "items",
)  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# Which keys say something about which types only.
_ONLY_FOR: Final = {
    "pattern": ("string",),
    "minimum": ("integer", "number"),
    "maximum": ("integer", "number"),
    "min_length": ("string", "array"),
    "max_length": ("string", "array"),
    "items": ("array",),
}


def read_parameters(notes: Notes, node: yaml.Node) -> dict[str, Parameter]:
    """Every parameter, also those with problems, so that what refers to them is not reported as undeclared."""
    parameters: dict[str, Parameter] = {}
    if isinstance(node, yaml.Broken) or (isinstance(node, yaml.Scalar) and node.empty):
        return parameters
    if not isinstance(node, yaml.Mapping):
        _not_a_mapping(notes, node, "params_schema", "cmd: { type: string, required: true }")
        return parameters
    for name, (key, value) in node.pairs.items():
        if name.startswith("x-"):
            continue
        field = f"params_schema.{shown_name(name)}"
        notes.places[field] = (key.line, key.column)
        if _NAME.fullmatch(name) is None:
            _bad_name(notes, key, field)
        parameters[name] = _parameter(notes, value, field)
    return parameters


def _not_a_mapping(notes: Notes, node: yaml.Node, field: str, example: str) -> None:
    if isinstance(node, yaml.Scalar) and not node.empty and (wide := fields.named(wide_names(node.text)))[0]:
        notes.problem(
            node,
            field,
            "full-width",
            f"{field}应是映射，例如{example}{wide[0]}。",
            f"{field} takes a mapping, such as {example}{wide[1]}.",
        )
        return
    zh, en = fields.kind_of(node)
    notes.problem(
        node,
        field,
        "wrong-type",
        f"{field}应是映射，例如{example}；写的是{zh}。",
        f"{field} takes a mapping, such as {example}; {en} stands there.",
    )


def _bad_name(notes: Notes, key: yaml.Scalar, field: str) -> None:
    strange = [character for character in dict.fromkeys(key.text) if not re.fullmatch("[A-Za-z0-9_]", character)]
    if strange and all(character in notes.reported for character in strange):
        return
    listed = " ".join(f"{quoted(character)} {code_point(character)}" for character in strange[:6])
    zh, en = (f"；不能有{listed}", f"; not {listed}") if strange else ("", "")
    notes.problem(
        key,
        field,
        "bad-name",
        f"参数名{quoted(key.text)}不行：以字母或_开头，只用字母、数字、_，最多64个{zh}。",
        f"The parameter name {quoted(key.text)} is not taken: a letter or _, then letters, digits, _, 64 at most{en}.",
    )


def _parameter(notes: Notes, node: yaml.Node, field: str) -> Parameter:
    if isinstance(node, yaml.Broken):
        return Parameter("string")
    if not isinstance(node, yaml.Mapping):
        _not_a_mapping(notes, node, field, "{ type: string }")
        return Parameter("string")
    found, meant = fields.keys(notes, node, f"{field}.", KEYS)
    before = len(notes.problems)
    kind = None
    if "type" in found:
        kind = fields.choice(notes, found["type"], f"{field}.type", TYPES)
    elif "type" not in meant:
        notes.problem(
            node,
            field,
            "missing",
            f"{field}缺少type：{' '.join(TYPES)}之一。",
            f"{field} lacks its type: one of {' '.join(TYPES)}.",
        )
    if kind is not None:
        _check_uses(notes, found, field, kind)
    parameter = _limits(notes, found, field, kind or "string")
    if kind is None:
        return parameter
    return _with_values(notes, found, field, parameter, sound=len(notes.problems) == before)


def _check_uses(notes: Notes, found: dict[str, yaml.Node], field: str, kind: str) -> None:
    for key, kinds in _ONLY_FOR.items():
        if key in found and kind not in kinds:
            takers = " ".join(kinds)
            notes.problem(
                found[key], f"{field}.{key}", "not-for-type", f"{key}只用于{takers}，{field}是{kind}；请删掉。",
                f"{key} is for {takers}, and {field} is {kind}: delete it.",
            )  # fmt: skip


def _limits(notes: Notes, found: dict[str, yaml.Node], field: str, kind: str) -> Parameter:
    """All but `default` and `enum`, whose values depend on these."""
    values: dict[str, Any] = {}
    for key in ("required", "secret"):
        if key in found:
            values[key] = fields.boolean(notes, found[key], f"{field}.{key}") or False
    if "description" in found:
        values["description"] = fields.text(notes, found["description"], f"{field}.description", None) or ""
    for pair, read in ((("minimum", "maximum"), fields.number), (("min_length", "max_length"), _length)):
        for key in pair:
            if key in found and kind in _ONLY_FOR[key]:
                values[key] = read(notes, found[key], f"{field}.{key}")
        _check_order(notes, found, field, values, pair)
    if "pattern" in found and kind == "string":
        values["pattern"] = _pattern(notes, found["pattern"], f"{field}.pattern")
    if "items" in found and kind == "array":
        values["items"] = _items(notes, found["items"], f"{field}.items")
        values["secret"] = (
            values.get("secret", False) or values["items"].secret
        )  # what is secret inside is secret outside
    return Parameter(kind, **values)


def _length(notes: Notes, node: yaml.Node, field: str) -> int | None:
    return fields.integer(notes, node, field, 0, MAX_INTEGER)


def _check_order(
    notes: Notes, found: dict[str, yaml.Node], field: str, values: dict[str, Any], names: tuple[str, str]
) -> None:
    low, high = (values.get(name) for name in names)
    if low is not None and high is not None and low > high:
        notes.problem(
            found[names[1]],
            f"{field}.{names[1]}",
            "out-of-range",
            f"{names[1]}不能小于{names[0]}。",
            f"{names[1]} cannot be below {names[0]}.",
        )


def _pattern(notes: Notes, node: yaml.Node, field: str) -> str | None:
    found = fields.scalar(notes, node, field, ("一个正则表达式", "a regular expression"))
    if found is None or not fields.clean(notes, node, field, found.text):
        return None
    try:
        compile_pattern(found.text)
    except PatternError as error:
        notes.problem(
            node,
            field,
            "bad-pattern",
            f"{field}不能用：{error.message.zh}（RE2语法）。",
            f"{field} cannot be used: {error.message.en} (RE2's syntax).",
        )
        return None
    return found.text


def _items(notes: Notes, node: yaml.Node, field: str) -> Parameter:
    items = _parameter(notes, node, field)
    if items.default is not ABSENT:
        notes.warn(node, field, "no-effect", f"{field}.default不起作用。", f"{field}.default has no effect.")
        items = replace(items, default=ABSENT)
    return items


def _with_values(
    notes: Notes, found: dict[str, yaml.Node], field: str, parameter: Parameter, *, sound: bool
) -> Parameter:
    """`enum` and `default`, of the parameter's type and within its limits (those only when the limits are `sound`)."""
    if "enum" in found:
        choices = _enum(notes, found["enum"], f"{field}.enum", parameter, sound=sound)
        sound = sound and choices is not None
        parameter = replace(parameter, enum=choices)
    if "default" not in found:
        return parameter
    node, place = found["default"], f"{field}.default"
    if parameter.secret:
        notes.problem(
            node, place, "secret-default", f"{field}是secret，不能有默认值：它会写在仓库里。",
            f"{field} is secret and cannot have a default: it would stand in the repository.",
        )  # fmt: skip
        return parameter
    value = _value(notes, node, place, parameter)
    if value is ABSENT:
        return parameter
    if sound and (problem := value_problem(parameter, value, place)):
        notes.problem(node, place, "bad-default", problem.zh, problem.en)
    if parameter.required:
        notes.warn(
            node,
            place,
            "no-effect",
            f"{field}有默认值，required: true不起作用。",
            f"{field} has a default, so required: true has no effect.",
        )
    return replace(parameter, default=value)


def _enum(notes: Notes, node: yaml.Node, field: str, parameter: Parameter, *, sound: bool) -> tuple[Any, ...] | None:
    if isinstance(node, yaml.Broken):
        return None
    if not isinstance(node, yaml.Sequence) or not node.items:
        notes.problem(
            node,
            field,
            "wrong-type",
            f"{field}应是至少有一项的列表，例如[a, b]。",
            f"{field} takes a list of at least one item, such as [a, b].",
        )
        return None
    warn_of_wide_commas(notes, node, field)
    choices: list[Any] = []
    seen: set[str] = set()
    for index, item in enumerate(node.items):
        place = f"{field}[{index}]"
        value = _value(notes, item, place, parameter)
        if value is ABSENT:
            sound = False
            continue
        if sound and (problem := value_problem(parameter, value, place)):
            notes.problem(item, place, "bad-choice", problem.zh, problem.en)
        if repr(value) in seen:
            notes.problem(item, place, "duplicate-choice", f"{field}里有重复的值。", f"{field} has this value twice.")
        seen.add(repr(value))
        choices.append(value)
    return tuple(choices) if len(choices) == len(node.items) else None


def warn_of_wide_commas(notes: Notes, node: yaml.Sequence, field: str) -> None:
    """`[a，b]` is one item; hardly meant so."""
    for index, item in enumerate(node.items):
        if node.flow and isinstance(item, yaml.Scalar) and item.plain and re.search("[，、]", item.text):
            notes.warn(
                item,
                f"{field}[{index}]",
                "full-width",
                f"{quoted(item.text)}是一项；要分成几项请用半角逗号，否则请加引号。",
                f"{quoted(item.text)} is one item: separate items with a plain comma, or quote it.",
            )


def _value(notes: Notes, node: yaml.Node, field: str, parameter: Parameter) -> Any:
    """A value of the parameter's type, or ABSENT with a problem noted."""
    kind = parameter.type
    value: Any
    if isinstance(node, yaml.Broken):
        return ABSENT
    if kind == "string":
        found = fields.scalar(notes, node, field, ("文本", "a text"))
        if found is None or not fields.clean(notes, node, field, found.text):
            return ABSENT
        fields.warn_of_null(notes, found, field)
        return found.text
    if kind == "boolean":
        value = fields.boolean(notes, node, field)
    elif kind == "integer":
        value = fields.integer(notes, node, field, -MAX_INTEGER, MAX_INTEGER)
    elif kind == "number":
        value = fields.number(notes, node, field)
    elif (kind == "array") != isinstance(node, yaml.Sequence) or isinstance(node, yaml.Scalar):
        wanted = (
            ("列表，例如[a, b]", "a list, such as [a, b]")
            if kind == "array"
            else ("映射，例如{a: 1}", "a mapping, such as {a: 1}")
        )
        notes.problem(node, field, "wrong-type", f"{field}要{wanted[0]}。", f"{field} takes {wanted[1]}.")
        return ABSENT
    elif isinstance(node, yaml.Sequence) and parameter.items is not None:
        items = [_value(notes, item, f"{field}[{index}]", parameter.items) for index, item in enumerate(node.items)]
        return ABSENT if any(item is ABSENT for item in items) else items
    else:
        return _json(notes, node, field)
    return ABSENT if value is None else value


def _json(notes: Notes, node: yaml.Node, field: str) -> Any:
    """What stands in an object, or an array without `items`: JSON's types as JSON writes them, all else text."""
    if isinstance(node, yaml.Sequence):
        items = [_json(notes, item, f"{field}[{index}]") for index, item in enumerate(node.items)]
        return ABSENT if any(item is ABSENT for item in items) else items
    if isinstance(node, yaml.Mapping):
        pairs = {name: _json(notes, value, f"{field}.{shown_name(name)}") for name, (_, value) in node.pairs.items()}
        sound = all(fields.clean(notes, key, field, name) for name, (key, _) in node.pairs.items())
        return ABSENT if not sound or any(value is ABSENT for value in pairs.values()) else pairs
    found = fields.scalar(notes, node, field, ("值", "a value"))
    if found is None or not fields.clean(notes, node, field, found.text):
        return ABSENT
    if found.plain and found.text in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[found.text]
    number = fields.plain_number(found)
    return found.text if number is None else number
