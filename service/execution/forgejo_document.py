"""Forgejo's own description of its API, `swagger.v1.json`, reduced to facts (facts/forgejo.md 3.6).

It comes from outside: whatever it holds becomes facts that `read_operation` takes, or nothing. Where the requests go is
no part of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from service.domain import strict_json
from service.domain.methods import VERBS
from service.domain.operations import MAX_TAKEN, read_operation

MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024  # the largest seen has 0.8 MB
MAX_OPERATIONS: Final = 2000  # 506 in the newest
MAX_TAKEN_IN_ALL: Final = 50_000  # 3,000 in the newest
_MAX_REFERENCES: Final = 8
_BASE: Final = "/api/v1"

Facts = dict[str, Any]
"""One operation's: `{verb, path, parameters, body?, produces?}`, as `read_operation` takes them."""


class NotADocument(ValueError):
    """No Swagger 2.0 document of such an API. Says why, quoting nothing."""


def read_document(content: bytes) -> dict[str, Facts]:
    """Facts by operationId. What one operation says wrongly costs that operation only. Raises NotADocument."""
    if len(content) > MAX_DOCUMENT_BYTES:
        raise NotADocument("too large")
    try:
        document = strict_json.loads(content)
    except strict_json.NotJson as error:
        raise NotADocument(str(error)) from None
    if not isinstance(document, dict) or document.get("swagger") != "2.0":
        raise NotADocument("not Swagger 2.0")
    if not str(document.get("basePath")).endswith(_BASE):
        raise NotADocument(f"its paths do not stand below {_BASE}")
    found: dict[str, Facts] = {}
    room = MAX_TAKEN_IN_ALL
    for name, facts in _operations(document):
        room -= len(facts["parameters"]) + len(facts.get("body", ()))
        if len(found) == MAX_OPERATIONS or room < 0:
            raise NotADocument("too many operations")
        if _is_readable(name, facts):
            found.setdefault(name, facts)
    if not found:
        raise NotADocument("no operations")
    return found


def facts_as_kept(value: Any) -> dict[str, Facts]:
    """Facts that were written down before, read as strictly: those that can be read."""
    if not isinstance(value, dict):
        return {}
    return {name: facts for name, facts in value.items() if _is_readable(name, facts)}


def _is_readable(name: str, facts: Any) -> bool:
    try:
        read_operation(name, facts)
    except ValueError:
        return False
    return True


def _operations(document: Facts) -> Iterator[tuple[str, Facts]]:
    for path, item in _mapping(document.get("paths")).items():
        shared = _mapping(item).get("parameters")
        for verb, operation in _mapping(item).items():
            name = _mapping(operation).get("operationId")
            if verb.upper() in VERBS and isinstance(name, str):
                facts = _facts(document, operation, shared)
                if facts is not None:
                    yield name, {"verb": verb.upper(), "path": path, **facts}


def _facts(document: Facts, operation: Facts, shared: Any) -> Facts | None:
    """None for an operation whose parameters are no list of objects, or more than anybody needs."""
    listed = [entry for part in (operation.get("parameters"), shared) if isinstance(part, list) for entry in part]
    if len(listed) > MAX_TAKEN or not all(isinstance(entry, dict) for entry in listed):
        return None
    facts: Facts = {"parameters": []}
    for parameter in (_followed(document, entry) for entry in listed):
        if parameter.get("in") == "body":
            body = _body(document, _mapping(parameter.get("schema")), required=parameter.get("required") is True)
            facts["body"] = body
        else:
            wanted = ("name", "in", "type", "required", "collectionFormat")
            facts["parameters"].append({key: parameter[key] for key in wanted if key in parameter})
    if isinstance(produces := operation.get("produces"), list):
        facts["produces"] = [name for name in produces[:10] if isinstance(name, str)]
    return facts


def _body(document: Facts, schema: Facts, *, required: bool) -> Facts:
    """The properties of an object's schema; `*` for a body that is none, or of which none are known."""
    properties: Facts = {}
    needed: set[str] = set()
    for part in _parts(document, schema):
        properties |= _mapping(part.get("properties"))
        listed = part.get("required")
        needed |= {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    if not properties or "*" in properties:
        return {"*": {"type": _type(document, schema), "required": required}}
    return {
        name: {"type": _type(document, _mapping(value))} | ({"required": True} if name in needed else {})
        for name, value in list(properties.items())[: MAX_TAKEN + 1]
    }


def _parts(document: Facts, schema: Facts) -> list[Facts]:
    """The schema itself, and what it says that it is all of."""
    schema = _followed(document, schema)
    listed = schema.get("allOf")
    parts = listed[:_MAX_REFERENCES] if isinstance(listed, list) else []
    return [schema, *(_followed(document, _mapping(part)) for part in parts)]


def _type(document: Facts, schema: Facts) -> str:
    named = _followed(document, schema).get("type")
    return named if isinstance(named, str) else "object"


def _followed(document: Facts, value: Facts) -> Facts:
    """What `$ref` leads to within the document; nothing where it leads nowhere, or round and round."""
    for _ in range(_MAX_REFERENCES):
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return value
        _, _, kept = reference.partition("#/")
        kind, _, name = kept.partition("/")
        value = _mapping(_mapping(document.get(kind)).get(name))
    return {}


def _mapping(value: Any) -> Facts:
    return value if isinstance(value, Mapping) else {}  # type: ignore[return-value]
