"""A run's output while it comes, for whoever follows it: the first bytes, the last ones, and what was between is counted."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 64 * 1024  # of each stream, kept from its beginning
TAIL_BYTES: Final = 64 * 1024  # and of what came last
STREAMS: Final = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one stream from `offset` on. A follower that was too slow finds a gap before `offset`."""

    stream: str
    offset: int
    content: bytes


class _Reel:
    """One stream."""

    __slots__ = ("head", "tail", "total")

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def take(self, data: bytes) -> None:
        self.total += len(data)
        room = HEAD_BYTES - len(self.head)
        if room > 0:
            self.head += data[:room]
        rest = data[max(0, room) :][-TAIL_BYTES:]
        if rest:
            self.tail += rest
            del self.tail[:-TAIL_BYTES]

    def after(self, offset: int) -> tuple[int, bytes]:
        """What there is from `offset` on, and where it really begins; one whole piece at most."""
        if offset < len(self.head):
            return offset, bytes(self.head[offset:])
        begins = self.total - len(self.tail)
        start = max(offset, begins)
        return start, bytes(self.tail[start - begins :])


class Tape:
    """Written by the run's thread, read from any; what listens is told once until it reads again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reels = {name: _Reel() for name in STREAMS}
        self._listeners: set[Callable[[], None]] = set()

    def write(self, stream: str, data: bytes) -> None:
        """More output came."""
        with self._lock:
            self._reels[stream].take(data)
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def touch(self) -> None:
        """Something else than output happened: it started, it ended."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def after(self, offsets: dict[str, int]) -> list[Piece]:
        """What came since; `offsets` says how far each stream was read."""
        with self._lock:
            read = [(name, *reel.after(offsets.get(name, 0))) for name, reel in self._reels.items()]
        return [Piece(name, offset, content) for name, offset, content in read if content]

    def totals(self) -> dict[str, int]:
        """Bytes of each stream so far."""
        with self._lock:
            return {name: reel.total for name, reel in self._reels.items()}

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener`, which must not block, whenever something happens."""
        with self._lock:
            self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """No more."""
        with self._lock:
            self._listeners.discard(listener)
