"""The tree over the log, read from its rows and tiles: the tree at a size, and proofs between sizes (contract/audit.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from service.domain.merkle import (
    TILE,
    Frontier,
    Nodes,
    TiledLog,
    consistency_ranges,
    inclusion_ranges,
    leaf_hash,
    root_of,
)
from service.store.tables import log_entries, log_tiles

PAGE: Final = 500  # entries hashed in one go: other threads wait for no longer


class Differs(Exception):
    """The stored rows are not those that were appended; `index` is the first entry that shows it."""

    def __init__(self, index: int) -> None:
        super().__init__(f"entry {index}")
        self.index = index


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One entry's place, kind and exact bytes."""

    index: int
    type: str
    content: bytes
    leaf: bytes


def inclusion(connection: Connection, index: int, size: int) -> list[bytes]:
    """The proof that entry `index` is in the tree of the first `size` entries (RFC 6962 §2.1.1), 0 ≤ index < size."""
    return [root_of(one, _nodes(connection)) for one in inclusion_ranges(index, size)]


def consistency(connection: Connection, older: int, newer: int) -> list[bytes]:
    """The proof that the tree of `newer` entries extends that of `older` (RFC 6962 §2.1.2), 0 ≤ older ≤ newer."""
    return [root_of(one, _nodes(connection)) for one in consistency_ranges(older, newer)]


def tree_at(connection: Connection, size: int) -> TiledLog:
    """The tree of the first `size` entries, ready to grow; at most 255 rows a level. Raises Differs where rows are gone."""
    levels: list[Frontier] = []
    nodes, whole, level = _nodes(connection), size, 0
    while whole or not levels:
        first = whole // TILE * TILE
        found = nodes(level, first, whole - first)
        if len(found) != whole - first:
            raise Differs((first + len(found)) * TILE**level)
        frontier = Frontier()
        for node in found:
            frontier = frontier.append(node)
        levels.append(frontier)
        whole, level = whole // TILE, level + 1
    return TiledLog(size, tuple(levels))


def grow(connection: Connection, tree: TiledLog, size: int) -> tuple[TiledLog, str]:
    """Up to 500 entries further, from their bytes; with the last one's time. Raises Differs where rows are not whole."""
    columns = (log_entries.c.idx, log_entries.c.at, log_entries.c.leaf, log_entries.c.entry)
    until = min(size, tree.size + PAGE)
    here = log_entries.c.idx >= tree.size, log_entries.c.idx < until
    moment = ""
    for index, at, leaf, content in connection.execute(select(*columns).where(*here).order_by(log_entries.c.idx)):
        if index != tree.size or leaf_hash(content) != leaf:
            raise Differs(tree.size)
        tree, _ = tree.append(leaf)
        moment = at
    if tree.size != until:
        raise Differs(tree.size)
    return tree, moment


def about_run(connection: Connection, run: str) -> list[StoredEntry]:
    """All entries that name this run, in order."""
    columns = (log_entries.c.idx, log_entries.c.type, log_entries.c.entry, log_entries.c.leaf)
    rows = connection.execute(select(*columns).where(log_entries.c.run == run).order_by(log_entries.c.idx))
    return [StoredEntry(*row) for row in rows]


def entries_of(connection: Connection, types: Sequence[str]) -> list[StoredEntry]:
    """All entries of these types, in order."""
    columns = (log_entries.c.idx, log_entries.c.type, log_entries.c.entry, log_entries.c.leaf)
    rows = connection.execute(select(*columns).where(log_entries.c.type.in_(types)).order_by(log_entries.c.idx))
    return [StoredEntry(*row) for row in rows]


def _nodes(connection: Connection) -> Nodes:
    def read(level: int, first: int, count: int) -> Sequence[bytes]:
        table, column = (log_entries, log_entries.c.leaf) if level == 0 else (log_tiles, log_tiles.c.hash)
        where = [table.c.idx >= first, table.c.idx < first + count]
        if level:
            where.append(log_tiles.c.level == level)
        return connection.execute(select(column).where(*where).order_by(table.c.idx)).scalars().all()

    return read
