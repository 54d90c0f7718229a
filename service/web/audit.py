"""The log as a list and entry by entry (contract/audit.md, contract/http-api.md)."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from service.domain.audit import TYPES
from service.errors import Message, NotFound
from service.store import log
from service.store.log import LogFilter
from service.web.exporting import FORMATS, export_log
from service.web.lists import check_names, page, read_choice, read_time
from service.web.parts import Parts
from service.web.routing import Answer, Asked, Paged

_FILTERS: Final = ("type", "actor", "tool", "run", "since", "until", "format")


def list_entries(parts: Parts, asked: Asked) -> Answer | Paged:
    """Newest first: `{index, type, at, actor, leaf, facts}`; with `format` all of them as a file, oldest first."""
    check_names(asked, _FILTERS)
    form = read_choice(asked, "format", FORMATS)
    wanted = LogFilter(
        type=read_choice(asked, "type", TYPES),
        actor=asked.query.get("actor"),
        tool=asked.query.get("tool"),
        run=asked.query.get("run"),
        since=read_time(asked, "since"),
        until=read_time(asked, "until"),
        patterns=asked.actor.tools,
    )
    if form is not None:
        return export_log(parts, asked, wanted, item_of)
    with parts.database.read() as connection:
        shown = page(
            asked,
            lambda before, limit: log.listed(connection, wanted, before=before, limit=limit),
            lambda row: int(row["idx"]),
            item_of,
        )
    return Answer(shown)


def show_entry(parts: Parts, asked: Asked) -> Answer:
    """One entry, with the exact bytes that were hashed as `entry_b64`."""
    index = asked.path["index"]
    row = None
    if re.fullmatch(r"\d{1,18}", index, re.ASCII):
        with parts.database.read() as connection:
            row = log.visible(connection, int(index), LogFilter(patterns=asked.actor.tools))
    if row is None:
        raise NotFound(Message("没有这条记录。", "There is no such entry."), code="unknown-entry")
    return Answer(item_of(row) | {"entry_b64": base64.b64encode(row["entry"]).decode("ascii")})


def item_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """An item of the log's list, from its row."""
    return {
        "index": row["idx"],
        "type": row["type"],
        "at": row["at"],
        "actor": row["actor"],
        "leaf": row["leaf"].hex(),
        "facts": json.loads(row["entry"])["facts"],
    }
