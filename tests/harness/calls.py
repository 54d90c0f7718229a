"""Calls that go on while the test does something else, tools that wait for a sign, and events as they come."""

import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.harness.service import API, BitongService, eventually

MOST_AT_ONCE = 100
OVER = {"succeeded", "failed", "timed_out", "cancelled", "interrupted", "unknown", "refused"}


class Background:
    """Requests to a service, each in a thread of its own. Leaving it waits for all of them.

    A future holds the response, or httpx.TransportError where the service ended before it answered.
    """

    def __init__(self, service: BitongService) -> None:
        limits = httpx.Limits(max_connections=None)
        self._client = httpx.Client(base_url=service.url, trust_env=False, timeout=60, limits=limits)
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=kind is not None)
        self._client.close()

    def exec(
        self, token: str, tool: str, params: dict[str, Any] | None = None, *, key: str | None = None, **fields: Any
    ) -> Future[httpx.Response]:
        """An exact call, with a key if one is given."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.post(token, f"{API}/exec", {"tool": tool, "params": params or {}, **fields}, **headers)

    def post(self, token: str, path: str, body: Any = None, **headers: str) -> Future[httpx.Response]:
        """A POST of JSON."""
        shown = {"Authorization": f"Bearer {token}", **headers}
        return self._threads.submit(self._client.post, path, json=body, headers=shown)


class Gate:
    """A tool that runs `cmd` waits here, at no cost, until the gate is open; who comes later passes at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        os.mkfifo(path)
        self._writer: int | None = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.cmd = f"cat {path} 2>/dev/null; echo through"

    def open(self) -> None:
        """Let everybody pass; opening it twice does nothing."""
        if self._writer is not None:
            self._path.unlink()  # first: who comes between finds no gate rather than one without a writer
            os.close(self._writer)
            self._writer = None


class Gates:
    """The gates of one test; `close` opens those that are still shut, so that no tool waits for ever."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._gates: list[Gate] = []

    def new(self) -> Gate:
        """A gate that is shut."""
        self._gates.append(Gate(self.folder / f"gate-{len(self._gates)}"))
        return self._gates[-1]

    def close(self) -> None:
        """Open all."""
        for gate in self._gates:
            gate.open()


@dataclass(frozen=True)
class Event:
    """One server-sent event, its data read as JSON."""

    id: str
    name: str
    data: Any


@contextmanager
def following(service: BitongService, token: str, run: str, *, last: str | None = None) -> Iterator[Iterator[Event]]:
    """The events of a run as they come; the iterator ends when the service closes the stream."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with service.client(token).stream("GET", f"{API}/runs/{run}/events", headers=headers, timeout=30) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield _events(response)


def _events(response: httpx.Response) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "event" in fields:
            yield Event(fields["id"], fields["event"], json.loads(fields["data"]))
            fields = {}


def leave_after_calling(service: BitongService, token: str, body: dict[str, Any], **headers: str) -> None:
    """Send an exec call whole, and go away without an answer."""
    content = json.dumps(body).encode()
    told = {"Host": f"127.0.0.1:{service.port}", "Authorization": f"Bearer {token}", **headers}
    told |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        connection.sendall(f"POST {API}/exec HTTP/1.1\r\n{head}\r\n".encode() + content)


def ask(
    service: BitongService, tool: str, params: dict[str, Any] | None = None, *, token: str | None = None, **fields: Any
) -> dict[str, Any]:
    """A call that needs a confirmation; the whole answer."""
    answer = service.exec(tool, params, token=token, **fields)
    assert answer.status_code == 202, f"{answer.status_code} {answer.text}"
    told: dict[str, Any] = answer.json()
    assert told["code"] == "needs-confirmation", told
    return told


def decide(service: BitongService, confirmation: str, decision: str, *, token: str | None = None) -> httpx.Response:
    """Answer a confirmation, as one who may everything unless a token is given."""
    client = service.client(token) if token else service.admin
    return client.post(f"{API}/confirmations/{confirmation}", json={"decision": decision, "reason": f"{decision}，试"})


def in_state(service: BitongService, run: str, *states: str, within_s: float = 15.0) -> dict[str, Any]:
    """The run as soon as it is in one of these states (over, unless any is named)."""
    wanted = set(states) or OVER

    def look() -> dict[str, Any] | None:
        told: dict[str, Any] = service.get(f"/runs/{run}")
        return told if told["state"] in wanted else None

    found: dict[str, Any] = eventually(look, within_s=within_s, every_s=0.02)
    return found
