"""How a request becomes one call into a thread and an answer; the only asynchronous code (design.md, Two halves)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from service.domain.actors import Actor
from service.domain.times import uuid7
from service.errors import BitongError, Forbidden, Malformed, Message, TooLarge
from service.web.errors import INTERNAL, headers_of, problem, status_of

logger = structlog.get_logger(__name__)

T = TypeVar("T")

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
HOOK_DEADLINE_S: Final = 5.0  # the forge itself gives up after five seconds
BODY_DEADLINE_S: Final = 30.0

_STREAM_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",  # nginx would hold events back
}

# Who may ask. One of the scopes named suffices; the others are words of their own.
OPEN, SIGNED, METRICS = "open", "signed", "metrics"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as handlers see it: nothing of HTTP's library."""

    actor: Actor
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw_headers: Sequence[tuple[bytes, bytes]]
    body: bytes = b""
    address: str = ""  # path and query as they were asked for


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler gives back. `content` is JSON-ready, or bytes with their own media type; `cookies` to be set."""

    content: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = JSON
    cookies: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """An answer that is not ready: no thread waits for it. After `timeout_s` the caller gets `late` instead."""

    done: Future[Any]
    timeout_s: float
    answer: Callable[[Any], Answer]  # from what `done` gives; what `done` raises is answered as any failure
    late: Callable[[], Answer]


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that goes on: server-sent events, as long as both sides stay."""

    chunks: Callable[[], AsyncIterator[bytes]]
    media_type: str = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Paged:
    """An answer that comes piece by piece, each made in a pool's thread once the one before has gone out.

    A slow reader so holds a connection and one piece, no thread and no transaction. What `pieces` raises breaks the answer
    off, so that half of it never looks whole.
    """

    pieces: Generator[bytes]
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Any, Asked], Answer | Pending | Streamed | Paged]


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table: what is asked, who may, and who answers.

    `pool`: exec, hooks or reads, each with threads of its own so that one cannot starve another. `max_body`: the name of
    the part's limit in bytes. `render_error`: the shape of errors where it is not problem details. `page`: for people, who
    show a cookie instead of a token; how its errors look to them.
    """

    method: str
    path: str
    access: tuple[str, ...]
    handler: Handler
    pool: str = "reads"
    takes_body: bool = False
    render_error: Callable[[BitongError, Asked | None], Answer] | None = None
    page: Callable[[Any, BitongError, Asked], Answer] | None = None


class Pools:
    """Threads for handlers, bounded, by kind of work."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._pools = {name: ThreadPoolExecutor(size, thread_name_prefix=name) for name, size in sizes.items()}

    async def run(self, name: str, work: Callable[[], T]) -> T:
        """Run one handler in its pool. A caller that goes away cancels nothing."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._pools[name], work))

    def close(self) -> None:
        """Let what runs end; start nothing more."""
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)


Authenticate = Callable[[Request, Route], Actor]
NOBODY: Final = Actor("nobody", frozenset())


class Endpoint:
    """A route joined to the parts it works with: the ASGI edge."""

    def __init__(
        self, route: Route, parts: Any, pools: Pools, authenticate: Authenticate, max_body: Callable[[], int]
    ) -> None:
        self.route = route
        self._parts = parts
        self._pools = pools
        self._authenticate = authenticate
        self._max_body = max_body

    async def __call__(self, request: Request) -> Response:
        """Authenticate, read the body within its limits, call the handler in a thread."""
        began = time.monotonic()
        asked: Asked | None = None
        try:
            if self.route.page is not None:
                asked = asked_of(request, NOBODY)  # a page's failures are pages too, also for nobody
            actor = self._authenticate(request, self.route)
            body = await self._body(request) if self.route.takes_body else b""
            asked = asked_of(request, actor, body)
            found = await self._pools.run(self.route.pool, partial(self._handle, asked))
            if isinstance(found, Streamed) and request.method == "HEAD":
                return Response(None, headers=_STREAM_HEADERS, media_type=found.media_type)
            if isinstance(found, Streamed):
                return StreamingResponse(found.chunks(), headers=_STREAM_HEADERS, media_type=found.media_type)
            if isinstance(found, Paged):
                return self._piece_by_piece(request, found)
            answer = await self._wait(found) if isinstance(found, Pending) else found
        except BitongError as error:
            answer = self._failed(error, asked)
        except ClientDisconnect:
            answer = Answer(b"", 400, media_type=JSON)
        except Exception as error:
            logger.exception("request failed inside", path=self.route.path, error=type(error).__name__)
            internal = BitongError(INTERNAL)
            answer = self._failed(internal, asked)
        if self.route.pool == "hooks":
            self._parts.metrics.hooks.labels(str(answer.status)).inc()
        logger.debug(
            "request",
            method=self.route.method,
            path=self.route.path,
            status=answer.status,
            duration_ms=int((time.monotonic() - began) * 1000),
        )
        return respond(answer)

    def _piece_by_piece(self, request: Request, paged: Paged) -> Response:
        headers = {**_STREAM_HEADERS, **paged.headers}
        if request.method == "HEAD":
            paged.pieces.close()
            return Response(headers=headers, media_type=paged.media_type)
        return StreamingResponse(self._pieces(paged), headers=headers, media_type=paged.media_type)

    async def _pieces(self, paged: Paged) -> AsyncIterator[bytes]:
        streams = self._parts.streams
        streams.enter()
        try:
            while (piece := await self._pools.run(self.route.pool, lambda: next(paged.pieces, None))) is not None:
                yield piece
        finally:
            streams.leave()
            with suppress(ValueError):  # it runs in a thread, and ends there unheard
                paged.pieces.close()

    def _handle(self, asked: Asked) -> Answer | Pending | Streamed | Paged:
        """In the pool's thread."""
        answer = self.route.handler(self._parts, asked)
        return _encoded(answer) if isinstance(answer, Answer) else answer

    async def _wait(self, pending: Pending) -> Answer:
        """Wait without a thread. A caller that goes away cancels nothing."""
        done = asyncio.wrap_future(pending.done)
        try:
            async with asyncio.timeout(pending.timeout_s):
                result = await asyncio.shield(done)
        except TimeoutError:
            done.add_done_callback(_heard)
            return await self._pools.run(self.route.pool, lambda: _encoded(pending.late()))
        return await self._pools.run(self.route.pool, lambda: _encoded(pending.answer(result)))

    async def _body(self, request: Request) -> bytes:
        deadline = HOOK_DEADLINE_S if self.route.pool == "hooks" else BODY_DEADLINE_S
        return await read_body(request, self._max_body(), deadline)

    def _failed(self, error: BitongError, asked: Asked | None) -> Answer:
        if self.route.page is not None and asked is not None:
            return self.route.page(self._parts, error, asked)
        if self.route.render_error is not None:
            answer = self.route.render_error(error, asked)
        else:
            status = status_of(error)
            answer = Answer(
                problem(status, error.code, error.message, error.facts.get("problems")), status, media_type=PROBLEM
            )
        return Answer(answer.content, answer.status, {**answer.headers, **headers_of(error)}, answer.media_type)


