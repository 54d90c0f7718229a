"""The gatekeeper's HTTP edge: `POST /exec` and `GET /healthz`. Async here; a call is one function in one thread."""

import asyncio
import base64
import contextlib
import ctypes
import hashlib
import hmac
import ipaddress
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import service
from service.errors import (
    BitongError,
    Busy,
    CannotRecord,
    Conflict,
    Invalid,
    Malformed,
    Message,
    TooLarge,
    Unauthenticated,
    UsageError,
)
from service.gatekeeper.answers import Answer, json_bytes
from service.gatekeeper.calls import GatekeeperCall, read_call
from service.gatekeeper.config import GatekeeperConfig
from service.gatekeeper.methods import Gatekeeper

__all__ = ["GatekeeperConfig", "create_app", "running", "serve"]

_PR_SET_DUMPABLE: Final = 4
_STATUS: Final[Mapping[type[BitongError], int]] = {
    Malformed: 400,
    Unauthenticated: 401,
    Conflict: 409,
    TooLarge: 413,
    Invalid: 422,
    Busy: 429,
    CannotRecord: 503,
}
# Looking at a run and ending it must work while all places are taken.
_OUT_OF_LINE: Final = ("status", "cancel")
_OUT_OF_LINE_CALLS: Final = 8
# After the runs were ended, this long for their answers to go out.
LAST_ANSWERS_S: Final = 3

_LOG = logging.getLogger(__name__)


def create_app(config: GatekeeperConfig) -> Starlette:
    """The application; its lifespan's end gives back roots and journal. Raises UsageError for what cannot be."""
    return _app(_Edge(config, Gatekeeper(config)))


def _app(edge: "_Edge") -> Starlette:
    return Starlette(
        routes=[
            Route("/exec", edge.execute, methods=["POST"]),
            Route("/healthz", _health, methods=["GET"]),
        ],
        lifespan=edge.lifespan,
    )


def serve(
    config: GatekeeperConfig, host: str = "127.0.0.1", port: int = 3911, on_ready: Callable[[str], None] | None = None
) -> None:
    """Serve until a signal ends it. Port 0 takes a free one; `on_ready` gets the base URL once it listens.

    Raises UsageError for an address beyond this host that was not allowed, or one that cannot be had.
    """
    _hide_memory()
    server, listener = _server(config, host, port)
    if on_ready is not None:
        on_ready(_url(listener))
    with listener:
        server.run(sockets=[listener])


@contextlib.contextmanager
def running(config: GatekeeperConfig, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The gatekeeper in a thread, for as long as this is entered; gives its base URL."""
    _hide_memory()
    server, listener = _server(config, host, port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="gatekeeper", daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        yield _url(listener)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


class _Edge:
    """Authenticates, reads the body within cap and time, and hands the call to a thread."""

    def __init__(self, config: GatekeeperConfig, gatekeeper: Gatekeeper) -> None:
        self._config = config
        self._token = _digest(config.token.encode())
        self._gatekeeper = gatekeeper
        self._places = anyio.CapacityLimiter(config.max_calls)
        self._out_of_line = anyio.CapacityLimiter(_OUT_OF_LINE_CALLS)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Nothing runs on after it: what still does is ended."""
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(self._gatekeeper.close)

    async def execute(self, request: Request) -> Response:
        """`POST /exec`."""
        started = time.monotonic()
        try:
            self._authenticate(request)
            call = read_call(_parse(await self._body(request)), self._config)
            if "text/event-stream" in request.headers.get("accept", ""):
                return await self._streamed(call, started)
            return _json(await self._handle(call, started))
        except BitongError as error:
            return _refusal(error)

    def _authenticate(self, request: Request) -> None:
        """Raises Unauthenticated unless the one Authorization header holds our token; in constant time (R3)."""
        given = request.headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        # Digests have one length, whatever was given.
        right = hmac.compare_digest(_digest(token.strip().encode("utf-8", "replace")), self._token)
        if scheme.lower() != "bearer" or not right:
            raise Unauthenticated(Message("没有令牌，或令牌不对", "no token, or a wrong one"))

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._config.body_deadline_s):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self._config.max_body_bytes:
                        limit = self._config.max_body_bytes
                        raise TooLarge(Message(f"请求体超过 {limit} 字节", f"the body is over {limit} bytes"))
        except (TimeoutError, ClientDisconnect):
            raise Malformed(Message("请求体没有按时到齐", "the body did not come in time")) from None
        return bytes(body)

    async def _handle(
        self, call: GatekeeperCall, started: float, on_output: Callable[[str, bytes], None] | None = None
    ) -> Answer:
        places = self._out_of_line if call.method in _OUT_OF_LINE else self._places
        if places.available_tokens < 1:
            raise Busy(Message("网关正忙", "the gatekeeper has no free place"))
        return await anyio.to_thread.run_sync(
            partial(self._gatekeeper.handle, call, started, on_output), limiter=places, abandon_on_cancel=True
        )

    async def _streamed(self, call: GatekeeperCall, started: float) -> Response:
        """Server-sent events: `output` {stream, b64} as it comes, then `answer`. The status waits for the first one."""
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[bytes | BitongError | None] = asyncio.Queue()

        def on_output(name: str, data: bytes) -> None:
            event = _event("output", {"stream": name, "b64": base64.b64encode(data).decode()})
            loop.call_soon_threadsafe(events.put_nowait, event)

        async def work() -> None:
            try:
                events.put_nowait(_event("answer", await self._handle(call, started, on_output)))
            except BitongError as error:
                events.put_nowait(error)
            finally:
                events.put_nowait(None)

        task = loop.create_task(work())
        first = await events.get()
        if isinstance(first, BitongError):
            raise first
        return StreamingResponse(_stream(first, events, task), media_type="text/event-stream")


