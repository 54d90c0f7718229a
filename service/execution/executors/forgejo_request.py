"""Parameters of a git-forgejo tool, put where its operation wants them (contract/executors.md, git-forgejo)."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import httpx

from service.domain.definitions import Definition
from service.domain.executors import HIDDEN, ParameterProblem
from service.domain.operations import Operation, Taken
from service.execution.executors.paths import fill, query_string, scalar_text, slot_problems, within

# Slots that are a file's path in the repository, so that `/` parts its segments.
DEEP: Final = ("filepath",)
_SIGNS: Final = {"csv": ",", "ssv": " ", "tsv": "\t", "pipes": "|"}
_ELSEWHERE: Final = (
    "elsewhere",
    "地址会离开这个接口的路径",
    "the address would leave the operation's path",
)

Fault = tuple[str, str, str]
"""What is wrong with a value: code, and words in zh and en."""


class Body(NamedTuple):
    """A request's body and its media type."""

    media_type: str
    content: bytes


def problems_of(
    operation: Operation, definition: Definition, values: Mapping[str, Any], base: str
) -> list[ParameterProblem]:
    """Every reason why `values` cannot become a request for the operation (422); never quotes a secret's value."""
    takes = operation.by_name()
    problems = [_not_taken(name, operation) for name in values if name not in takes]
    problems += slot_problems(operation.template, values, deep=DEEP)
    problems += [_missing(name) for name in operation.needed if name not in values and takes[name].place != "path"]
    for item, value in _given(operation, values):
        fault = _secret_fault(item, definition) or _value_fault(item, value)
        if fault is not None:
            problems.append(ParameterProblem(item.name, *fault))
    if not problems and not within(url_of(operation, values, base), base, operation.template, deep=DEEP):
        problems.append(ParameterProblem("", *_ELSEWHERE))
    return problems


def url_of(operation: Operation, values: Mapping[str, Any], base: str) -> str:
    """Where it goes, for values without problems."""
    query = query_string(_pairs(operation, values, "query"))
    return base + fill(operation.template, values, deep=DEEP) + (f"?{query}" if query else "")


def body_of(operation: Operation, values: Mapping[str, Any]) -> Body | None:
    """What it carries, for values without problems; None where it carries nothing.

    A body that is no object goes as it is when it is text, as JSON otherwise.
    """
    places = {item.place for item in operation.taken}
    if "whole" in places:
        whole = values.get("body")
        if isinstance(whole, str):
            return Body("text/plain; charset=utf-8", whole.encode())
        return None if whole is None else _json(whole)
    if "file" in places:
        return _multipart(operation, values)
    if "form" in places:
        return Body(
            "application/x-www-form-urlencoded", query_string(_pairs(operation, values, "form")).encode("ascii")
        )
    properties = _properties(operation, values)
    if properties or ("body" in places and operation.verb != "DELETE"):
        return _json(properties)
    return None


def shown_body(operation: Operation, values: Mapping[str, Any]) -> Any:
    """The body as whoever confirms it should see it, JSON-ready; None where there is none. Secrets are `HIDDEN` already."""
    places = {item.place for item in operation.taken}
    if "whole" in places:
        return values.get("body")
    if not places & {"file", "form"}:
        return _properties(operation, values) if body_of(operation, values) is not None else None
    return {
        item.sent_as: _shown_file(value) if item.place == "file" else value
        for item, value in _given(operation, values)
        if item.place in ("file", "form")
    }


def _given(operation: Operation, values: Mapping[str, Any]) -> Iterator[tuple[Taken, Any]]:
    return ((item, values[item.name]) for item in operation.taken if item.name in values)


def _properties(operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    return {item.sent_as: value for item, value in _given(operation, values) if item.place == "body"}


def _pairs(operation: Operation, values: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    for item, value in _given(operation, values):
        if item.place != place:
            continue
        if isinstance(value, list) and item.joined != "multi":
            if value:
                yield item.sent_as, _SIGNS[item.joined].join(map(scalar_text, value))
        else:
            yield item.sent_as, value


def _json(value: Any) -> Body:
    return Body("application/json", json.dumps(value, allow_nan=False).encode("ascii"))


def _multipart(operation: Operation, values: Mapping[str, Any]) -> Body | None:
    """Httpx writes it; the request that it belongs to is never sent."""
    parts: list[tuple[str, Any]] = [
        (item.sent_as, (item.sent_as, base64.b64decode(value), "application/octet-stream"))
        for item, value in _given(operation, values)
        if item.place == "file"
    ]
    for name, value in _pairs(operation, values, "form"):
        parts += [(name, (None, scalar_text(one).encode())) for one in (value if isinstance(value, list) else [value])]
    if not parts:
        return None
    written = httpx.Request("POST", "http://form.invalid", files=parts)
    return Body(written.headers["Content-Type"], written.read())


def _shown_file(value: str) -> Any:
    if value == HIDDEN:
        return HIDDEN
    content = base64.b64decode(value)
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _secret_fault(item: Taken, definition: Definition) -> Fault | None:
    """Registration has looked already; what the instance says of an operation may have changed since."""
    parameter = definition.params_schema.get(item.name)
    if parameter is None or not parameter.secret or item.place not in ("path", "query"):
        return None
    return (
        "secret-in-url",
        f"secret参数{item.name}会进网址，网址会进日志",
        f"the secret {item.name} would go into a URL, and URLs end in logs",
    )


def _value_fault(item: Taken, value: Any) -> Fault | None:
    if item.place == "file":
        if _is_base64(value):
            return None
        return "bad-base64", f"{item.name}要不换行的base64文本", f"{item.name} takes base64 text without line breaks"
    if item.place not in ("query", "form"):
        return None
    if not all(_is_scalar(one) for one in (value if isinstance(value, list) else [value])):
        return (
            "wrong-type",
            f"{item.name}会进查询字符串或表单，那里只能放文本、数字、真假值和由它们组成的数组",
            f"{item.name} goes into the query or a form, which take text, numbers, true, false and arrays of these",
        )
    sign = _SIGNS.get(item.joined)
    if isinstance(value, list) and sign is not None and any(sign in scalar_text(one) for one in value):
        return (
            "separator-in-item",
            f"{item.name}的各项以{sign!r}相连，一项里不能有它",
            f"the items of {item.name} are joined by {sign!r}, so that none can hold it",
        )
    return None


def _is_scalar(value: Any) -> bool:
    try:
        scalar_text(value)
    except ValueError:
        return False
    return True


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (TypeError, ValueError):  # binascii.Error is one, and so is text beyond ASCII
        return False
    return isinstance(value, str)


def _missing(name: str) -> ParameterProblem:
    return ParameterProblem(
        name, "missing", f"缺少{name}，这个接口必须有它", f"{name} is missing, and the operation needs it"
    )


def _not_taken(name: str, operation: Operation) -> ParameterProblem:
    return ParameterProblem(
        name,
        "unknown-operation-parameter",
        f"接口{operation.name}在这里没有参数{name}，不知道该放在哪里",
        f"the operation {operation.name} takes no {name} here, so that there is no place for it",
    )
