"""What happens, for whoever listens: the last events in memory, numbered, so that a listener who was away can resume."""

import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

KEPT_EVENTS: Final = 2000


@dataclass(slots=True)
class Event:
    """One thing that happened. `subject`: the noun; `told`: the event's bytes, made when somebody hears of it, once for all."""

    number: int
    name: str  # index, run, confirmation, registration, sync
    subject: Any
    told: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class IndexChange:
    """Other tools can run, or others do: the index's revision, and whose names."""

    revision: int
    names: tuple[str, ...]


class Feed:
    """Written from any thread. Ids are `<feed>-<number>`: another process's are not understood, which is a `reset`."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._next = 1
        self._listeners: set[Callable[[], None]] = set()

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def publish(self, name: str, subject: Any) -> None:
        """Something happened."""
        with self._lock:
            self._events.append(Event(self._next, name, subject))
            self._next += 1
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def last(self) -> int:
        """The number of the last event; 0 before the first."""
        with self._lock:
            return self._next - 1

    def after(self, number: int) -> list[Event] | None:
        """What happened after this event; None when that is no longer known."""
        with self._lock:
            oldest = self._events[0].number if self._events else self._next
            if number >= self._next or number < oldest - 1:
                return None
            return list(islice(reversed(self._events), self._next - 1 - number))[::-1]

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener`, which must not block, whenever something happens."""
        with self._lock:
            self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """No more."""
        with self._lock:
            self._listeners.discard(listener)
