"""One HTTP call to a far side, with a total deadline, that says whether it was sent (contract/executors.md, Common).

A connection is made for each call and closed after it. On a kept-alive one "closed before our request" and "closed
because of it" look alike, and then nobody could say whether a tool ran. No redirects, no proxies, no decoding, no
second attempt. Httpcore speaks the protocol; the sockets are ours (wire.py).
"""

import hashlib
import ipaddress
import re
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httpcore
import httpx

from service.domain.executors import Cancel, Stream
from service.errors import Message
from service.execution.executors.wire import Address, NotConnected, Wire, words_of

USER_AGENT: Final = "bitong"
# A wait that ends by its time limit may end this much before it, by rounding.
CLOCK_S: Final = 0.005
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PRINTABLE: Final = re.compile(r"[!-~]+")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

_CAUSES: Final = {
    "connection": ("连接不上", "no connection"),
    "name": ("域名解析不了", "the name could not be resolved"),
    "tls": ("TLS 握手失败", "the TLS handshake failed"),
    "address": ("不允许连接这个地址", "this address is not allowed"),
    "request": ("这个请求发不出去", "this request cannot be sent"),
    "lost": ("连接断了，没有收到完整的回应", "the connection was lost before the whole answer came"),
    "garbled": ("回应不是看得懂的 HTTP", "the answer is not HTTP that can be understood"),
    "deadline": ("时限内没有收到完整的回应", "no whole answer came within the time limit"),
    "cancelled": ("被取消", "cancelled"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `url`: absolute, ASCII, sent as it is written. `token` goes as `Authorization: Bearer`."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NotSent:
    """Not one byte of the request left: the far side did not act.

    `cause`: "connection", "name", "tls", "address", "request", "deadline" or "cancelled".
    """

    cause: str
    why: Message


@dataclass(frozen=True, slots=True)
class Lost:
    """Sent, and no whole answer came: the far side may have acted. What came of the answer stands here.

    `cause`: "lost" (closed, reset, cut short), "garbled" (not HTTP), "deadline" or "cancelled".
    """

    cause: str
    why: Message
    status: int | None
    headers: httpx.Headers
    body: Stream


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, of whatever status. `body`: raw bytes, not decoded by any Content-Encoding."""

    status: int
    headers: httpx.Headers
    body: Stream


class Tally:
    """Keeps the first `keep` bytes; counts and hashes all."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._kept = bytearray()
        self._hash = hashlib.sha256()
        self._total = 0

    def take(self, data: bytes) -> None:
        """The next bytes."""
        self._total += len(data)
        self._hash.update(data)
        if (room := self._keep - len(self._kept)) > 0:
            self._kept += data[:room]

    def stream(self) -> Stream:
        """What came so far."""
        return Stream(bytes(self._kept), self._total, self._hash.hexdigest())


class HttpCaller:
    """Makes calls; safe to share among threads. `may_connect` is asked about each address right before it is used."""

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, may_connect: Callable[[Address], bool] | None = None
    ) -> None:
        self._tls = tls
        self._may_connect = may_connect
        self._lock = threading.Lock()

    def call(
        self,
        request: Request,
        *,
        deadline: float,
        keep: int,
        cancel: Cancel | None = None,
        on_body: Callable[[int, httpx.Headers, bytes], None] | None = None,
    ) -> NotSent | Lost | Answer:
        """Send it once. Never raises for what the far side does.

        `deadline`: by `time.monotonic()`, for all of it, from the name's resolution to the body's last byte. `keep`:
        bytes kept of the body; all are counted and hashed. `on_body` gets status, headers and the bytes as they come.
        """
        try:
            parts = split_url(request.url)
            headers = _headers(request, parts)
        except ValueError as error:
            return NotSent("request", _why("request", str(error), None))
        wire = Wire(deadline, self._may_connect)
        if cancel is not None:
            cancel.listen(wire.cut)
        answer = _Arriving(Tally(keep), on_body)
        try:
            self._exchange(request, parts, headers, wire, answer)
        except Exception as error:  # noqa: BLE001  whatever a far side provokes becomes a result
            return _failure(error, wire, answer, parts.netloc)
        return Answer(answer.status or 0, answer.headers, answer.tally.stream())

    def _exchange(
        self,
        request: Request,
        parts: SplitResult,
        headers: list[tuple[bytes, bytes]],
        wire: Wire,
        answer: "_Arriving",
    ) -> None:
        host, port = (parts.hostname or "").encode(), parts.port or DEFAULT_PORTS[parts.scheme]
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        url = httpcore.URL(scheme=parts.scheme.encode(), host=host, port=port, target=target.encode())
        tls = self._tls_context() if parts.scheme == "https" else None
        with closing(httpcore.HTTPConnection(url.origin, ssl_context=tls, network_backend=wire)) as connection:
            response = connection.handle_request(
                httpcore.Request(request.method.encode(), url, headers=headers, content=request.body or b"")
            )
            answer.begin(response.status, response.headers)
            for chunk in response.iter_stream():
                answer.take(chunk)

    def _tls_context(self) -> ssl.SSLContext:
        """Made once and when first needed: reading the trust store takes 20 ms."""
        with self._lock:
            if self._tls is None:
                self._tls = httpx.create_ssl_context(trust_env=False)
            return self._tls


def split_url(url: str) -> SplitResult:
    """The parts of an absolute http(s) URL without a user name; else a ValueError, which never quotes it."""
    if not _PRINTABLE.fullmatch(url):
        raise ValueError("the URL is empty or holds a space, a control character or a letter beyond ASCII")
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError("the URL is not an absolute http or https URL")
    if "@" in parts.netloc:
        raise ValueError("the URL holds a user name or a password")
    if parts.port == 0:
        raise ValueError("the URL's port is 0")
    return parts


def sends_token_in_clear(url: str) -> bool:
    """Whether a token sent there crosses a network unencrypted: plain http to what is not loopback (R16)."""
    parts = split_url(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def _headers(request: Request, parts: SplitResult) -> list[tuple[bytes, bytes]]:
    """All of the request's headers; a ValueError names the header that cannot be sent, never its value."""
    given = {name.lower() for name, _ in request.headers}
    headers = [("Host", parts.netloc), ("Connection", "close"), *request.headers]
    for name, value in (("Accept-Encoding", "identity"), ("User-Agent", USER_AGENT)):
        if name.lower() not in given:
            headers.append((name, value))
    if request.token is not None:
        headers.append(("Authorization", f"Bearer {request.token}"))
    if request.body is not None or request.method in ("POST", "PUT", "PATCH"):
        headers.append(("Content-Length", str(len(request.body or b""))))
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r} holds a character that a header cannot hold")
    if not _HEADER_NAME.fullmatch(request.method):
        raise ValueError("the verb holds a character that a verb cannot hold")
    return [(name.encode("ascii"), value.strip(" \t").encode("latin-1")) for name, value in headers]


class _Arriving:
    """An answer while it comes."""

    def __init__(self, tally: Tally, on_body: Callable[[int, httpx.Headers, bytes], None] | None) -> None:
        self.status: int | None = None
        self.headers = httpx.Headers()
        self.tally = tally
        self._on_body = on_body

    def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.headers = httpx.Headers(headers)

    def take(self, chunk: bytes) -> None:
        self.tally.take(chunk)
        if self._on_body is not None and self.status is not None:
            self._on_body(self.status, self.headers, chunk)


def _failure(error: Exception, wire: Wire, answer: _Arriving, where: str) -> NotSent | Lost:
    cause = _cause(error, wire)
    words = words_of(error) if cause not in ("deadline", "cancelled") else ""
    if not wire.sent:
        return NotSent(cause, _why(cause, words, where))
    return Lost(cause, _why(cause, words, where), answer.status, answer.headers, answer.tally.stream())


def _cause(error: Exception, wire: Wire) -> str:
    if wire.is_cut:
        return "cancelled"
    if time.monotonic() >= wire.deadline - CLOCK_S:
        return "deadline"
    if isinstance(error, NotConnected):
        return error.cause
    if not wire.sent:
        return "request" if isinstance(error, httpcore.LocalProtocolError) else "connection"
    if isinstance(error, httpcore.RemoteProtocolError) and not _says_closed(error):
        return "garbled"
    return "lost"


def _says_closed(error: Exception) -> bool:
    """Httpcore has one class for an answer that is no HTTP and for one that ends too early; only the text differs."""
    return str(error).startswith(("peer closed", "Server disconnected"))


def _why(cause: str, words: str, where: str | None) -> Message:
    zh, en = _CAUSES[cause]
    place_zh, place_en = (f"{where}：", f"{where}: ") if where else ("", "")
    words_zh, words_en = (f"（{words}）", f" ({words})") if words else ("", "")
    return Message(place_zh + zh + words_zh, place_en + en + words_en)
