"""Wrong tokens are limited by where they come from; right ones never are (cases.md R4)."""

import threading
import time
from collections.abc import Callable
from typing import Final

from service.errors import Busy, Message

AT_ONCE: Final = 50  # wrong tokens from one source, then one a second
PER_S: Final = 1.0
_SOURCES: Final = 4096  # remembered at once; beyond that the oldest are forgotten


class Guesses:
    """A token bucket for each source that showed a wrong token."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def wrong(self, source: str) -> None:
        """One more wrong token. Raises Busy when this source has shown too many of late."""
        with self._lock:
            now = self._clock()
            left, then = self._left.pop(source, (float(AT_ONCE), now))
            left = min(float(AT_ONCE), left + (now - then) * PER_S)
            self._left[source] = (max(0.0, left - 1), now)
            if len(self._left) > _SOURCES:
                del self._left[next(iter(self._left))]
        if left < 1:
            raise Busy(
                Message("无效令牌太多，请稍后再试。", "Too many wrong tokens from here; try again later."),
                facts={"retry_after_s": 1},
            )
