"""The log's rows (contract/audit.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select

from service.domain.audit import AuditEntry, Fact
from service.domain.merkle import TILE, Frontier, TiledLog
from service.store.tables import log_entries, log_tiles, runs


@dataclass(frozen=True, slots=True)
class LogFilter:
    """What `GET /audit` may ask for; `patterns` are the actor's tools: entries about others are not there for it."""

    type: str | None = None
    actor: str | None = None
    tool: str | None = None
    run: str | None = None
    since: str | None = None
    until: str | None = None
    patterns: tuple[str, ...] | None = None


def load(connection: Connection) -> TiledLog:
    """Pick the tree up from the last leaves and tiles: at most 256 rows a level."""
    newest = connection.execute(select(func.max(log_entries.c.idx))).scalar()
    size = 0 if newest is None else newest + 1
    leaves = select(log_entries.c.leaf).where(log_entries.c.idx >= size // TILE * TILE).order_by(log_entries.c.idx)
    levels = [_frontier(connection.execute(leaves).scalars())]
    level, whole = 1, size // TILE
    while whole:
        tiles = (
            select(log_tiles.c.hash)
            .where(log_tiles.c.level == level, log_tiles.c.idx >= whole // TILE * TILE)
            .order_by(log_tiles.c.idx)
        )
        levels.append(_frontier(connection.execute(tiles).scalars()))
        level, whole = level + 1, whole // TILE
    return TiledLog(size, tuple(levels))


def last_moment(connection: Connection) -> str:
    """The time of the newest entry; empty for an empty log."""
    newest = select(log_entries.c.at).order_by(log_entries.c.idx.desc()).limit(1)
    return connection.execute(newest).scalar() or ""


def row(fact: Fact, entry: AuditEntry) -> dict[str, Any]:
    """What is kept of an entry: its bytes, and columns derived from them to filter by."""
    return {
        "idx": entry.index,
        "type": entry.type,
        "at": entry.at,
        "actor": entry.actor,
        "run": fact.facts.get("run"),
        "tool": fact.facts.get("tool"),
        "leaf": entry.leaf,
        "entry": entry.content,
    }


def _frontier(hashes: Any) -> Frontier:
    frontier = Frontier()
    for item in hashes:
        frontier = frontier.append(item)
    return frontier


def listed(connection: Connection, wanted: LogFilter, *, before: int | None, limit: int) -> list[Mapping[str, Any]]:
    """Rows of `log_entries`, newest first."""
    conditions = _conditions(wanted)
    if before is not None:
        conditions.append(log_entries.c.idx < before)
    if wanted.since is not None:
        conditions.append(log_entries.c.idx >= first_since(connection, wanted.since))
    if wanted.until is not None:
        conditions.append(log_entries.c.idx < first_since(connection, wanted.until))
    statement = select(log_entries).where(*conditions).order_by(log_entries.c.idx.desc()).limit(limit)
    return [dict(row) for row in connection.execute(statement).mappings()]


def between(
    connection: Connection, wanted: LogFilter, *, first: int, until: int, limit: int
) -> list[Mapping[str, Any]]:
    """Rows of `log_entries` with first ≤ index < until, oldest first."""
    first = max(first, 0 if wanted.since is None else first_since(connection, wanted.since))
    until = until if wanted.until is None else min(until, first_since(connection, wanted.until))
    here = (log_entries.c.idx >= first, log_entries.c.idx < until)
    statement = select(log_entries).where(*here, *_conditions(wanted)).order_by(log_entries.c.idx).limit(limit)
    return [dict(row) for row in connection.execute(statement).mappings()]


def first_since(connection: Connection, moment: str) -> int:
    """The index of the first entry that is no earlier than this; the log's size without one.

    Times rise with the index (store/database.py sees to it), so halving finds it.
    """
    low, high = 0, int(connection.execute(select(func.max(log_entries.c.idx) + 1)).scalar() or 0)
    while low < high:
        middle = (low + high) // 2
        at = connection.execute(select(log_entries.c.at).where(log_entries.c.idx == middle)).scalar()
        if at is not None and at < moment:
            low = middle + 1
        else:
            high = middle
    return low


def visible(connection: Connection, index: int, wanted: LogFilter) -> Mapping[str, Any] | None:
    """One entry's row, if the filter lets it be seen."""
    statement = select(log_entries).where(log_entries.c.idx == index, *_conditions(wanted))
    found = connection.execute(statement).mappings().first()
    return None if found is None else dict(found)


def _conditions(wanted: LogFilter) -> list[ColumnElement[bool]]:
    exact = (("type", wanted.type), ("actor", wanted.actor), ("run", wanted.run))
    found: list[ColumnElement[bool]] = [log_entries.c[name] == value for name, value in exact if value is not None]
    if wanted.tool is not None:
        of_tool = select(runs.c.id).where(runs.c.tool == wanted.tool)
        found.append(or_(log_entries.c.tool == wanted.tool, log_entries.c.run.in_(of_tool)))
    if wanted.patterns is not None:
        # Row by row: of a million runs, those that are shown are found at once, a list of all of them is not made.
        shown = or_(*(runs.c.tool.op("GLOB")(p) for p in wanted.patterns))
        seen = select(runs.c.id).where(runs.c.id == log_entries.c.run, shown).exists()
        found.append(or_(log_entries.c.tool.is_(None), *(log_entries.c.tool.op("GLOB")(p) for p in wanted.patterns)))
        found.append(or_(log_entries.c.run.is_(None), seen))
    return found
