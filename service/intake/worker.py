"""Looks at the repository one at a time: on start, on a hook, on request, and at least once an interval."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

import structlog

from service.errors import CannotRecord
from service.intake.ingest import Ingest, Look

logger = structlog.get_logger(__name__)

REPEAT_GAPS_S: Final = (5.0, 10.0, 20.0, 40.0, 60.0)  # between looks that only repeats of old deliveries asked for
AFTER_FAILURE_S: Final = (2.0, 5.0, 15.0, 30.0)  # then the ordinary interval


class Worker:
    """The thread that looks. Whoever asks while a look runs is served by the next one, all together."""

    def __init__(
        self, ingest: Ingest, *, interval_s: float, looked: Callable[[Look], None] = lambda _look: None
    ) -> None:
        self._ingest = ingest
        self._interval_s = interval_s
        self._looked = looked
        self._condition = threading.Condition()
        self._waiters: list[Future[Look]] = []
        self._full = False
        self._due = time.monotonic()
        self._repeats = 0  # looks in a row that only repeats asked for and that saw nothing move
        self._repeat_asked = False
        self._failures = 0
        self._last_end = 0.0
        self._stopping = False
        self.first_look_ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="intake", daemon=True)

    def start(self) -> None:
        """Look for the first time, and from then on."""
        self._thread.start()

    def nudge(self) -> None:
        """Something new arrived: look at once."""
        with self._condition:
            self._due = time.monotonic()
            self._condition.notify()

    def nudge_for_repeat(self) -> None:
        """A delivery came again: look, but at growing distances while nothing moves (cases.md W12)."""
        with self._condition:
            gap = REPEAT_GAPS_S[min(self._repeats, len(REPEAT_GAPS_S) - 1)]
            self._due = min(self._due, max(time.monotonic(), self._last_end + gap))
            self._repeat_asked = True
            self._condition.notify()

    def ask(self, *, full: bool = False) -> "Future[Look]":
        """A look that begins after this call, as a promise of its result."""
        future: Future[Look] = Future()
        with self._condition:
            if self._stopping:
                future.cancel()
                return future
            self._waiters.append(future)
            self._full = self._full or full
            self._due = time.monotonic()
            self._condition.notify()
        return future

    def stop_soon(self) -> None:
        """Look no more; whoever waits for a look is told that none comes."""
        with self._condition:
            self._stopping = True
            waiters, self._waiters = self._waiters, []
            self._condition.notify()
        for waiter in waiters:
            waiter.cancel()

    def stop(self) -> None:
        """End after the look that runs, if one does."""
        self.stop_soon()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _work(self) -> None:
        while True:
            with self._condition:
                while not self._stopping and (left := self._due - time.monotonic()) > 0:
                    self._condition.wait(left)
                if self._stopping:
                    break
                waiters, self._waiters = self._waiters, []
                full, self._full = self._full, False
                self._due = time.monotonic() + self._interval_s
            self._serve(waiters, full=full)

    def _serve(self, waiters: "list[Future[Look]]", *, full: bool) -> None:
        try:
            look = self._ingest.look(full=full)
        except CannotRecord as error:
            look = Look("failed", trouble=error.code, reason=error.message.en)
        except Exception as error:
            logger.exception("look failed", error=type(error).__name__)
            look = Look("failed", trouble="internal", reason=type(error).__name__)
        with self._condition:
            self._note(look)
        self.first_look_ended.set()
        for waiter in waiters:
            if not waiter.cancelled():
                waiter.set_result(look)
        self._looked(look)

    def _note(self, look: Look) -> None:
        quiet = time.monotonic() - self._last_end > 2 * REPEAT_GAPS_S[-1]
        self._last_end = time.monotonic()
        if look.moved or quiet:
            self._repeats = 0
        self._repeats += self._repeat_asked
        self._repeat_asked = False
        if look.outcome != "failed":
            self._failures = 0
            return
        if self._failures < len(AFTER_FAILURE_S):
            self._due = min(self._due, self._last_end + AFTER_FAILURE_S[self._failures])
        self._failures += 1
