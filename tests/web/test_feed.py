"""`GET /events`: what happened is heard in order, as far as the listener may see it, and can be resumed."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

import httpx
import pytest

from service.web.server import API
from tests.harness.definitions import tool_text
from tests.web.desk import Desk

EVENTS = f"{API}/events"


class Heard:
    """The events of one stream, as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self._queue: Queue[tuple[str, str, Any]] = Queue()
        self._thread = threading.Thread(target=self._read, args=(response,), daemon=True)
        self._thread.start()

    def _read(self, response: httpx.Response) -> None:
        fields: dict[str, str] = {}
        try:
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    self._queue.put((fields["id"], fields["event"], json.loads(fields["data"])))
                    fields = {}
        except httpx.HTTPError:
            return

    def next(self, event: str, /, **wanted: Any) -> tuple[str, Any]:
        """The next such event that says so; its id and data."""
        while True:
            place, found, shape = self._queue.get(timeout=10)
            if found == event and all(shape.get(key) == value for key, value in wanted.items()):
                return place, shape

    def names(self) -> list[str]:
        """What came until now."""
        return [self._queue.get()[1] for _ in range(self._queue.qsize())]


@contextmanager
def listening(client: httpx.Client, last: str | None = None) -> Iterator[Heard]:
    """A stream that is open."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with client.stream("GET", EVENTS, headers=headers, timeout=30) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        heard = Heard(response)
        yield heard


def test_a_run_is_heard_when_it_starts_and_when_it_ends(desk: Desk, everything: httpx.Client) -> None:
    """With the list's item, and no later than its answer."""
    with listening(everything) as heard:
        answer = everything.post(f"{API}/exec", json={"tool": "greet"}).json()
        _, started = heard.next("run", id=answer["run"]["id"])
        _, ended = heard.next("run", id=answer["run"]["id"])

    assert started["state"] == "started"
    assert ended == next(
        item for item in everything.get(f"{API}/runs").json()["items"] if item["id"] == answer["run"]["id"]
    )


def test_a_push_is_heard_as_index_and_registration(desk: Desk, everything: httpx.Client) -> None:
    """So that a copy of the index needs no scan again (seed §6)."""
    with listening(everything) as heard:
        desk.commit(heard_tool=tool_text("heard-tool"))
        everything.post(f"{API}/sync", params={"wait": "true"})
        _, look = heard.next("sync", outcome="applied")
        _, index = heard.next("index")
        _, tool = heard.next("registration", name="heard-tool")

    listed = everything.get(f"{API}/tools").json()["items"]
    assert tool in listed
    assert index["revision"] > 0
    assert look["trouble"] is None


def test_who_was_away_hears_what_it_missed(desk: Desk, everything: httpx.Client) -> None:
    """Last-Event-ID resumes; one that this service never gave is a `reset`."""
    with listening(everything) as heard:
        first = everything.post(f"{API}/exec", json={"tool": "greet"}).json()["run"]["id"]
        heard.next("run", id=first, state="started")
        place, _ = heard.next("run", id=first, state="succeeded")
    missed = everything.post(f"{API}/exec", json={"tool": "greet"}).json()["run"]["id"]

    with listening(everything, place) as heard:
        assert heard.next("run", id=missed)[1]["state"] == "started"
    with listening(everything, "00000000-7") as heard:
        heard.next("reset")


@pytest.mark.parametrize("scopes", [("exec",), ("read",)])
def test_a_hidden_tool_is_not_heard_of(desk: Desk, everything: httpx.Client, scopes: tuple[str, ...]) -> None:
    """R13: outside a token's patterns there is nothing; with `exec` alone nobody else's run."""
    narrow = desk.client(*scopes, tools=("shell-*",))
    with listening(narrow) as heard, listening(everything) as all_of_it:
        hidden = everything.post(f"{API}/exec", json={"tool": "greet"}).json()["run"]["id"]
        all_of_it.next("run", id=hidden, state="succeeded")
        other = everything.post(f"{API}/exec", json={"tool": "shell-exec", "params": {"cmd": "true"}}).json()
        all_of_it.next("run", id=other["run"]["id"], state="succeeded")
        everything.post(f"{API}/sync", params={"wait": "true"})
        heard.next("sync") if scopes == ("exec",) else heard.next("run", id=other["run"]["id"])

        assert "run" not in heard.names() or scopes == ("read",)


def test_a_question_is_heard_when_asked_and_when_answered(desk: Desk, everything: httpx.Client) -> None:
    """With the list's item."""
    with listening(everything) as heard:
        asked = everything.post(f"{API}/exec", json={"tool": "asks"}).json()["confirmation"]["id"]
        assert heard.next("confirmation", id=asked)[1]["state"] == "waiting"
        everything.post(f"{API}/confirmations/{asked}", json={"decision": "reject"})
        answered = heard.next("confirmation", id=asked)[1]

    assert answered == everything.get(f"{API}/confirmations/{asked}").json()
    assert answered["state"] == "rejected"
