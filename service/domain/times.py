"""Times as the outside sees them (RFC 3339 UTC with milliseconds) and ids in their order (UUIDv7, RFC 9562 §5.7)."""

import re
import secrets
import threading
import time
from datetime import UTC, datetime
from typing import Final

_FORM: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?\Z", re.ASCII)


def rfc3339(seconds: float) -> str:
    """`2026-05-31T08:00:00.000Z` for seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def now() -> str:
    """This moment, as `rfc3339` writes it."""
    return rfc3339(time.time())


def later(moment: str, seconds: float) -> str:
    """`seconds` after a moment that `rfc3339` wrote."""
    return rfc3339(datetime.fromisoformat(moment).timestamp() + seconds)


def parse_time(text: str) -> str:
    """A date or time as people write it, in the form that the store sorts by. Raises ValueError otherwise.

    Without a zone it is UTC; a date alone is its midnight.
    """
    if not _FORM.match(text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return rfc3339(moment.timestamp())


class _Clock:
    """Hands out rising (millisecond, counter) pairs, so that ids of one process sort in the order they were made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def tick(self) -> int:
        with self._lock:
            self._last = max(self._last + 1, (time.time_ns() // 1_000_000) << 12)
            return self._last


_clock = _Clock()


def uuid7() -> str:
    """A new UUIDv7: 48 bits of milliseconds, 12 of counter (RFC 9562 §6.2, method 1), 62 random."""
    tick = _clock.tick()
    value = (tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0b10 << 62 | secrets.randbits(62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
