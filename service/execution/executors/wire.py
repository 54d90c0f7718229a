"""The sockets of one HTTP call: one deadline for all of it, one switch that cuts it, and whether anything was sent.

Httpcore's own backend has a time limit for each read, so a dripping answer outlives it (facts/platform.md, httpx).
"""

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import httpcore

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

WORDS_CHARACTERS: Final = 300


class NotConnected(Exception):
    """No connection was made; `cause` as NotSent has it."""

    def __init__(self, cause: str, words: str) -> None:
        super().__init__(words)
        self.cause = cause


class Wire(httpcore.NetworkBackend):
    """The network of one call. `sent`: whether a byte of the request left."""

    def __init__(self, deadline: float, may_connect: Callable[[Address], bool] | None) -> None:
        self.deadline = deadline
        self.is_cut = False
        self.sent = False
        self._may_connect = may_connect
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._resolved = threading.Event()

    def left(self) -> float:
        """Seconds until the deadline; more than 0, or it raises."""
        left = self.deadline - time.monotonic()
        if left <= 0 or self.is_cut:
            raise TimeoutError("the time limit passed")
        return left

    def cut(self) -> None:
        """End the call from another thread: whoever waits on the socket wakes up."""
        self.is_cut = True
        self._resolved.set()
        with self._lock, suppress(OSError):
            if self._socket is not None:
                # An SSLSocket's own shutdown would also take its TLS state away from the thread that reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def hold(self, sock: socket.socket) -> None:
        """This is the socket to cut."""
        with self._lock:
            self._socket = sock

    def close(self, sock: socket.socket) -> None:
        """Close it; under the lock, so that `cut` never meets a descriptor that is somebody else's by now."""
        with self._lock:
            sock.close()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002  the deadline is ours
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        """Connect to the first address that takes it, among those allowed; the name is resolved once."""
        places = [place for place in self._resolve(host, port) if self._allowed(place[1][0])]
        if not places:
            raise NotConnected("address", host)
        words = ""
        for waiting, (family, place) in zip(range(len(places), 0, -1), places, strict=True):
            sock = socket.socket(family, socket.SOCK_STREAM)
            self.hold(sock)
            try:
                sock.settimeout(self.left() / waiting)
                sock.connect(place)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return _SocketStream(sock, self)
            except OSError as error:
                self.close(sock)
                words = words_of(error)
        raise NotConnected("connection", words)

    def _allowed(self, address: str) -> bool:
        return self._may_connect is None or self._may_connect(ipaddress.ip_address(address))

    def _resolve(self, host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
        """`getaddrinfo` has no time limit: it gets a thread, and is left behind when it takes too long."""
        found: list[tuple[socket.AddressFamily, Any]] = []
        failed: list[Exception] = []

        def resolve() -> None:
            try:
                found.extend((info[0], info[4]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except (OSError, ValueError) as error:  # UnicodeError: not a name at all
                failed.append(error)
            self._resolved.set()

        with suppress(ValueError):
            version = ipaddress.ip_address(host).version
            return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]
        threading.Thread(target=resolve, name="resolve", daemon=True).start()
        self._resolved.wait(self.left())
        if failed:
            raise NotConnected("name", words_of(failed[0]))
        self.left()
        return list(found)


class _SocketStream(httpcore.NetworkStream):
    """A connected socket whose every wait ends at the call's deadline."""

    def __init__(self, sock: socket.socket, wire: Wire) -> None:
        self._socket = sock
        self._wire = wire

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        try:
            self._socket.settimeout(self._wire.left())
            return self._socket.recv(max_bytes)
        except OSError as error:
            raise httpcore.ReadError(words_of(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        rest = memoryview(buffer)
        try:
            while rest:
                self._socket.settimeout(self._wire.left())
                rest = rest[self._socket.send(rest) :]
                self._wire.sent = True
        except OSError as error:  # a WriteError lets httpcore read an answer that came early
            raise httpcore.WriteError(words_of(error)) from error

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        try:
            sock = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname, do_handshake_on_connect=False)
            self._wire.hold(sock)
            self._socket = sock
            sock.settimeout(self._wire.left())
            sock.do_handshake()
        except (OSError, ValueError) as error:
            self.close()
            raise NotConnected("tls", words_of(error)) from error
        return self

    def close(self) -> None:
        self._wire.close(self._socket)

    def get_extra_info(self, info: str) -> Any:
        return self._socket if info == "socket" else None


def words_of(error: Exception) -> str:
    """The failure in the system's or the far side's own words; never with what we sent."""
    if isinstance(error, httpcore.LocalProtocolError):
        return ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text[:WORDS_CHARACTERS]
