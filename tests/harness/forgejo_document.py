"""A Forgejo that serves a `swagger.v1.json` made from facts of the shipped files' shape."""

import json
from importlib.resources import files
from typing import Any

from service.domain.operations import VERSIONS
from tests.harness.far_side import answer_with

OLDEST, NEWEST = VERSIONS


class Forge:
    """A far side that serves the document of these facts, until `answer` is another behaviour."""

    def __init__(self, far_side: Any, facts: dict[str, dict[str, Any]]) -> None:
        self.describe(facts)
        self.side = far_side(lambda connection, request: self.answer(connection, request))  # noqa: PLW0108  as it is then
        self.url = self.side.url + "/api/v1"

    def describe(self, facts: dict[str, dict[str, Any]]) -> None:
        self.answer = answer_with(document_of(facts))

    def asked(self) -> int:
        """How many requests came."""
        return len(self.side.requests)


def facts_of(version: str) -> dict[str, dict[str, Any]]:
    """The shipped facts of one version, as they stand in the file."""
    return json.loads((files("service.domain") / "forgejo_operations" / f"{version}.json").read_bytes())


def document_of(facts: dict[str, dict[str, Any]], **changes: Any) -> bytes:
    """The document of an instance behind a sub-path that has exactly these operations; bodies are references."""
    paths: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for name, one in facts.items():
        operation: dict[str, Any] = {"operationId": name, "parameters": list(one["parameters"])}
        if "produces" in one:
            operation["produces"] = one["produces"]
        if "body" in one:
            definitions[f"{name}Option"] = _schema(one["body"])
            operation["parameters"].append(
                {"name": "body", "in": "body", "schema": {"$ref": f"#/definitions/{name}Option"}}
            )
        paths.setdefault(one["path"], {})[one["verb"].lower()] = operation
    document = {"swagger": "2.0", "basePath": "/git/api/v1", "paths": paths, "definitions": definitions}
    return json.dumps(document | changes).encode()


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    if "*" in body:
        return {"type": body["*"]["type"]}
    return {
        "type": "object",
        "required": [name for name, value in body.items() if value.get("required")],
        "properties": {name: {"type": value["type"]} for name, value in body.items()},
    }
