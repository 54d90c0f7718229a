"""Far sides that misbehave: raw sockets on loopback, which record what reached them.

A conftest takes the fixtures in: `from tests.harness.far_side import answering, far_side`.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

Behaviour = Callable[[socket.socket, bytes], None]


class FarSide:
    """Reads one request for each connection, then does with it what the test says."""

    def __init__(self, behave: Behaviour) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = threading.Event()
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def bodies(self) -> list[dict]:
        """The JSON bodies of the requests."""
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.requests]

    def close(self) -> None:
        self.ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            request = read_request(connection)
            if request:
                self.requests.append(request)
            self._behave(connection, request)


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (chunk := connection.recv(65536)):
            return data
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length and (chunk := connection.recv(65536)):
        body += chunk
    return head + b"\r\n\r\n" + body


def answer_with(
    body: bytes, status: str = "200 OK", content_type: str = "application/json", headers: str = ""
) -> Behaviour:
    """An ordinary answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"

    def behave(connection: socket.socket, _: bytes) -> None:
        connection.sendall(head.encode() + body)

    return behave


def say(content: bytes) -> Behaviour:
    """Exactly these bytes, HTTP or not."""
    return lambda connection, _: connection.sendall(content)


def reset(connection: socket.socket, _: bytes) -> None:
    """No answer: the connection ends with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def drip(head: bytes, drop: bytes) -> Behaviour:
    """`head` at once, then `drop` for 2 s, each soon enough for any limit of a single read."""

    def behave(connection: socket.socket, _: bytes) -> None:
        connection.sendall(head)
        for _ in range(100):
            connection.sendall(drop)
            time.sleep(0.02)

    return behave


def nobody() -> str:
    """The URL of a port on loopback where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def far_side() -> Iterator[Callable[[Behaviour], FarSide]]:
    sides: list[FarSide] = []

    def make(behave: Behaviour) -> FarSide:
        sides.append(FarSide(behave))
        return sides[-1]

    yield make
    for side in sides:
        side.close()


@pytest.fixture
def answering() -> Callable[..., Behaviour]:
    return answer_with
