"""How a tool stood at a moment, from what the log says happened before it (contract/http-api.md, `/tools/{name}/at`)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, select, text

from service.domain.times import later
from service.domain.tools import ToolVersion
from service.store import log, tools
from service.store.tables import log_entries
from service.store.tables import tools as names

CHANGES: Final = ("definition.registered", "definition.removed", "definition.orphaned", "definition.restored")


@dataclass(frozen=True, slots=True)
class Because:
    """The entry that decided it."""

    index: int
    type: str
    at: str


@dataclass(frozen=True, slots=True)
class Then:
    """`state`: active, removed, orphaned or unregistered; `version`: the one that would have run, or that ran last.

    `because`: the entry that decided it, None where nothing had happened yet. `following`: the first change after it.
    """

    state: str
    version: ToolVersion | None
    because: Because | None
    following: Because | None


def at(connection: Connection, name: str, moment: str) -> Then:
    """How the name stood at this moment (as `times.rfc3339` writes it).

    After the last change known, it stands as it stands now. Before, of the versions there were the newest would have run:
    where a merge let an older one run, only a run tells, and the last one since the change decides.
    """
    last = log.first_since(connection, later(moment, 0.001)) - 1  # times have milliseconds
    before = list(_changes(connection, name, until=last))
    following = next(_changes(connection, name, after=last), None)
    shown = None if following is None else _because(following)
    if not before:
        return Then("unregistered", None, None, shown)
    because = _because(before[-1])
    if following is None:
        return _now(connection, name, because)
    state, number = _replayed(before)
    if state == "active" and (ran := _ran(connection, name, because.index, last)) is not None:
        found = tools.version(connection, name, int(_facts(ran)["version"]))
        return Then(state, found, _because(ran), shown)
    return Then(state, tools.version(connection, name, number), because, shown)


def _now(connection: Connection, name: str, because: Because) -> Then:
    row = connection.execute(select(names.c.state, names.c.version_id).where(names.c.name == name)).first()
    if row is None or row.version_id is None:
        return Then("unregistered", None, because, None)
    return Then(row.state, tools.version_by_id(connection, row.version_id), because, None)


def _replayed(changes: Sequence[Any]) -> tuple[str, int]:
    """State and version after these changes, oldest first."""
    there: set[int] = set()
    removed: int | None = None
    number = 0
    for change in changes:
        number = int(_facts(change)["version"])
        if change.type == "definition.orphaned":
            there.discard(number)
        elif change.type == "definition.removed":
            removed = number
        else:
            there.add(number)
            removed = None
    if removed is not None:
        return "removed", removed
    return ("active", max(there)) if there else ("orphaned", number)


def _changes(connection: Connection, name: str, *, until: int | None = None, after: int = -1) -> Iterator[Any]:
    """Entries that changed how the name stands, oldest first: until this index, or after it."""
    columns = (log_entries.c.idx, log_entries.c.type, log_entries.c.at, log_entries.c.entry)
    # By type, not by tool (`+`): under a tool's name stand all its runs too.
    statement = select(*columns).where(log_entries.c.type.in_(CHANGES), text("+log_entries.tool = :name"))
    if until is None:
        statement = statement.where(log_entries.c.idx > after).limit(1)
    else:
        statement = statement.where(log_entries.c.idx <= until)
    return iter(connection.execute(statement.order_by(log_entries.c.idx), {"name": name}))


def _ran(connection: Connection, name: str, after: int, until: int) -> Any | None:
    """The last run of the tool between two entries."""
    columns = (log_entries.c.idx, log_entries.c.type, log_entries.c.at, log_entries.c.entry)
    here = (log_entries.c.tool == name, log_entries.c.idx > after, log_entries.c.idx <= until)
    statement = select(*columns).where(*here, text("+log_entries.type = 'run.started'"))
    return connection.execute(statement.order_by(log_entries.c.idx.desc()).limit(1)).first()


def _facts(row: Any) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(row.entry)["facts"]
    return facts


def _because(row: Any) -> Because:
    return Because(row.idx, row.type, row.at)
