"""The few forms that schemas of the OpenAPI document are made of (JSON Schema 2020-12)."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def ref(name: str, said: str | None = None) -> Schema:
    """A named schema, with a word on what it is here."""
    shape: Schema = {"$ref": f"#/components/schemas/{name}"}
    return shape if said is None else {**shape, "description": said}


def text(said: str | None = None, **rules: Any) -> Schema:
    """A text; `rules` are JSON Schema's (`pattern`, `maxLength`, `enum`)."""
    return _of("string", said, rules)


def whole(said: str | None = None, **rules: Any) -> Schema:
    """A whole number."""
    return _of("integer", said, rules)


def flag(said: str | None = None, **rules: Any) -> Schema:
    """True or false."""
    return _of("boolean", said, rules)


def texts(said: str | None = None, **rules: Any) -> Schema:
    """A list of texts."""
    return _of("array", said, {"items": {"type": "string"}, **rules})


def many(item: Schema, said: str | None = None, **rules: Any) -> Schema:
    """A list."""
    return _of("array", said, {"items": item, **rules})


def whole_text(pattern: str) -> str:
    """Python's pattern of a whole text, as JSON Schema writes it."""
    return "^" + pattern.removesuffix(r"\Z") + "$"


def nullable(shape: Schema) -> Schema:
    """The same, or null."""
    if isinstance(shape.get("type"), list):
        return shape
    if "type" in shape and "enum" not in shape and "const" not in shape:
        return {**shape, "type": [shape["type"], "null"]}
    inner = {name: value for name, value in shape.items() if name != "description"}
    outer = {"description": shape["description"]} if "description" in shape else {}
    return {"anyOf": [inner, {"type": "null"}], **outer}


def record(
    fields: Mapping[str, Schema], may: Mapping[str, Schema] | None = None, said: str | None = None, **rules: Any
) -> Schema:
    """An object of exactly these fields: `fields` are always there, `may` sometimes; any other is a mistake."""
    shape: Schema = {} if said is None else {"description": said}
    return {
        **shape,
        "type": "object",
        "properties": {**fields, **(may or {})},
        "required": list(fields),
        "additionalProperties": False,
        **rules,
    }


def listing(item: str) -> Schema:
    """A list's answer: `{items, next}`."""
    following = text("取下一页时作为 cursor 给出；null 是末页。The cursor of the next page; null on the last one.")
    return record({"items": many(ref(item)), "next": nullable(following)})


def _of(kind: str, said: str | None, rules: Mapping[str, Any]) -> Schema:
    return {"type": kind, **({} if said is None else {"description": said}), **rules}
