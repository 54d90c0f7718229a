"""A run followed to its end: its events as they come, over lost connections, or by asking now and then."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from service.cli import calling, showing
from service.cli.calling import Service
from service.cli.patience import Patience
from service.domain.runs import OPEN
from service.errors import BitongError, Message, Unavailable

if TYPE_CHECKING:
    import httpx

INTERRUPTED: Final = 130  # as shells tell of a Ctrl-C
_LOOKS_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)  # between two looks at a run; the last again and again
_LINES: Final = b"\n\n"


class NoEvents(Exception):
    """There is no stream of events to be had; the failure that was answered instead."""

    def __init__(self, failure: BitongError) -> None:
        super().__init__(failure.code)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: `name` and the JSON of its `data` (contract/http-api.md, `/runs/{id}/events`)."""

    name: str
    data: dict[str, Any]
    place: str | None


def events(service: Service, run: str) -> Iterator[Event]:
    """A run's events up to `end`; resumes after a lost connection. Raises NoEvents, or Unavailable when patience ends."""
    patience = Patience(_again(run))
    place: str | None = None
    while True:
        lost: BitongError = _lost(run)
        try:
            with service.stream(f"/runs/{calling.path_part(run)}/events", after=place) as answer:
                for event in _events_of(answer):
                    if event.place != place:
                        place = event.place
                        patience.renew()
                    yield event
                    if event.name == "end":
                        return
        except Unavailable as error:
            lost = _lost(run, error)
        patience.wait(lost)


def ended(service: Service, run: str) -> dict[str, Any]:
    """The run's record once it ended, asked for until then. Raises what keeps it from being read."""
    patience = Patience(_again(run))
    looks = iter(_LOOKS_S)
    while True:
        try:
            record: dict[str, Any] = service.get(f"/runs/{calling.path_part(run)}")
        except Unavailable as error:
            patience.wait(_lost(run, error))
            continue
        patience.renew()
        if record["state"] not in OPEN:
            return record
        time.sleep(next(looks, _LOOKS_S[-1]))


@contextmanager
def left_alone(run: str) -> Iterator[None]:
    """Ctrl-C ends the following, not the run: says so, and how to end that too."""
    try:
        yield
    except KeyboardInterrupt:
        showing.say(
            Message(
                f"不再跟随；运行仍在进行。取消：bitong runs cancel {run} · 继续看：bitong runs tail {run}",
                f"Followed no longer; the run goes on. End it: bitong runs cancel {run} · see it: bitong runs tail {run}",
            )
        )
        raise typer.Exit(INTERRUPTED) from None


def _events_of(answer: "httpx.Response") -> Iterator[Event]:
    """The events of one answer (WHATWG HTML, 9.2, as far as this service writes it)."""
    kind = answer.headers.get("content-type", "")
    if answer.status_code != 200 or not kind.startswith("text/event-stream"):
        answer.read()
        raise NoEvents(calling.failure_of(answer))
    buffer = bytearray()
    for chunk in answer.iter_bytes():
        searched = max(0, len(buffer) - 1)
        buffer += chunk
        while (end := buffer.find(_LINES, searched)) >= 0:
            event = _event(bytes(buffer[:end]))
            del buffer[: end + len(_LINES)]
            searched = 0
            if event is not None:
                yield event


def _event(text: bytes) -> Event | None:
    """None for a comment, and for what is no event of a run."""
    lines = dict(line.partition(b": ")[::2] for line in text.split(b"\n"))
    try:
        data = json.loads(lines[b"data"])
        name, place = lines[b"event"].decode(), lines.get(b"id")
    except (KeyError, ValueError, RecursionError):
        return None
    return Event(name, data, None if place is None else place.decode("ascii", "replace"))


def _again(run: str) -> Message:
    return Message(
        f"与服务的连接断了；运行 {run} 不因此停止，正在重新连接。",
        f"The connection to the service was lost; the run {run} does not end with it. Connecting again.",
    )


def _lost(run: str, error: Unavailable | None = None) -> Unavailable:
    why = Message("", "") if error is None else error.message
    return Unavailable(
        Message(
            f"{why.zh}运行 {run} 可能仍在进行，稍后再看：bitong runs tail {run}",
            f"{why.en} The run {run} may go on; see it later: bitong runs tail {run}".strip(),
        )
    )
