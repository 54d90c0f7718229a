"""What the forge sent, what could not be registered, and the wish to look now (contract/registration.md)."""

import json
import re
from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import Any, Final

from service.domain.deliveries import Delivery
from service.errors import Message, NotFound, Unavailable
from service.store import deliveries, history, tools
from service.web.lists import check_names, page, read_flag
from service.web.parts import Parts
from service.web.routing import Answer, Asked

SYNC_WAIT_S: Final = 600.0


def list_rejections(parts: Parts, asked: Asked) -> Answer:
    """Newest first; `current` while the tip still has it."""
    check_names(asked, ("tool", "current"))
    name, current = asked.query.get("tool"), read_flag(asked, "current")

    with parts.database.read() as connection:
        shown = page(
            asked,
            lambda before, limit: tools.list_rejections(
                connection, before=before, limit=limit, tool=name, current=current, patterns=asked.actor.tools
            ),
            lambda row: int(row["id"]),
            rejection_of,
        )
    return Answer(shown)


def show_rejected(parts: Parts, asked: Asked) -> Answer:
    """The bytes of a rejected TOOL.hdlp as its commit holds them, so that the problems' lines can be looked at."""
    check_names(asked, ())
    name, commit = asked.path["name"], asked.path["commit"]
    content = None
    if asked.actor.sees(name) and re.fullmatch(r"[0-9a-f]{40}", commit):
        with parts.database.read() as connection:
            content = history.rejected_file(connection, name, commit)
    if content is None:
        raise NotFound(Message("没有这个被拒绝的文件。", "There is no such rejected file."))
    return Answer(content, media_type="text/plain; charset=utf-8")


def list_deliveries(parts: Parts, asked: Asked) -> Answer:
    """Newest first: each body once, with how often it came and what the look that covered it did."""
    check_names(asked, ())
    with parts.database.read() as connection:
        shown = page(
            asked,
            lambda before, limit: deliveries.listed(connection, before=before, limit=limit),
            lambda row: row[0],
            lambda row: delivery_of(row[1], asked),
        )
    return Answer(shown)


def sync(parts: Parts, asked: Asked) -> Answer:
    """Look now: 202 at once, or with `wait=true` 200 and what changed."""
    check_names(asked, ("wait", "full"))
    if not parts.tracks_repository:
        raise Unavailable(
            Message(
                "未设置 repository_url，没有可查看的仓库。",
                "repository_url is not set; there is no repository to look at.",
            )
        )
    promise = parts.worker.ask(full=bool(read_flag(asked, "full")))
    if not read_flag(asked, "wait"):
        return Answer({"queued": True}, 202)
    try:
        look = promise.result(SYNC_WAIT_S).as_json()
    except (CancelledError, TimeoutError):
        raise Unavailable(Message("查看仓库没有完成。", "The look at the repository did not end.")) from None
    for name in ("registered", "removed", "rejected"):
        look[name] = [tool for tool in look[name] if asked.actor.sees(tool)]
    return Answer(look)


def rejection_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """An item of the list of rejections."""
    return {
        "path": row["path"],
        "tool": row["tool"],
        "commit": row["commit_id"].hex(),
        "pusher": row["pusher"],
        "at": row["at"],
        "problems": json.loads(row["problems"]),
        "current": bool(row["current"]),
    }


def delivery_of(delivery: Delivery, asked: Asked) -> dict[str, Any]:
    """An item of the list of deliveries; names of tools that the actor does not see are left out."""

    def seen(names: tuple[str, ...]) -> list[str]:
        return [name for name in names if asked.actor.sees(name)]

    return {
        "id": delivery.id,
        "received_at": delivery.received_at,
        "event": delivery.event,
        "ref": delivery.ref,
        "repository": delivery.repository,
        "pusher": delivery.pusher,
        "body_sha256": delivery.body_sha256,
        "count": delivery.count,
        "outcome": delivery.outcome,
        "reason": delivery.reason,
        "registered": seen(delivery.registered),
        "removed": seen(delivery.removed),
        "rejected": seen(delivery.rejected),
    }
