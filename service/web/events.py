"""`GET /events`: all that happens, as it happens, as server-sent events (contract/http-api.md, The rest).

`index` {revision}, when the tools changed; `registration`, a tool as the list shows it, or {name, state} of one that went,
or the rejection; `run`, when it waits, started, and with the commit that ends it; `confirmation`, asked and answered;
`sync` {outcome, looked_at, trouble}. Each as far as the listener may see it. `reset` {}: what it missed is no longer known,
so the lists have to be read again.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from service.domain.actors import Actor
from service.domain.confirmations import Confirmation, may_see
from service.domain.runs import ERROR_CHARACTERS, Run, text_of
from service.domain.tools import Tool
from service.intake.ingest import Look
from service.web.confirmations import item_of as confirmation_item
from service.web.feed import Event
from service.web.listening import SILENCE_S, STILL_HERE, Bell, event_bytes
from service.web.parts import Parts
from service.web.registrations import rejection_of
from service.web.routing import Asked, Streamed
from service.web.runs import item_of_run
from service.web.tools import item_of as tool_item

_PLACE: Final = re.compile(r"([0-9a-f]{8})-(\d{1,15})\Z", re.ASCII)


def listen(parts: Parts, asked: Asked) -> Streamed:
    """Everything from now on, or after Last-Event-ID."""
    parts.streams.check()
    return Streamed(lambda: _events(parts, asked))


async def _events(parts: Parts, asked: Asked) -> AsyncIterator[bytes]:
    feed = parts.feed
    bell = Bell()
    place, lost = _begin(parts, asked.headers.get("last-event-id"))
    feed.listen(bell.ring)
    parts.streams.enter()
    try:
        yield _reset(parts) if lost else STILL_HERE
        quiet = 0.0
        while (actor := parts.authority.still(asked.actor)) is not None and not parts.execution.turns.stopping:
            events = feed.after(place)
            if events is None:
                place = feed.last()
                yield _reset(parts)
                continue
            told = b"".join([await _told(parts, event) for event in events if _may_hear(actor, event.subject)])
            place = events[-1].number if events else place
            if told or quiet >= SILENCE_S:
                yield told or STILL_HERE
                quiet = 0.0
            quiet += await bell.wait()
    finally:
        feed.unlisten(bell.ring)
        parts.streams.leave()


def _begin(parts: Parts, last: str | None) -> tuple[int, bool]:
    """Where to go on, and whether something between is no longer known."""
    if last is None:
        return parts.feed.last(), False
    match = _PLACE.match(last)
    if match is None or match[1] != parts.feed.id or parts.feed.after(int(match[2])) is None:
        return parts.feed.last(), True
    return int(match[2]), False


def _reset(parts: Parts) -> bytes:
    return event_bytes(f"{parts.feed.id}-{parts.feed.last()}", "reset", {})


async def _told(parts: Parts, event: Event) -> bytes:
    """Made in a thread, since an item may need the database; once for all who listen."""
    if event.told is None:
        shape = await asyncio.to_thread(_shape, parts, event.subject)
        event.told = event_bytes(f"{parts.feed.id}-{event.number}", event.name, shape)
    return event.told


def _may_hear(actor: Actor, subject: Any) -> bool:
    if isinstance(subject, Run):
        return actor.sees(subject.version.tool) and (actor.may("read") or subject.actor == actor.name)
    if isinstance(subject, Tool):
        return actor.sees(subject.name)
    if isinstance(subject, Confirmation):
        return may_see(actor, subject)
    if isinstance(subject, Mapping):  # a rejection
        return actor.may("read") and actor.sees(subject["tool"])
    if isinstance(subject, Look):  # for whom not all tools exist, a look is heard of by the tools it changed
        return actor.tools is None or subject.outcome != "applied" or any(map(actor.sees, _names(subject)))
    return actor.tools is None or any(map(actor.sees, subject.names))


def _names(look: Look) -> tuple[str, ...]:
    return (*look.registered, *look.removed, *look.rejected)


def _shape(parts: Parts, subject: Any) -> dict[str, Any]:
    if isinstance(subject, Run):
        stderr = "" if subject.outcome is None else text_of(subject.outcome.stderr)[0]
        item = item_of_run(parts, subject, stderr)
        return item | {"error": None if item["error"] is None else item["error"][:ERROR_CHARACTERS]}
    if isinstance(subject, Tool):
        stands = {"name": subject.name, "state": subject.state}
        return tool_item(parts, subject) if subject.state == "active" else stands
    if isinstance(subject, Confirmation):
        return confirmation_item(parts, subject)
    if isinstance(subject, Look):
        return {"outcome": subject.outcome, "looked_at": parts.ingest.looked_at, "trouble": subject.trouble}
    if isinstance(subject, Mapping):
        return rejection_of(subject)
    return {"revision": subject.revision}
