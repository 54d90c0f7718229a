"""A run while it goes on: its states and its output as they come, as server-sent events (WHATWG HTML, 9.2).

`state` {id, state} at first and on each change; `output` {stream, offset, text, b64?} in order within a stream, where
`offset` counts bytes and a jump in it says what was skipped; `end` with the run's item, the last one. `id` of an event
says how far both streams were read: Last-Event-ID resumes there.
"""

import asyncio
import base64
import re
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from service.domain.runs import ENDED, Run, text_of, whole_characters
from service.execution.live import Piece, Tape
from service.execution.ongoing import Ongoing
from service.web.listening import SILENCE_S, STILL_HERE, Bell, event_bytes
from service.web.parts import Parts
from service.web.routing import Asked, Streamed
from service.web.runs import item_of_run, visible

WAITING_LOOK_S: Final = 2.0  # at the row of a run that waits for a yes, of which no tape tells
_PLACE: Final = re.compile(r"(\d{1,15})-(\d{1,15})\Z", re.ASCII)


def follow(parts: Parts, asked: Asked) -> Streamed:
    """`GET /runs/{id}/events`."""
    run = visible(parts, asked)
    parts.streams.check()
    place = _PLACE.match(asked.headers.get("last-event-id", ""))
    offsets = {"stdout": int(place[1]), "stderr": int(place[2])} if place else {"stdout": 0, "stderr": 0}
    return Streamed(lambda: _Follower(parts, asked, run, offsets).events())


class _Follower:
    """One listener to one run."""

    def __init__(self, parts: Parts, asked: Asked, run: Run, offsets: dict[str, int]) -> None:
        self._parts = parts
        self._asked = asked
        self._run = run
        self._offsets = offsets
        self._said: str | None = None
        self._bell = Bell()
        self._look_at = 0.0

    async def events(self) -> AsyncIterator[bytes]:
        self._parts.streams.enter()
        tape: Tape | None = None
        try:
            quiet = 0.0
            while self._parts.authority.still(self._asked.actor) is not None:
                ongoing = self._parts.execution.turns.under_way(self._run.id)
                if ongoing is not None and tape is None:
                    tape = ongoing.tape
                    tape.listen(self._bell.ring)
                chunk = b"".join(self._news(tape, ongoing))
                if self._due(ongoing, tape) and (last := await self._last(tape)) is not None:
                    yield chunk + last
                    return
                if ongoing is None and self._parts.execution.turns.stopping:
                    return  # nothing more will come of it here; Last-Event-ID resumes
                if chunk or quiet >= SILENCE_S:
                    yield chunk or STILL_HERE
                    quiet = 0.0
                quiet += await self._bell.wait()
        finally:
            if tape is not None:
                tape.unlisten(self._bell.ring)
            self._parts.streams.leave()

    def _due(self, ongoing: Ongoing | None, tape: Tape | None) -> bool:
        """Whether to look at the row: at once where it ran here, now and then where nothing else tells."""
        now = time.monotonic()
        if ongoing is not None or (tape is None and now < self._look_at):
            return False
        self._look_at = now + WAITING_LOOK_S
        return True

    def _news(self, tape: Tape | None, ongoing: Ongoing | None) -> list[bytes]:
        found = []
        state = ongoing.state if ongoing is not None else self._run.state
        if state != self._said and state not in ENDED and (ongoing is not None or self._said is None):
            self._said = state
            found.append(self._event("state", {"id": self._run.id, "state": state}))
        if tape is not None:
            found += self._outputs(tape, last=False)
        return [event for event in found if event]

    async def _last(self, tape: Tape | None) -> bytes | None:
        """How it ended, once the record says so; with what of the output was not told before."""
        run = await asyncio.to_thread(visible, self._parts, self._asked)
        self._run = run
        if run.state not in ENDED and run.state != "refused":
            return None
        found = []
        if self._said is None:
            found.append(self._event("state", {"id": run.id, "state": run.state}))
        if tape is not None:
            found += self._outputs(tape, last=True)
        else:
            found += [self._output(piece, last=True) for piece in _kept(run, self._offsets)]
        stderr = "" if run.outcome is None else text_of(run.outcome.stderr)[0]
        found.append(self._event("end", item_of_run(self._parts, run, stderr)))
        return b"".join(found)

    def _outputs(self, tape: Tape, *, last: bool) -> list[bytes]:
        """What came since: of who comes late, the beginning and then the end."""
        return [self._output(piece, last=last) for _ in range(2) for piece in tape.after(self._offsets)]

    def _output(self, piece: Piece, *, last: bool) -> bytes:
        """No half character at the end of a piece: what is cut comes with the next one."""
        content = piece.content if last else whole_characters(piece.content)
        if not content:
            return b""
        self._offsets[piece.stream] = piece.offset + len(content)
        shape: dict[str, Any] = {"stream": piece.stream, "offset": piece.offset}
        try:
            shape["text"] = content.decode("utf-8")
        except UnicodeDecodeError:
            shape |= {"text": content.decode("utf-8", "replace"), "b64": base64.b64encode(content).decode("ascii")}
        return self._event("output", shape)

    def _event(self, name: str, shape: dict[str, Any]) -> bytes:
        return event_bytes(f"{self._offsets['stdout']}-{self._offsets['stderr']}", name, shape)


def _kept(run: Run, offsets: dict[str, int]) -> list[Piece]:
    if run.outcome is None:
        return []
    streams = (("stdout", run.outcome.stdout), ("stderr", run.outcome.stderr))
    pieces = [Piece(name, offsets[name], stream.kept[offsets[name] :]) for name, stream in streams]
    return [piece for piece in pieces if piece.content]
