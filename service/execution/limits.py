"""How many refusals an actor may cause (contract/http-api.md, 429; cases.md S15)."""

import threading
import time
from collections.abc import Callable
from typing import Final

from service.errors import Busy, Message

REFUSALS_AT_ONCE: Final = 100  # then one a second, so that refused runs cannot fill the disk (cases.md S15)
REFUSALS_PER_S: Final = 1.0
_FORGET_ACTORS: Final = 1024


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
                raise busy(1)

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


def busy(seconds: int) -> Busy:
    """The refusal of what is too much now."""
    return Busy(
        Message("现在太忙，请稍后再试。", "Too much at once; try again a little later."),
        facts={"retry_after_s": seconds},
    )
