"""The OpenAPI document as a judge of real answers."""

from typing import Any

import httpx
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

NAME = "urn:bitong:openapi"


class Described:
    """One document; `wrong` says in what a real answer is not what it describes."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._registry = Registry().with_resource(NAME, Resource(contents=document, specification=DRAFT202012))

    def operations(self) -> dict[tuple[str, str], dict[str, Any]]:
        """(method, path) → what is said of it."""
        return {
            (verb.upper(), path): operation
            for path, verbs in self.document["paths"].items()
            for verb, operation in verbs.items()
            if not verb.startswith("x-")
        }

    def follow(self, shape: dict[str, Any]) -> dict[str, Any]:
        """What a reference stands for, or the shape itself."""
        if "$ref" in shape:
            place: Any = self.document
            for step in shape["$ref"].removeprefix("#/").split("/"):
                place = place[step.replace("~1", "/").replace("~0", "~")]
            shape = place
        return shape

    def response(self, method: str, path: str, status: int) -> dict[str, Any]:
        """What is said of one answer; KeyError where nothing is."""
        return self.follow(self.operations()[method, path]["responses"][str(status)])

    def unfit(self, schema: dict[str, Any], value: Any) -> list[str]:
        """Why a value does not fit a schema of the document."""
        absolute = _absolute(schema)
        judge = Draft202012Validator(absolute, registry=self._registry, format_checker=FormatChecker())
        return [f"{error.json_path}: {error.message[:300]}" for error in judge.iter_errors(value)]

    def wrong(self, method: str, path: str, answer: httpx.Response) -> list[str]:
        """Why a real answer is not what the document says of it: status, headers, media type, every field."""
        try:
            said = self.response(method, path, answer.status_code)
        except KeyError:
            return [f"{answer.status_code} is not described: {answer.text[:300]}"]
        missing = [f"no header {name}" for name in said.get("headers", {}) if name not in answer.headers]
        if "content" not in said:
            return missing + (["there is a body"] if answer.content else [])
        media = answer.headers.get("content-type", "").partition(";")[0]
        if media not in said["content"]:
            return [*missing, f"{media} is not described"]
        schema = said["content"][media].get("schema")
        return missing if schema is None else missing + self.unfit(schema, answer.json())


def _absolute(shape: Any) -> Any:
    """The same schema with references that hold outside the document."""
    if isinstance(shape, dict):
        return {key: NAME + value if key == "$ref" else _absolute(value) for key, value in shape.items()}
    return [_absolute(item) for item in shape] if isinstance(shape, list) else shape
