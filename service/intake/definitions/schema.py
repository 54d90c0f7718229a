"""The JSON Schema of TOOL.hdlp, for editors' YAML plugins (`bitong schema`, `GET /schema`).

It says what a schema can; what it cannot (duplicate keys, a name equal to its folder, patterns in RE2) `bitong lint` says. A
scalar without quotes is text for Bitong where the field is one, so such fields take numbers and booleans too.
"""

from typing import Any, Final

from service.domain.definitions import EFFECTS, EXECUTORS, MAX_OUTPUT_BYTES, MAX_TIMEOUT_MS, TYPES
from service.domain.parameters import MAX_INTEGER
from service.intake.definitions.definition_fields import MAX_EXAMPLES, RESERVED_NAMES
from service.intake.definitions.reading import FIELDS, REQUIRED

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SCALAR: Final = ["string", "number", "boolean"]
_OWN_KEYS: Final[dict[str, Any]] = {"^x-": {}}


def tool_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of one TOOL.hdlp, with descriptions in zh and en."""
    properties = _properties()
    return {
        "$schema": DIALECT,
        "title": "TOOL.hdlp",
        "description": "笔筒的工具定义。A tool's definition for Bitong.",
        "type": "object",
        "properties": {name: properties[name] for name in FIELDS},
        "patternProperties": _OWN_KEYS,
        "additionalProperties": False,
        "required": list(REQUIRED),
        "allOf": _by_executor(),
        "$defs": {"parameter": _parameter()},
    }


def _properties() -> dict[str, Any]:
    return {
        "name": {
            "description": "工具名，和文件夹同名。The tool's name, equal to its folder's.",
            "type": "string",
            "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,63}$",
            "not": {"enum": sorted({*RESERVED_NAMES, *(name.upper() for name in RESERVED_NAMES)})},
        },
        "display": _text(80, "显示名，可以是中文。The name people see."),
        "intent": _text(500, "一句话：这个工具做什么。What the tool does, in one sentence."),
        "method": _text(200, "执行方法，含义由executor决定。The method; its meaning belongs to the executor."),
        "executor": {
            "description": "由谁执行。Who runs it.",
            "enum": [*EXECUTORS, "hldp-api"],
        },
        "params_schema": {
            "description": "参数定义，可以为空。The parameters; may be empty.",
            "type": ["object", "null"],
            "patternProperties": {"^[A-Za-z_][A-Za-z0-9_]{0,63}$": {"$ref": "#/$defs/parameter"}, **_OWN_KEYS},
            "additionalProperties": False,
        },
        "constraints": _constraints(),
        "author": _text(64, "谁写的：人格体编号或人。Who wrote it: a persona's number, or a person."),
        "created": {
            "description": "创建日期，年-月-日。The date it was made, year-month-day.",
            "type": "string",
            "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$",
        },
        "why": _text(2000, "为什么需要它。Why it is needed."),
        "command": {
            "description": "固定程序的参数表，可含{参数名}；不会拆分，不经过shell。"
            "The argument vector of a fixed program, with {name} of parameters; never split, never given to a shell.",
            "type": "array",
            "minItems": 1,
            "items": {"type": _SCALAR},
        },
        "examples": {
            "description": "意图的其他说法，用于匹配。Other ways to say the intent, for matching.",
            "type": "array",
            "maxItems": MAX_EXAMPLES,
            "items": _text(None, "一种说法。One way to say it."),
        },
        "node": {
            "description": "由哪个gatekeeper执行，例如BS-SG-001。Which gatekeeper runs it.",
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        },
        "effect": {"description": "对外界的影响。What it does to the world.", "enum": list(EFFECTS)},
        "deprecated": _text(None, "为什么不要再用它。Why not to use it any more."),
    }


def _text(most: int | None, description: str) -> dict[str, Any]:
    shape: dict[str, Any] = {"description": description, "type": _SCALAR, "minLength": 1, "pattern": r"\S"}
    return shape if most is None else {**shape, "maxLength": most}


def _constraints() -> dict[str, Any]:
    return {
        "description": "执行约束，可以为空。Limits of a run; may be empty.",
        "type": ["object", "null"],
        "properties": {
            "timeout_ms": {
                "description": "时限，毫秒；缺省30000。The time limit in milliseconds; 30000 if absent.",
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TIMEOUT_MS,
            },
            "max_output_bytes": {
                "description": "每个输出流保留的字节数；缺省65536。Bytes kept of each stream; 65536 if absent.",
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_OUTPUT_BYTES,
            },
            "require_confirm": {
                "description": "true：确认后才执行。true: it runs only after a confirmation.",
                "type": "boolean",
            },
        },
        "patternProperties": _OWN_KEYS,
        "additionalProperties": False,
    }


def _parameter() -> dict[str, Any]:
    length = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
    return {
        "type": "object",
        "properties": {
            "type": {"description": "类型。Its type.", "enum": list(TYPES)},
            "required": {"description": "是否必填；缺省false。Whether it must be given.", "type": "boolean"},
            "description": _text(None, "它是什么。What it is."),
            "default": {"description": "默认值。The value where none is given."},
            "enum": {
                "description": "只能是其中之一。One of these only.",
                "type": "array",
                "minItems": 1,
                "uniqueItems": True,
            },
            "pattern": {
                "description": "正则（RE2），查找，不锚定。An RE2 expression, searched, not anchored.",
                "type": _SCALAR,
                "minLength": 1,
                "maxLength": 1000,
            },
            "minimum": {"description": "最小值。The least value.", "type": "number"},
            "maximum": {"description": "最大值。The greatest value.", "type": "number"},
            "min_length": {"description": "最少字符数或项数。The fewest characters or items.", **length},
            "max_length": {"description": "最多字符数或项数。The most characters or items.", **length},
            "secret": {
                "description": "true：值不进日志、页面、命令行。true: its value reaches no log.",
                "type": "boolean",
            },
            "items": {"description": "数组的项。An array's items.", "$ref": "#/$defs/parameter"},
        },
        "patternProperties": _OWN_KEYS,
        "additionalProperties": False,
        "required": ["type"],
        "allOf": [
            _only_for(("pattern",), ["string"]),
            _only_for(("minimum", "maximum"), ["integer", "number"]),
            _only_for(("min_length", "max_length"), ["string", "array"]),
            _only_for(("items",), ["array"]),
            {
                "if": {"properties": {"secret": {"const": True}}, "required": ["secret"]},
                "then": {"properties": {"default": False}},
            },
            *(_values(kind, json_types) for kind, json_types in _VALUES.items()),
        ],
    }


_VALUES: Final[dict[str, list[str]]] = {
    "string": _SCALAR,
    "integer": ["integer"],
    "number": ["number"],
    "boolean": ["boolean"],
    "array": ["array"],
    "object": ["object"],
}


def _only_for(keys: tuple[str, ...], types: list[str]) -> dict[str, Any]:
    """Those keys are for those types only."""
    return {
        "if": {"anyOf": [{"required": [key]} for key in keys]},
        "then": {"properties": {"type": {"enum": types}}},
    }


def _values(kind: str, json_types: list[str]) -> dict[str, Any]:
    """`default` and `enum` take the parameter's type."""
    value = {"type": json_types}
    return {
        "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
        "then": {"properties": {"default": value, "enum": {"items": value}}},
    }


def _by_executor() -> list[dict[str, Any]]:
    """What `method` and `command` may be, where a few words say it."""

    def when(executors: list[str], then: dict[str, Any]) -> dict[str, Any]:
        return {"if": {"properties": {"executor": {"enum": executors}}, "required": ["executor"]}, "then": then}

    route = "(GET|POST|PUT|PATCH|DELETE) (/|(/[^/@?# \\\\]+)+/?)"
    name = "[A-Za-z_][A-Za-z0-9_.-]*"
    return [
        when(["shell"], {"properties": {"method": {"enum": ["exec", "run"]}}}),
        when(["gatekeeper"], {"properties": {"method": {"type": "string", "pattern": "^[a-z][a-z0-9._-]*$"}}}),
        when(
            ["hlpd-api", "hldp-api"], {"properties": {"method": {"pattern": f"^({route}|{name})$"}, "command": False}}
        ),
        when(["git-forgejo"], {"properties": {"method": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, "command": False}}),
    ]