def _heard(done: "asyncio.Future[Any]") -> None:
    """What came of it is recorded; nobody waits for it here any more."""
    if not done.cancelled():
        done.exception()


def _encoded(answer: Answer) -> Answer:
    """With its content as bytes: in a pool's thread, since sixteen megabytes of JSON would keep everybody waiting."""
    return answer if isinstance(answer.content, bytes) else replace(answer, content=dump(answer.content))


def respond(answer: Answer) -> Response:
    """The bytes of an answer."""
    content = answer.content if isinstance(answer.content, bytes) else dump(answer.content)
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **answer.headers}
    response = Response(content, answer.status, headers)
    if content or answer.status not in (202, 204, 304):
        response.headers["Content-Type"] = answer.media_type
    for cookie in answer.cookies:
        response.headers.append("Set-Cookie", cookie)
    return response


def dump(value: Any) -> bytes:
    """JSON in UTF-8; text that is no Unicode (a lone surrogate in a name that was asked for) is escaped instead."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


async def read_body(request: Request, limit: int, deadline_s: float) -> bytes:
    """The whole body, within `limit` bytes and a deadline. Raises TooLarge or Malformed."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise too_large(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(deadline_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise too_large(limit)
                chunks.append(chunk)
    except TimeoutError:
        raise Malformed(
            Message(f"请求体未在 {deadline_s:g} 秒内到齐。", f"The body did not arrive within {deadline_s:g} seconds."),
            code="body-timeout",
        ) from None
    return b"".join(chunks)


def too_large(limit: int) -> TooLarge:
    """The refusal of a body over its cap."""
    return TooLarge(Message(f"请求体超过 {limit} 字节。", f"The body is larger than {limit} bytes."))


def need(actor: Actor, access: Sequence[str]) -> None:
    """Raise Forbidden when the actor holds none of the scopes."""
    if not any(actor.may(scope) for scope in access):
        names = " / ".join(access)
        raise Forbidden(Message(f"令牌没有所需的权限：{names}。", f"The token lacks the scope: {names}."))


def request_id(headers: Mapping[str, str]) -> str:
    """The caller's X-Request-Id where it is a plain one, else a new id."""
    given = headers.get("x-request-id", "")
    plain = 0 < len(given) <= 64 and given.isascii() and all(c.isalnum() or c in "-_." for c in given)
    return given if plain else uuid7()


def asked_of(request: Request, actor: Actor, body: bytes = b"") -> Asked:
    """A request as handlers see it."""
    query = request.url.query
    address = request.url.path + (f"?{query}" if query else "")
    return Asked(actor, request.path_params, _query(request), request.headers, request.scope["headers"], body, address)


def _query(request: Request) -> dict[str, str]:
    return dict(request.query_params)