class _Server(uvicorn.Server):
    """Lets runs go on for a while when it stops, then ends them, so that their callers still get an answer."""

    def __init__(self, config: uvicorn.Config, gatekeeper: Gatekeeper, grace_s: float) -> None:
        super().__init__(config)
        self._gatekeeper = gatekeeper
        self._grace_s = grace_s

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, beside the end of the runs."""
        ending = asyncio.get_running_loop().create_task(self._end_runs())
        await super().shutdown(sockets)
        ending.cancel()

    async def _end_runs(self) -> None:
        await asyncio.sleep(self._grace_s)
        await anyio.to_thread.run_sync(self._gatekeeper.end_runs)


async def _stream(
    first: bytes | None, events: "asyncio.Queue[bytes | BitongError | None]", task: "asyncio.Task[None]"
) -> AsyncIterator[bytes]:
    event: bytes | BitongError | None = first
    while isinstance(event, bytes):
        yield event
        event = await events.get()
    await task


async def _health(_: Request) -> Response:
    return _json({"ok": True, "name": "bitong-gatekeeper", "version": service.__version__})


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed(Message("请求体不是 JSON", "the body is not JSON")) from None


def _json(document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_bytes(document), status, headers, media_type="application/json")


def _refusal(error: BitongError) -> Response:
    """Nothing was begun. The body may not have been read, so the connection ends with this answer."""
    document = {"ok": False, "code": error.code, "error": error.message.en, "message": error.message.as_json()}
    headers = {"Connection": "close"} | ({"Retry-After": "1"} if isinstance(error, Busy) else {})
    return _json(document, _STATUS[type(error)], headers)


def _event(kind: str, document: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json_bytes(document))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _server(config: GatekeeperConfig, host: str, port: int) -> tuple[uvicorn.Server, socket.socket]:
    if not config.allow_remote and not _is_loopback(host):
        raise UsageError(
            Message(
                f"{host} 不是本机地址：令牌会明文经过网络；确实要这样，就写明允许",
                f"{host} is beyond loopback, and tokens would cross the network in clear; allow it in so many words",
            )
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise UsageError(
            Message(f"不能监听 {host}:{port}：{error.strerror}", f"cannot listen on {host}:{port}: {error.strerror}")
        ) from error
    # asyncio sets it only on sockets that say they are TCP; without it a kept-alive answer waits 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        gatekeeper = Gatekeeper(config)
    except BaseException:
        listener.close()
        raise
    settings = uvicorn.Config(
        _app(_Edge(config, gatekeeper)),
        loop="asyncio",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(config.shutdown_grace_s) + LAST_ANSWERS_S,
    )
    return _Server(settings, gatekeeper, config.shutdown_grace_s), listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _hide_memory() -> None:
    """A process of the same user could read our token in `/proc/<pid>/environ` or memory; not after this (X35)."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
