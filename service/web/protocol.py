"""HTTP/1.1 as uvicorn speaks it, with what it lacks: a limit and a deadline for headers, and our own words for what is no HTTP.

facts/platform.md: uvicorn has no header timeout and no cap; partial headers stayed open for ever.
"""

import asyncio
import http
import json
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.domain.times import uuid7
from service.errors import Message
from service.web.errors import problem

HEADER_BYTES: Final = 64 * 1024
HEADER_S: Final = 5.0  # from a request's first byte to the end of its headers
SILENT_S: Final = 30.0  # for a connection that says nothing at first

_NO_HTTP: Final = Message("这不是 HTTP/1.1 请求。", "This is no HTTP/1.1 request.")
_TOO_MANY: Final = Message("请求头太大。", "The headers are too large.")
_FOREIGN: Final = Message(
    "请求行须为路径，Host 须只有一个。", "The request line takes a path, and there is exactly one Host."
)


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._header_bytes = 0
        self._in_headers = True
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection opened."""
        super().connection_made(transport)
        self._give(SILENT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection closed."""
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came: while they are headers they are counted and timed."""
        if self._in_headers:
            if self._header_bytes == 0:
                self._give(HEADER_S)
            self._header_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes > HEADER_BYTES and not self.transport.is_closing():
            self._refuse(431, "headers-too-large", _TOO_MANY)

    def on_message_begin(self) -> None:
        """A request begins, maybe in bytes that came with the one before."""
        self._in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request's headers are here: refuse what names another place than its one Host line does."""
        self._in_headers = False
        self._header_bytes = 0
        self._forget_deadline()
        hosts = [name for name, _ in self.headers if name == b"host"]
        if len(hosts) != 1 or not (self.url.startswith(b"/") or self.url == b"*") or not self.url.isascii():
            self._refuse(400, "bad-request", _FOREIGN)
            return
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is here as a whole; what comes next is the headers of another."""
        self._in_headers = True
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body; of a request that was refused it is let go."""
        if not self.transport.is_closing():
            super().on_body(body)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are not ours
        """What came is no HTTP."""
        if not self.transport.is_closing():
            self._refuse(400, "bad-request", _NO_HTTP)

    def _refuse(self, status: int, code: str, message: Message) -> None:
        content = json.dumps(problem(status, code, message), ensure_ascii=False).encode()
        head = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\nx-request-id: {uuid7()}\r\n"
            f"content-type: application/problem+json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + content)
        self.transport.close()

    def _give(self, seconds: float) -> None:
        self._forget_deadline()
        self._deadline = self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        if self._in_headers and not self.transport.is_closing():
            self.transport.abort()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
