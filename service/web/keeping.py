"""For who keeps the record: old output purged, the database copied, where checkpoints were committed (contract/audit.md)."""

import re
import secrets
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from service.domain import strict_json
from service.domain.actors import OPERATOR
from service.domain.times import parse_time
from service.errors import Forbidden, Malformed, Message
from service.store import anchors
from service.store.backup import PART, snapshot
from service.store.purging import Wanted, step
from service.web.lists import check_names, page
from service.web.parts import Parts
from service.web.routing import Answer, Asked, Paged

LONG_ENOUGH_S: Final = 2.0  # then the caller hears how far it is, and asks for the rest
FOLD_S: Final = 5.0
PIECE: Final = 1024 * 1024
_NAMES: Final = ("older_than", "larger_than", "tool", "run", "dry_run", "after")


def purge_output(parts: Parts, asked: Asked) -> Answer:
    """Some of the runs that are asked for: `{runs, bytes, next, folded}`; while `next` is not null, ask again with `after`.

    `folded`: of the last step, whether nothing of it is left on the disk; false while a reader holds an older view.
    """
    wanted, after, dry = _wanted(asked)
    end = time.monotonic() + LONG_ENOUGH_S
    purged = size = 0
    following: int | None = after
    while following is not None and time.monotonic() < end:
        done = step(parts.database, wanted, actor=asked.actor.name, why="purge-output", after=following, dry=dry)
        purged, size, following = purged + done.runs, size + done.bytes, done.next
    folded = None if dry or following is not None else _fold(parts)
    return Answer({"runs": purged, "bytes": size, "next": following, "folded": folded})


def back_up(parts: Parts, asked: Asked) -> Paged:
    """A whole copy of the database, for the operator on this host: it holds the output of every run."""
    if asked.actor != OPERATOR:
        raise Forbidden(
            Message(
                "备份只能在服务所在的主机上进行：bitong backup FILE。",
                "A backup is made on the service's own host: bitong backup FILE.",
            )
        )
    target = parts.database.path.parent / f"{PART}{secrets.token_hex(8)}"
    snapshot(parts.database.path, target)
    size = target.stat().st_size
    return Paged(_content(target), "application/vnd.sqlite3", {"Content-Length": str(size)})


def list_anchors(parts: Parts, asked: Asked) -> Answer:
    """Where checkpoints were committed, newest first: `{size, at, repository, branch, commit}`."""
    check_names(asked, ())
    with parts.database.read() as connection:
        shown = page(
            asked,
            lambda before, limit: anchors.listed(connection, before=before, limit=limit),
            lambda anchor: anchor.seq,
            anchors.Anchor.as_json,
        )
    return Answer(shown)


def _content(file: Path) -> Generator[bytes]:
    """Its bytes; the file has no name any more once the first are read, so that nothing stays whatever happens."""
    with file.open("rb") as stream:
        file.unlink()
        while piece := stream.read(PIECE):
            yield piece


def _fold(parts: Parts) -> bool:
    end = time.monotonic() + FOLD_S
    while not parts.database.fold():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _wanted(asked: Asked) -> tuple[Wanted, int, bool]:
    try:
        body = strict_json.loads(asked.body)
    except strict_json.NotJson:
        raise _malformed() from None
    if not isinstance(body, dict) or not body.keys() <= set(_NAMES):
        raise _malformed()
    before, larger, tool, run = (body.get(name) for name in _NAMES[:4])
    dry, after = body.get("dry_run", False), body.get("after", 0)
    texts = all(value is None or isinstance(value, str) for value in (before, tool, run))
    numbers = all(isinstance(value, int) and 0 <= value < 2**63 for value in (larger or 0, after))
    if not texts or not numbers or not isinstance(dry, bool) or before == larger == tool == run is None:
        raise _malformed()
    try:
        before = None if before is None else parse_time(before)
    except (ValueError, OverflowError):
        raise _malformed() from None
    return Wanted(before, larger, tool, run, asked.actor.tools), after, dry


def _malformed() -> Malformed:
    names = re.sub(r"[()']", "", str(_NAMES))
    return Malformed(
        Message(
            f"请求体为 JSON 对象，可有：{names}；前四项至少一项，时间写作 2026-05-31T08:00:00Z。",
            f"The body is a JSON object of: {names}; one of the first four at least, a time as 2026-05-31T08:00:00Z.",
        )
    )
