"""The OpenAPI 3.1 document of the API, made from the table of routes so that neither can lack what the other has.

It is asked for rarely, so it is made anew each time and nothing of it is kept. What is said of each route and of each body
stands in `described/`; a route without a word there, or a word without a route, fails its test.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from service import __version__
from service.web.described import (
    access,
    audit,
    confirmations,
    exec,
    keeping,
    operations,
    registrations,
    runs,
    tools,
    values,
)
from service.web.described.examples import examples, problem_example
from service.web.described.forms import Schema, ref, text, whole
from service.web.described.words import SAID, Body, Text, paging
from service.web.routing import METRICS, OPEN, PROBLEM, SIGNED, Route
from service.web.server import API, ROUTES

_DESCRIBED: Final = (exec, tools, runs, confirmations, audit, keeping, registrations, access, operations)
_SIGNATURES: Final = {
    "forgejoSignature": "X-Forgejo-Signature",
    "giteaSignature": "X-Gitea-Signature",
    "gogsSignature": "X-Gogs-Signature",
    "hubSignature256": "X-Hub-Signature-256",
}
_TAGS: Final = {
    "exec": "调用工具。Running tools.",
    "tools": "注册了什么，从哪个提交来。What is registered, and from which commit.",
    "runs": "运行过什么，真实的回执。What ran, and what really came of it.",
    "confirmations": "执行前的确认。Questions before a run.",
    "audit": "可在外部验证的记录。The record that can be checked from outside.",
    "registrations": "从推送到注册。From a push to the registry.",
    "access": "令牌与登录。Tokens and sessions.",
    "reports": "数字与事件。Numbers and events.",
    "operations": "给运维与程序。For those who run it, and for programs.",
    "hooks": "来自 Forgejo。From the forge.",
}
_ABOUT: Final = (
    "笔筒：工具在仓库里，不在提示词里。推送即注册，按名字执行，真实回执，处处留痕。\n\n"
    "Bitong: a git-native registry of tools with an exec service and a record anyone can check. Times are RFC 3339 UTC with "
    "milliseconds, ids UUIDv7, sizes bytes, durations milliseconds, hashes lower-case hex. A tool outside a token's patterns "
    "does not exist for it. Errors outside `/exec` are RFC 9457 problem details with a stable `code`. HEAD is answered as GET; "
    "another method is 405 and says which are taken. `x-access` lists the scopes of which one suffices."
)


def document(public_url: str) -> dict[str, Any]:
    """The document for a service that people reach at `public_url`."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bitong 笔筒",
            "version": __version__,
            "summary": "A git-native tool registry with an exec service",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": public_url}],
        "tags": [{"name": name, "description": said} for name, said in _TAGS.items()],
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "responses": _problems(),
            "headers": _headers(),
            "securitySchemes": _security_schemes(),
        },
    }


def described() -> dict[str, Text]:
    """`METHOD path`, the path without the API's root → what is said of the route."""
    return {key: said for part in _DESCRIBED for key, said in part.routes().items()}


def key_of(route: Route) -> str:
    """Under which key a route is described."""
    return f"{route.method} {route.path.removeprefix(API)}"


def _schemas() -> dict[str, Schema]:
    return values.schemas() | {name: shape for part in _DESCRIBED for name, shape in part.schemas().items()}


def _paths() -> dict[str, Any]:
    said, samples = described(), examples()
    paths: dict[str, Any] = {}
    for route in ROUTES:
        one = said[key_of(route)]
        item = paths.setdefault(route.path, {})
        if route.method == "*":
            item["x-other-methods"] = _words(one, route) | {"responses": _responses(route, one, samples)}
        else:
            item[route.method.lower()] = _operation(route, one, samples)
    return paths


def _operation(route: Route, said: Text, samples: Mapping[str, Any]) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "operationId": "_".join([route.method.lower(), *re.findall(r"[a-z0-9]+", route.path.removeprefix(API))]),
        "tags": [said.tag],
        **_words(said, route),
        "security": _security(route.access),
        "x-access": list(route.access),
    }
    if parameters := _parameters(route, said):
        shape["parameters"] = parameters
    if said.body is not None:
        content = {"application/json": _content(said.body, (), samples.get(said.body, {}))}
        shape["requestBody"] = {"required": True, "content": content}
    return shape | {"responses": _responses(route, said, samples)}


def _words(said: Text, route: Route) -> dict[str, str]:
    paragraphs = [said.zh, said.en, _who(route.access)]
    return {"summary": said.summary, "description": "\n\n".join(paragraph for paragraph in paragraphs if paragraph)}


def _who(access_words: Sequence[str]) -> str:
    if access_words[0] in (OPEN, SIGNED):
        return ""
    scopes = ["read"] if access_words[0] == METRICS else access_words
    return f"权限：{' 或 '.join(scopes)}。Scope: {' or '.join(scopes)}."


def _security(access_words: Sequence[str]) -> list[dict[str, list[str]]]:
    """One of the list suffices."""
    match access_words[0]:
        case "open":
            return []
        case "signed":
            return [{name: []} for name in _SIGNATURES]
        case "metrics":
            return [{"bearerAuth": ["read"]}, {}]
    return [{"bearerAuth": [scope]} for scope in access_words]


