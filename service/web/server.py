"""The table of routes, and the ASGI application made from it (contract/http-api.md)."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from service.domain.actors import Actor, person_of
from service.errors import Message, NotFound
from service.web import (
    audit,
    confirmations,
    events,
    exec,
    following,
    hooks,
    keeping,
    matching,
    operations,
    proofs,
    registrations,
    runs,
    sessions,
    stats,
    time_machine,
    tokens,
    tools,
)
from service.web.errors import INTERNAL, problem
from service.web.pages.table import PAGES
from service.web.pages.view import SESSION, failed
from service.web.parts import Parts
from service.web.routing import (
    METRICS,
    NOBODY,
    OPEN,
    PROBLEM,
    SIGNED,
    Answer,
    Endpoint,
    Pools,
    Route,
    asked_of,
    need,
    request_id,
    respond,
)

API: Final = "/api/v1"
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?\Z", re.ASCII)
LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]", "::1")

_READ, _EXEC, _ADMIN, _SEE = ("read",), ("exec",), ("admin",), ("read", "exec")
_ASK: Final = ("exec", "confirm")

ROUTES: Final[Sequence[Route]] = (
    Route("POST", "/hooks/forgejo", (SIGNED,), hooks.receive, "hooks", takes_body=True, render_error=hooks.failed),
    Route("*", "/hooks/forgejo", (SIGNED,), hooks.wrong_method, "hooks"),
    Route("GET", "/healthz", (OPEN,), operations.healthz),
    Route("GET", "/readyz", (OPEN,), operations.readyz),
    Route("GET", "/metrics", (METRICS,), operations.metrics),
    Route("GET", f"{API}/openapi.json", (OPEN,), operations.openapi),
    Route("GET", f"{API}/schema", _SEE, operations.schema),
    Route("POST", f"{API}/exec", _EXEC, exec.execute, "exec", takes_body=True, render_error=exec.failed),
    Route("GET", f"{API}/tools", _SEE, tools.list_tools),
    Route("GET", f"{API}/tools/{{name}}", _SEE, tools.show_tool),
    Route("GET", f"{API}/tools/{{name}}/versions", _SEE, tools.list_versions),
    Route("GET", f"{API}/tools/{{name}}/versions/{{number}}", _SEE, tools.show_version),
    Route("GET", f"{API}/tools/{{name}}/versions/{{number}}/source", _SEE, tools.show_source),
    Route("GET", f"{API}/tools/{{name}}/versions/{{number}}/diff", _SEE, tools.show_diff),
    Route("GET", f"{API}/tools/{{name}}/intents", _ADMIN, matching.list_intents),
    Route("DELETE", f"{API}/tools/{{name}}/intents", _ADMIN, matching.forget_intents),
    Route("GET", f"{API}/tools/{{name}}/at", _SEE, time_machine.tool_at),
    Route("GET", f"{API}/runs", _SEE, runs.list_runs),
    Route("GET", f"{API}/runs/{{id}}", _SEE, runs.show_run),
    Route("GET", f"{API}/runs/{{id}}/stdout", _SEE, runs.show_stdout),
    Route("GET", f"{API}/runs/{{id}}/stderr", _SEE, runs.show_stderr),
    Route("GET", f"{API}/runs/{{id}}/events", _SEE, following.follow),
    Route("GET", f"{API}/runs/{{id}}/proof", _SEE, proofs.prove_run),
    Route("POST", f"{API}/runs/{{id}}/cancel", ("exec", "admin"), runs.cancel),
    Route("GET", f"{API}/confirmations", _ASK, confirmations.list_confirmations),
    Route("GET", f"{API}/confirmations/{{id}}", _ASK, confirmations.show_confirmation),
    Route(
        "POST",
        f"{API}/confirmations/{{id}}",
        ("confirm",),
        confirmations.answer_confirmation,
        "exec",
        takes_body=True,
    ),
    Route("GET", f"{API}/audit", _READ, audit.list_entries),
    Route("GET", f"{API}/audit/entries/{{index}}", _READ, audit.show_entry),
    Route("GET", f"{API}/audit/checkpoint", _READ, proofs.show_checkpoint),
    Route("GET", f"{API}/audit/proof/{{index}}", _READ, proofs.prove_entry),
    Route("GET", f"{API}/audit/consistency", _READ, proofs.prove_growth),
    Route("POST", f"{API}/audit/verify", _READ, proofs.verify, "sync"),
    Route("GET", f"{API}/audit/anchors", _READ, keeping.list_anchors),
    Route("POST", f"{API}/audit/purge-output", _ADMIN, keeping.purge_output, takes_body=True),
    Route("GET", f"{API}/backup", _ADMIN, keeping.back_up, "sync"),
    Route("GET", f"{API}/rejections", _READ, registrations.list_rejections),
    Route("GET", f"{API}/rejections/{{commit}}/{{name}}/source", _READ, registrations.show_rejected),
    Route("GET", f"{API}/deliveries", _READ, registrations.list_deliveries),
    Route("POST", f"{API}/sync", _ADMIN, registrations.sync, "sync"),
    Route("GET", f"{API}/stats", _READ, stats.show_stats),
    Route("GET", f"{API}/reports/missing-tools", _READ, matching.missing_tools),
    Route("GET", f"{API}/tokens", _ADMIN, tokens.list_tokens),
    Route("POST", f"{API}/tokens", _ADMIN, tokens.issue, takes_body=True),
    Route("DELETE", f"{API}/tokens/{{id}}", _ADMIN, tokens.revoke),
    Route("GET", f"{API}/sessions", _ADMIN, sessions.list_sessions),
    Route("DELETE", f"{API}/sessions/{{id}}", _ADMIN, sessions.end),
    Route("POST", f"{API}/sign-in-links", _ADMIN, sessions.make_link),
    # Named by the contract, not built yet: 503 `not-available` to whoever may ask.
    Route("GET", f"{API}/events", _SEE, events.listen),
)


def create_application(
    parts: Parts,
    pools: Pools,
    *,
    allowed_hosts: Sequence[str],
    metrics_public: bool,
    lifespan: Callable[[Starlette], Any] | None = None,
) -> "Edge":
    """The ASGI application over these parts."""

    def authenticate(request: Request, route: Route) -> Actor:
        access = route.access
        if access[0] in (OPEN, SIGNED) or (access[0] == METRICS and metrics_public):
            return NOBODY
        person = _signed_in(parts, request, route)
        if person is not None:
            need(person, ["read"] if access[0] == METRICS else access)
            return person
        source = "" if request.client is None else request.client.host
        given = request.headers.getlist("authorization")
        header = given[0] if len(given) == 1 else None  # of two, a proxy before us may have judged the other
        actor = parts.authority.authenticate(header, source=source, from_loopback=source in ("", *LOOPBACK_HOSTS))
        need(actor, ["read"] if access[0] == METRICS else access)
        return actor

    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in (*ROUTES, *PAGES):
        limit = _limit_of(parts, route)
        by_path.setdefault(route.path, {})[route.method] = Endpoint(route, parts, pools, authenticate, limit)
    starlette = Starlette(
        routes=[StarletteRoute(path, _Resource(endpoints)) for path, endpoints in by_path.items()],
        exception_handlers={HTTPException: partial(_http_error, parts), Exception: _internal},
        lifespan=lifespan,
    )
    starlette.router.redirect_slashes = False  # a 307 loses a webhook's body (facts/platform.md)
    return Edge(starlette, _hosts(parts.public_url, allowed_hosts))


def _signed_in(parts: Parts, request: Request, route: Route) -> Actor | None:
    """Who the session's cookie stands for. It opens pages, and of the API what only reads: a cookie comes along by itself."""
    token_shown = "authorization" in request.headers
    if route.page is None and (token_shown or route.method != "GET"):
        return None
    session = parts.people.sessions.find(request.cookies.get(SESSION, ""))
    return None if session is None else person_of(session)


