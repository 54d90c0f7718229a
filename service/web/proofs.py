"""The log's checkpoint, proofs that an entry is in it and that it only grew, and its verification (contract/audit.md)."""

import base64
import re
from typing import Any, Final

from service.domain.runs import Run
from service.errors import Conflict, Forbidden, Message, NotFound
from service.store import log, proofs
from service.store.log import LogFilter
from service.store.proofs import StoredEntry
from service.web.lists import check_names, unfit
from service.web.parts import Parts
from service.web.routing import Answer, Asked
from service.web.runs import visible

FORMAT: Final = "bitong-run-proof/1"


def show_checkpoint(parts: Parts, _asked: Asked) -> Answer:
    """The newest signed note; one is made first where the log grew."""
    made = parts.checkpoints.newest
    if made is None or parts.checkpoints.state == "ok":
        made = parts.checkpoints.current(parts.database.log.size)
    return Answer(made.note.encode(), media_type="text/plain; charset=utf-8")


def prove_entry(parts: Parts, asked: Asked) -> Answer:
    """`{index, size, leaf, path}`: that an entry is in the log of `size` entries, the newest checkpoint's unless given."""
    check_names(asked, ("size",))
    text = asked.path["index"]
    row = None
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        with parts.database.read() as connection:
            row = log.visible(connection, int(text), LogFilter(patterns=asked.actor.tools))
    if row is None:
        raise NotFound(Message("没有这条记录。", "There is no such entry."), code="unknown-entry")
    index = int(row["idx"])
    size = _size_for(parts, asked, index)
    with parts.database.read() as connection:
        path = proofs.inclusion(connection, index, size)
    return Answer({"index": index, "size": size, "leaf": row["leaf"].hex(), "path": [node.hex() for node in path]})


def prove_growth(parts: Parts, asked: Asked) -> Answer:
    """`{from, to, path}`: that the log of `to` entries (the newest checkpoint's) extends that of `from` (none)."""
    check_names(asked, ("from", "to"))
    size = parts.database.log.size
    newer = _number(asked, "to", 0, size) if "to" in asked.query else parts.checkpoints.current().head.size
    older = _number(asked, "from", 0, newer) if "from" in asked.query else 0
    with parts.database.read() as connection:
        path = proofs.consistency(connection, older, newer)
    return Answer({"from": older, "to": newer, "path": [node.hex() for node in path]})


def prove_run(parts: Parts, asked: Asked) -> Answer:
    """A file that proves one run to a stranger who has the log's key: its entries, their paths, and the signed note."""
    run = visible(parts, asked)
    if run.end_index is None:
        raise Conflict(
            Message("运行还没有结束，结束后才有证明。", "The run is not over; there is a proof once it is."),
            code="run-open",
        )
    made = parts.checkpoints.current(run.end_index + 1)
    with parts.database.read() as connection:
        entries = [one for one in proofs.about_run(connection, run.id) if one.index < made.head.size]
        paths = [proofs.inclusion(connection, one.index, made.head.size) for one in entries]
    return Answer(
        {
            "format": FORMAT,
            "run": run.id,
            "definition": _identity(run),
            "keys": [str(key) for key in parts.checkpoints.keys],
            "checkpoint": made.note,
            "entries": [_proved(entry, path) for entry, path in zip(entries, paths, strict=True)],
        }
    )


def verify(parts: Parts, asked: Asked) -> Answer:
    """Run the verifier on the database now; its report."""
    if asked.actor.tools is not None:  # it quotes rows of all tools
        raise Forbidden(
            Message("核对需要不限工具的令牌。", "Verifying needs a token that is not limited to some tools.")
        )
    return Answer(parts.verification.run())


def _size_for(parts: Parts, asked: Asked, index: int) -> int:
    if "size" in asked.query:
        return _number(asked, "size", index + 1, parts.database.log.size)
    return parts.checkpoints.current(index + 1).head.size


def _number(asked: Asked, name: str, least: int, most: int) -> int:
    text = asked.query.get(name, "")
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII) or not least <= int(text) <= most:
        raise unfit(name, f"取 {least} 至 {most} 的整数。", f"It takes a whole number from {least} to {most}.")
    return int(text)


def _identity(run: Run) -> dict[str, Any] | None:
    """Which definition ran; None of a run that never started, since its entry names none."""
    if run.start_index is None:
        return None
    version = run.version
    return {
        "tool": version.tool,
        "version": version.number,
        "commit": version.commit,
        "tree": version.tree,
        "blob": version.blob,
        "sha256": version.sha256,
    }


def _proved(entry: StoredEntry, path: list[bytes]) -> dict[str, Any]:
    return {
        "index": entry.index,
        "type": entry.type,
        "leaf": entry.leaf.hex(),
        "entry_b64": base64.b64encode(entry.content).decode("ascii"),
        "path": [node.hex() for node in path],
    }