def _security_schemes() -> dict[str, Any]:
    hmac = "HMAC-SHA256 of the body under the webhook's secret, in lower-case hex"
    signatures = {
        name: {
            "type": "apiKey",
            "in": "header",
            "name": header,
            "description": hmac + (", after `sha256=`." if name == "hubSignature256" else "."),
        }
        for name, header in _SIGNATURES.items()
    }
    bearer = "A token has scopes (read, exec, confirm, admin) and optionally patterns of tool names."
    return {"bearerAuth": {"type": "http", "scheme": "bearer", "description": bearer}, **signatures}


def _parameters(route: Route, said: Text) -> list[dict[str, Any]]:
    slots: dict[str, Schema] = {
        "name": text("工具名。The tool's name."),
        "number": whole("The version's number.", minimum=1),
        "id": ref("Id"),
        "index": whole("The entry's place in the log.", minimum=0),
        **said.path,
    }
    query = {**said.query, **(paging(everything=route.path == f"{API}/tools") if said.pages else {})}
    found = [_parameter("path", name, slots[name], needed=True) for name in re.findall(r"{(\w+)}", route.path)]
    found += [_parameter("query", name, shape, needed=name in said.needs) for name, shape in query.items()]
    return found + [_parameter("header", name, shape, needed=False) for name, shape in said.headers.items()]


def _parameter(place: str, name: str, shape: Schema, *, needed: bool) -> dict[str, Any]:
    """A parameter; its description moves from the schema to where readers look for it."""
    bare = {key: value for key, value in shape.items() if key != "description"}
    said = {"description": shape["description"]} if "description" in shape else {}
    return {"name": name, "in": place, "required": needed, **said, "schema": bare}


def _responses(route: Route, said: Text, samples: Mapping[str, Any]) -> dict[str, Any]:
    found = {status: _answer(status, body, samples) for status, body in said.answers.items()}
    for status, codes in _problems_of(route, said).items():
        found[status] = {"$ref": f"#/components/responses/{_named(status, codes)}"}
    if route.method != "*":
        other = "别的错误，如不认识的 Host。Any other error, such as an unknown Host."
        found[0] = _response(other, {PROBLEM: {"schema": ref("Problem")}}, ())
    return {str(status) if status else "default": found[status] for status in sorted(found, key=lambda s: s or 600)}


def _problems_of(route: Route, said: Text) -> dict[int, tuple[str, ...]]:
    """Status → codes: what follows from what a route is, and what is said of it."""
    found: dict[int, tuple[str, ...]] = {}
    if route.access[0] not in (OPEN, SIGNED):
        found |= {401: ("unauthenticated",), 403: ("forbidden",), 429: ("busy",)}
    if route.takes_body:
        found |= {400: ("bad-request", "body-timeout"), 413: ("too-large",)}
    if said.query or said.pages:
        found[422] = ("bad-parameters",)
    return {status: codes for status, codes in {**found, **said.problems}.items() if status not in said.answers}


def _answer(status: int, body: Body, samples: Mapping[str, Any]) -> dict[str, Any]:
    if body.media is None:
        return _response(body.said, None, body.headers)
    if body.schema is None:
        return _response(body.said, {body.media: {}}, body.headers)
    shown = samples.get(f"{body.schema}/{status}", samples.get(body.schema, {}))
    return _response(body.said, {body.media: _content(body.schema, body.codes, shown)}, body.headers)


def _problems() -> dict[str, Any]:
    """Every problem that some route may answer, once."""
    said = described()
    kinds = {pair for route in ROUTES for pair in _problems_of(route, said[key_of(route)]).items()}
    return {_named(status, codes): _problem(status, codes) for status, codes in sorted(kinds)}


def _named(status: int, codes: Sequence[str]) -> str:
    return "-".join([str(status), *codes])


def _problem(status: int, codes: Sequence[str]) -> dict[str, Any]:
    headers = {401: ("WWW-Authenticate",), 405: ("Allow",), 429: ("Retry-After",)}.get(status, ())
    shown = {code: problem_example(status, code) for code in codes}
    return _response(f"{SAID[status].zh}{SAID[status].en}", {PROBLEM: _content("Problem", codes, shown)}, headers)


def _content(schema: str, codes: Sequence[str], shown: Mapping[str, Any]) -> dict[str, Any]:
    """A body: its schema, narrowed to the codes it may have here, and its examples."""
    shape = ref(schema)
    if codes:
        shape = {"allOf": [shape, {"properties": {"code": {"enum": list(codes)}}}]}
    content: dict[str, Any] = {"schema": shape}
    if shown:
        content["examples"] = {name: {"value": value} for name, value in shown.items()}
    return content


def _response(said: str, content: Mapping[str, Any] | None, headers: Sequence[str]) -> dict[str, Any]:
    named = {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *headers)}
    return {"description": said, "headers": named} | ({} if content is None else {"content": dict(content)})


def _headers() -> dict[str, Any]:
    said = {
        "X-Request-Id": "The caller's own where it is a plain one, else a new id; it stands in the service's log lines.",
        "ETag": "Changes when the answer does.",
        "Allow": "The methods that are taken.",
        "WWW-Authenticate": "Bearer.",
        "Accept-Ranges": "bytes.",
        "Content-Range": "Which bytes these are, and of how many.",
        "Connection": "close.",
    }
    shapes = {name: {"description": words, "schema": {"type": "string"}} for name, words in said.items()}
    return shapes | {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}
