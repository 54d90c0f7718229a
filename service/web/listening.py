"""Waiting, in the event loop, for something that another thread makes happen; and the form of server-sent events."""

import asyncio
import json
from typing import Any, Final

LOOK_S: Final = 0.5  # at least this often a stream looks at its right to go on
SILENCE_S: Final = 15.0  # then a comment, so that nobody between takes the line for dead
STILL_HERE: Final = b": still here\n\n"


class Bell:
    """Rung from any thread, heard in one task; many rings between two hearings are one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        """From another thread."""
        if not self._rung:
            self._rung = True
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> float:
        """Until it rings or LOOK_S passed; answers the seconds that took."""
        began = self._loop.time()
        try:
            async with asyncio.timeout(LOOK_S):
                await self._event.wait()
        except TimeoutError:
            pass
        self._event.clear()
        self._rung = False
        return self._loop.time() - began


def event_bytes(place: str, name: str, shape: Any) -> bytes:
    """One event (WHATWG HTML, 9.2). JSON holds no line break, so one `data` line does."""
    text = json.dumps(shape, ensure_ascii=False, separators=(",", ":"))
    return f"id: {place}\nevent: {name}\ndata: {text}\n\n".encode("utf-8", "replace")
