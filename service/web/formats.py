"""Tools as other agents take them: OpenAI's functions, Anthropic's tools, MCP's tools (contract/http-api.md, `format`).

A definition's texts are given as fields, as they are: `description` is the intent and nothing of ours.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from service.domain.definitions import ABSENT, Definition, Parameter

_LENGTHS: Final = {"array": ("minItems", "maxItems"), "string": ("minLength", "maxLength")}


def input_schema(definition: Definition) -> dict[str, Any]:
    """What the parameters take, as JSON Schema 2020-12. Values are checked by the definition, which is stricter."""
    schema = definition.params_schema
    return {
        "type": "object",
        "properties": {name: _property(parameter) for name, parameter in schema.items()},
        "required": [name for name, parameter in schema.items() if parameter.required],
        "additionalProperties": False,
    }


def _property(parameter: Parameter) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": parameter.type}
    if parameter.description:
        shape["description"] = parameter.description
    if parameter.enum is not None:
        shape["enum"] = list(parameter.enum)
    if parameter.default is not ABSENT:
        shape["default"] = parameter.default
    if parameter.secret:
        shape["writeOnly"] = True
    shortest, longest = _LENGTHS.get(parameter.type, ("minLength", "maxLength"))
    bounds = {
        "pattern": parameter.pattern,
        "minimum": parameter.minimum,
        "maximum": parameter.maximum,
        shortest: parameter.min_length,
        longest: parameter.max_length,
    }
    shape |= {name: value for name, value in bounds.items() if value is not None}
    if parameter.items is not None:
        shape["items"] = _property(parameter.items)
    return shape


def openai(definition: Definition) -> dict[str, Any]:
    """A function of the chat API: `{type, function: {name, description, parameters}}`."""
    function = {"name": definition.name, "description": definition.intent, "parameters": input_schema(definition)}
    return {"type": "function", "function": function}


def anthropic(definition: Definition) -> dict[str, Any]:
    """A tool of the messages API: `{name, description, input_schema}`."""
    return {"name": definition.name, "description": definition.intent, "input_schema": input_schema(definition)}


def mcp(definition: Definition) -> dict[str, Any]:
    """A tool of `tools/list` (specification 2026-07-28), its effect as annotations."""
    shape: dict[str, Any] = {
        "name": definition.name,
        "title": definition.display,
        "description": definition.intent,
        "inputSchema": input_schema(definition),
    }
    if definition.effect is not None:
        read = definition.effect == "read"
        hints = {"readOnlyHint": read, "destructiveHint": definition.effect == "destructive"}
        shape["annotations"] = {"title": definition.display, **hints}
    return shape


FORMATS: Final[Mapping[str, Callable[[Definition], dict[str, Any]]]] = {
    "openai": openai,
    "anthropic": anthropic,
    "mcp": mcp,
}
