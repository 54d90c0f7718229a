"""How many runs at once, in all and for one actor, and how many refusals an actor may cause (contract/http-api.md, 429)."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from service.errors import Busy, Message

REFUSALS_AT_ONCE: Final = 100  # then one a second, so that refused runs cannot fill the disk (cases.md S15)
REFUSALS_PER_S: Final = 1.0
_FORGET_ACTORS: Final = 1024


class Slots:
    """Counts what runs. A call over the limits is told to come back; a queue in front of it is a later part."""

    def __init__(self, *, in_all: int, per_actor: int) -> None:
        self._in_all = in_all
        self._per_actor = per_actor
        self._lock = threading.Lock()
        self._held: dict[str, int] = defaultdict(int)

    @contextmanager
    def hold(self, actor: str) -> Iterator[None]:
        """Hold a slot while the block runs. Raises Busy when there is none."""
        with self._lock:
            if sum(self._held.values()) >= self._in_all or self._held[actor] >= self._per_actor:
                raise _busy(1)
            self._held[actor] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[actor] -= 1
                if not self._held[actor]:
                    del self._held[actor]

    def running(self) -> int:
        """How many slots are held."""
        with self._lock:
            return sum(self._held.values())


class Refusals:
    """A token bucket for each actor: what it asks for wrongly makes rows, so it may not do so without end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def check(self, actor: str) -> None:
        """Raise Busy when this actor has caused too many refusals of late."""
        with self._lock:
            left, _ = self._level(actor)
            if left < 1:
                raise _busy(1)

    def note(self, actor: str) -> None:
        """One more refusal."""
        with self._lock:
            left, now = self._level(actor)
            if len(self._buckets) > _FORGET_ACTORS:
                self._buckets.clear()
            self._buckets[actor] = (left - 1, now)

    def _level(self, actor: str) -> tuple[float, float]:
        now = self._clock()
        left, then = self._buckets.get(actor, (float(REFUSALS_AT_ONCE), now))
        return min(float(REFUSALS_AT_ONCE), left + (now - then) * REFUSALS_PER_S), now


def _busy(seconds: int) -> Busy:
    return Busy(
        Message("现在太忙，请稍后再试。", "Too much at once; try again a little later."),
        facts={"retry_after_s": seconds},
    )
