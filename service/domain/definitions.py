"""A Definition: what one TOOL.hdlp says (seed §7, contract/tool-hdlp.md). Nouns only; `intake/definitions.py` reads the bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

EXECUTORS: Final = ("gatekeeper", "hlpd-api", "git-forgejo", "shell")
EFFECTS: Final = ("read", "write", "destructive")
TYPES: Final = ("string", "integer", "number", "boolean", "array", "object")

FILE_NAME: Final = "TOOL.hdlp"
MAX_FILE_BYTES: Final = 64 * 1024
DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_TIMEOUT_MS: Final = 3_600_000
DEFAULT_OUTPUT_BYTES: Final = 65_536
MAX_OUTPUT_BYTES: Final = 16_777_216


class _Absent:
    """No value given; `None` cannot say it, since JSON has null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a definition: where, a stable kebab-case code, and what to write instead in both languages."""

    code: str
    zh: str
    en: str
    field: str | None = None
    line: int | None = None
    column: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Shape: `{line, column, field, code, zh, en}`, as contract/http-api.md lists a rejection's problems."""
        return {
            "line": self.line,
            "column": self.column,
            "field": self.field,
            "code": self.code,
            "zh": self.zh,
            "en": self.en,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Problem":
        """The inverse of `as_json`."""
        return cls(value["code"], value["zh"], value["en"], value.get("field"), value.get("line"), value.get("column"))


@dataclass(frozen=True, slots=True)
class Parameter:
    """What one parameter of `params_schema` takes. `minimum` and `maximum` are int or float as written."""

    type: str
    required: bool = False
    description: str = ""
    default: Any = ABSENT
    enum: tuple[Any, ...] | None = None
    pattern: str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    secret: bool = False
    items: "Parameter | None" = None

    def as_json(self) -> dict[str, Any]:
        """Only the keys that were given, but `type`, `required` and `description` always."""
        shape: dict[str, Any] = {"type": self.type, "required": self.required, "description": self.description}
        if self.default is not ABSENT:
            shape["default"] = self.default
        if self.enum is not None:
            shape["enum"] = list(self.enum)
        for name in ("pattern", "minimum", "maximum", "min_length", "max_length"):
            if (value := getattr(self, name)) is not None:
                shape[name] = value
        if self.secret:
            shape["secret"] = True
        if self.items is not None:
            shape["items"] = self.items.as_json()
        return shape

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> "Parameter":
        """The inverse of `as_json`."""
        rest = {name: shape[name] for name in shape if name not in ("enum", "items")}
        enum = tuple(shape["enum"]) if "enum" in shape else None
        items = cls.from_json(shape["items"]) if "items" in shape else None
        return cls(**rest, enum=enum, items=items)


@dataclass(frozen=True, slots=True)
class Constraints:
    """Limits of one run: milliseconds, bytes kept per stream, and whether it asks first (seed §7)."""

    timeout_ms: int = DEFAULT_TIMEOUT_MS
    max_output_bytes: int = DEFAULT_OUTPUT_BYTES
    require_confirm: bool = False

    def as_json(self) -> dict[str, Any]:
        """Shape: `{timeout_ms, max_output_bytes, require_confirm}`."""
        return {
            "timeout_ms": self.timeout_ms,
            "max_output_bytes": self.max_output_bytes,
            "require_confirm": self.require_confirm,
        }


@dataclass(frozen=True, slots=True)
class Definition:
    """The parsed content of one valid TOOL.hdlp. `address` is its HLDP:// line, kept as written."""

    name: str
    display: str
    intent: str
    method: str
    executor: str
    author: str
    created: str
    why: str
    params_schema: Mapping[str, Parameter] = field(default_factory=dict)
    constraints: Constraints = Constraints()
    command: tuple[str, ...] | None = None
    examples: tuple[str, ...] = ()
    node: str | None = None
    effect: str | None = None
    deprecated: str | None = None
    address: str | None = None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready, every field, in the order of contract/tool-hdlp.md."""
        return {
            "name": self.name,
            "display": self.display,
            "intent": self.intent,
            "method": self.method,
            "executor": self.executor,
            "params_schema": {name: parameter.as_json() for name, parameter in self.params_schema.items()},
            "constraints": self.constraints.as_json(),
            "author": self.author,
            "created": self.created,
            "why": self.why,
            "command": list(self.command) if self.command is not None else None,
            "examples": list(self.examples),
            "node": self.node,
            "effect": self.effect,
            "deprecated": self.deprecated,
            "address": self.address,
        }

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> "Definition":
        """The inverse of `as_json`."""
        return cls(
            name=shape["name"],
            display=shape["display"],
            intent=shape["intent"],
            method=shape["method"],
            executor=shape["executor"],
            author=shape["author"],
            created=shape["created"],
            why=shape["why"],
            params_schema={name: Parameter.from_json(item) for name, item in shape["params_schema"].items()},
            constraints=Constraints(**shape["constraints"]),
            command=None if shape["command"] is None else tuple(shape["command"]),
            examples=tuple(shape["examples"]),
            node=shape["node"],
            effect=shape["effect"],
            deprecated=shape["deprecated"],
            address=shape["address"],
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading one TOOL.hdlp gave: a definition and no problems, or problems and no definition; warnings either way.

    The mirror's reading of a definition that names what our own facts lack has both, until registration settles it.
    """

    definition: Definition | None
    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()

    def as_json(self) -> dict[str, Any]:
        """Shape: `{definition, problems, warnings}`."""
        return {
            "definition": self.definition.as_json() if self.definition else None,
            "problems": [problem.as_json() for problem in self.problems],
            "warnings": [warning.as_json() for warning in self.warnings],
        }

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> "Reading":
        """The inverse of `as_json`."""
        return cls(
            Definition.from_json(shape["definition"]) if shape["definition"] else None,
            tuple(Problem.from_json(item) for item in shape["problems"]),
            tuple(Problem.from_json(item) for item in shape["warnings"]),
        )
