"""A wire between a command and the service that can break: cut, swallow an answer, or refuse a path by itself."""

import contextlib
import socket
import threading
from typing import Self

_CHUNK = 65_536


class Relay:
    """Passes bytes both ways between `url` and a port of this host.

    `swallow`: the answer to the next request that holds these bytes never comes back, though the service got all of it.
    `refuse`: every request that holds these bytes is answered 404 here.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.swallow: bytes | None = None
        self.refuse: bytes | None = None
        self.seen: list[bytes] = []  # first lines of requests
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Every connection breaks now; new ones are taken."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _end(*pair)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                service = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                client.close()
                continue
            swallowing = threading.Event()
            with self._lock:
                self._pairs.append((client, service))
            threading.Thread(target=self._up, args=(client, service, swallowing), daemon=True).start()
            threading.Thread(target=self._down, args=(client, service, swallowing), daemon=True).start()

    def _up(self, client: socket.socket, service: socket.socket, swallowing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                self.seen.append(data.split(b"\r\n", 1)[0])
                if self.refuse is not None and self.refuse in data:
                    client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                if self.swallow is not None and self.swallow in data:
                    self.swallow = None
                    swallowing.set()
                service.sendall(data)
        _end(client, service)

    def _down(self, client: socket.socket, service: socket.socket, swallowing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := service.recv(_CHUNK):
                if swallowing.is_set():
                    break
                client.sendall(data)
        _end(client, service)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
