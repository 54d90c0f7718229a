"""Callers that cost little and the same on both sides: raw sockets, keep-alive, the next request after each answer."""

import re
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

Request = bytes | Callable[[], bytes]
"""What is sent: the same bytes each time, or new ones."""

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(slots=True)
class Load:
    """What callers saw: seconds of each answer, seconds in all, and what was not as wanted (the first one in words)."""

    latencies: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    failures: int = 0
    first_failure: str = ""

    def add(self, other: "Load") -> None:
        """Another round of the same."""
        self.latencies += other.latencies
        self.elapsed += other.elapsed
        self.failures += other.failures
        self.first_failure = self.first_failure or other.first_failure

    @property
    def per_second(self) -> float:
        """Answers a second, all callers together."""
        return len(self.latencies) / self.elapsed if self.elapsed else 0.0


class Caller:
    """One kept-alive connection that asks again and again; `wanted` stands in each good answer."""

    def __init__(self, port: int, request: Request, wanted: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request = request
        self._wanted = wanted
        self._held = b""
        self.began = 0.0

    def send(self) -> None:
        """Ask once."""
        request = self._request if isinstance(self._request, bytes) else self._request()
        self.began = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """Take what came; the whole answer once it is there. Raises ConnectionError when the server hung up."""
        got = self.socket.recv(65536)
        if not got:
            raise ConnectionError("the server hung up")
        self._held += got
        head, end, body = self._held.partition(b"\r\n\r\n")
        if not end:
            return None
        found = _LENGTH.search(head)
        if len(body) < (int(found[1]) if found else 0):
            return None
        answer, self._held = self._held, b""
        return answer

    def note(self, load: Load, answer: bytes) -> None:
        """Count an answer that is whole."""
        load.latencies.append(time.perf_counter() - self.began)
        if self._wanted not in answer:
            load.failures += 1
            load.first_failure = load.first_failure or answer[:400].decode("utf-8", "replace")

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def sequential(caller: Caller, count: int) -> Load:
    """`count` requests, one after the other."""
    load = Load()
    began = time.perf_counter()
    for _ in range(count):
        caller.send()
        while (answer := caller.receive()) is None:
            pass
        caller.note(load, answer)
    load.elapsed = time.perf_counter() - began
    return load


def concurrent(callers: list[Caller], seconds: float) -> Load:
    """Every caller asks again as soon as it has its answer, until the time is over. One thread drives them all."""
    load = Load()
    with selectors.DefaultSelector() as selector:
        for caller in callers:
            selector.register(caller.socket, selectors.EVENT_READ, caller)
        began = time.perf_counter()
        for caller in callers:
            caller.send()
        open_calls = len(callers)
        while open_calls:
            for key, _ in selector.select():
                if (answer := key.data.receive()) is None:
                    continue
                key.data.note(load, answer)
                if time.perf_counter() - began < seconds:
                    key.data.send()
                else:
                    open_calls -= 1
        load.elapsed = time.perf_counter() - began
    return load
