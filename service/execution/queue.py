"""Who runs now, who waits, and whose turn it is: bounded in all, for each actor, and in bytes (contract/http-api.md, 429).

Turns go round the actors, so that one with sixty calls waiting does not keep another's one call waiting for all of them.
"""

import threading
from collections import defaultdict, deque
from typing import Final, Generic, Protocol, TypeVar

from service.execution.limits import busy

WAITING_BYTES: Final = 32 * 1024 * 1024  # of requests that wait; each is at most max_params_bytes


class Waits(Protocol):
    """What a queue knows of a call."""

    @property
    def who(self) -> str:
        """Its actor."""

    @property
    def size(self) -> int:
        """Bytes it holds while it waits."""


W = TypeVar("W", bound=Waits)


class Queue(Generic[W]):
    """Slots and, in front of them, places. A call over the limits waits; one over the places is told to come back."""

    def __init__(self, *, in_all: int, per_actor: int, places: int) -> None:
        self._in_all = in_all
        self._per_actor = per_actor
        self._places = places
        self._lock = threading.Lock()
        self._held: dict[str, int] = defaultdict(int)
        self._lines: dict[str, deque[W]] = {}  # in the order of turns
        self._reserved: dict[str, int] = defaultdict(int)  # places of calls that are not in their line yet
        self._bytes = 0

    def enter(self, actor: str) -> bool:
        """Take a slot if one is free for this actor now and none of its calls waits before."""
        with self._lock:
            if actor in self._lines or not self._free(actor):
                return False
            self._held[actor] += 1
            return True

    def reserve(self, actor: str, size: int) -> None:
        """Take a place for a call that will `put` itself or `forgo` it. Raises Busy when there is none.

        An actor of whom nothing waits yet finds a place beyond the others' full queue, up to as many again.
        """
        with self._lock:
            waiting = sum(map(len, self._lines.values())) + sum(self._reserved.values())
            first = actor not in self._lines and actor not in self._reserved
            places = 2 * self._places if first else self._places
            if waiting >= places or (self._bytes + size > WAITING_BYTES and not first):
                raise busy(1 + waiting // self._in_all)
            self._reserved[actor] += 1
            self._bytes += size

    def forgo(self, actor: str, size: int) -> None:
        """Give a reserved place back."""
        with self._lock:
            self._unreserve(actor)
            self._bytes -= size

    def put(self, call: W) -> None:
        """Stand in line, in a place that was reserved."""
        with self._lock:
            self._unreserve(call.who)
            self._lines.setdefault(call.who, deque()).append(call)

    def ready(self) -> list[W]:
        """The calls whose turn it is; each holds a slot from now on."""
        with self._lock:
            found: list[W] = []
            while (call := self._next()) is not None:
                found.append(call)
            return found

    def leave(self, actor: str) -> None:
        """Give a slot back."""
        with self._lock:
            self._held[actor] -= 1
            if not self._held[actor]:
                del self._held[actor]

    def remove(self, call: W) -> bool:
        """Take a call out of its line; False when its turn has come already."""
        with self._lock:
            line = self._lines.get(call.who)
            if line is None or call not in line:
                return False
            line.remove(call)
            self._went(call, line)
            return True

    def waiting(self) -> list[W]:
        """The calls that stand in line."""
        with self._lock:
            return [call for line in self._lines.values() for call in line]

    def _free(self, actor: str) -> bool:
        return sum(self._held.values()) < self._in_all and self._held.get(actor, 0) < self._per_actor

    def _next(self) -> W | None:
        for actor, line in self._lines.items():
            if self._free(actor):
                call = line.popleft()
                self._went(call, line)
                if line:  # to the end of the round
                    self._lines[actor] = self._lines.pop(actor)
                self._held[actor] += 1
                return call
        return None

    def _went(self, call: W, line: deque[W]) -> None:
        self._bytes -= call.size
        if not line:
            del self._lines[call.who]

    def _unreserve(self, actor: str) -> None:
        self._reserved[actor] -= 1
        if not self._reserved[actor]:
            del self._reserved[actor]