class Edge:
    """Outermost: whose Host is answered, and an id for each request, in its answer and its log lines."""

    def __init__(self, inner: Any, hosts: frozenset[str]) -> None:
        self._inner = inner
        self._hosts = hosts

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        this = request_id(headers)
        structlog.contextvars.bind_contextvars(request=this)

        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", this.encode("ascii"))]
            await send(message)

        try:
            if _host_of(headers.get("host", "")) in self._hosts:
                await self._inner(scope, receive, send_with_id)
            else:
                message = Message(
                    "不认识这个 Host。", "This Host is not served here; see public_url and allowed_hosts."
                )
                answer = respond(Answer(problem(400, "unknown-host", message), 400, media_type=PROBLEM))
                await answer(scope, receive, send_with_id)
        finally:
            structlog.contextvars.unbind_contextvars("request")


class _Resource:
    """One path and its verbs; HEAD asks as GET does, and what is not in the table is 405. An ASGI application of its own."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive, send)
        method = "GET" if request.method == "HEAD" else request.method
        found = self._endpoints.get(method) or self._endpoints.get("*")
        response = await found(request) if found is not None else self._not_taken()
        await response(scope, receive, send)

    def _not_taken(self) -> Response:
        allowed = ", ".join(sorted(self._endpoints))
        message = Message(f"这里只接受 {allowed}。", f"Only {allowed} is taken here.")
        answer = problem(405, "method-not-allowed", message)
        return respond(Answer(answer, 405, {"Allow": allowed}, media_type=PROBLEM))


def _limit_of(parts: Parts, route: Route) -> Callable[[], int]:
    name = "hooks" if route.pool == "hooks" else "params"
    return lambda: parts.max_body[name]


def _hosts(public_url: str, allowed: Sequence[str]) -> frozenset[str]:
    return frozenset(host.lower() for host in (urlsplit(public_url).hostname or "", *LOOPBACK_HOSTS, *allowed) if host)


def _host_of(header: str) -> str:
    """The name in a Host header, without its port."""
    match = _HOST.match(header.strip().lower())
    return match.group(1) if match else ""


async def _http_error(parts: Parts, request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = Message("没有这个地址。", "There is nothing at this address.") if status == 404 else INTERNAL
    if status == 404 and "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(API):
        return respond(failed(parts, NotFound(message), asked_of(request, NOBODY)))
    return respond(
        Answer(problem(status, "not-found" if status == 404 else "error", message), status, media_type=PROBLEM)
    )


async def _internal(_request: Request, _error: Exception) -> Response:
    return respond(Answer(problem(500, "internal", INTERNAL), 500, media_type=PROBLEM))
