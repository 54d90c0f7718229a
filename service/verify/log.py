"""The log itself: each entry's bytes, leaf and columns in index order, and the tiles of the tree over them."""

from collections.abc import Callable, Sequence

import pysqlite3.dbapi2 as sqlite

from service.domain.audit import TYPES
from service.verify.checkpoints import Checkpoints
from service.verify.database import FIND_TILE
from service.verify.findings import Findings
from service.verify.forms import Entry, fits, read_entry
from service.verify.story import tell
from service.verify.tree import TILE, Tree, sha256


class Log:
    """One pass over the entries; the checkpoints are told of those that name the log and its keys."""

    def __init__(self, db: sqlite.Connection, findings: Findings, checkpoints: Checkpoints) -> None:
        self.db = db
        self.findings = findings
        self.tree = Tree()
        self.next = 0  # the index expected next
        self.whole = True  # no gap so far, so the tree grows
        self._checkpoints = checkpoints

    def read(self, progress: Callable[[int, int], None] | None) -> None:
        """Every entry in index order, and each checkpoint where the tree has its size."""
        self._checkpoint("")
        (last,) = self.db.execute("SELECT max(idx) FROM log_entries").fetchone()
        sql = "SELECT idx, type, at, actor, run, tool, leaf, entry FROM log_entries NOT INDEXED ORDER BY idx"
        total = last + 1 if isinstance(last, int) else 0
        for index, *columns, leaf, content in self.db.execute(sql):
            if not isinstance(index, int):  # possible where the primary key is gone
                self.findings.find(self.next, "index-repeated", "log_entries.idx", index, self.next)
                continue
            if index != self.next:
                self._gap(index)
            self.next = index + 1
            digest = sha256(b"\x00" + content) if type(content) is bytes else b""
            if digest != leaf:
                self.findings.find(index, "leaf-differs", f"log_entries.leaf of {index}", leaf, digest)
            if self.whole:
                self._grow(digest, columns[1])
            self._entry(index, columns, content, digest)
            if progress is not None and (self.next % 10_000 == 0 or index == last):
                progress(self.next, total)
        if not self.next:
            self.findings.find(0, "index-missing", "log_entries", None, 0)

    def _grow(self, leaf: bytes, moment: str) -> None:
        for level, position, root in self.tree.append(leaf):
            self._tile(level, position, root)
        self._checkpoint(moment)

    def _checkpoint(self, moment: str) -> None:
        sizes = self._checkpoints.sizes
        if sizes and sizes[-1] == self.tree.size:
            self._checkpoints.reached(self.tree, moment)

    def _gap(self, index: int) -> None:
        self.whole = False
        repeated = index < self.next
        what = "index-repeated" if repeated else "index-missing"
        self.findings.find(index if repeated else self.next, what, "log_entries.idx", index, self.next)

    def _tile(self, level: int, position: int, root: bytes) -> None:
        row = self.db.execute(FIND_TILE, (level, position)).fetchone()
        if row != (root,):
            last = (position + 1) * TILE**level - 1  # of the leaves below: one that is itself wrong is named before
            self.findings.find(last, "tile-differs", f"log_tiles.hash of {level}/{position}", row and row[0], root)

    def _entry(self, index: int, columns: Sequence[object], content: bytes, leaf: bytes) -> None:
        where = f"log_entries.entry of {index}"
        try:
            shape = read_entry(content)
        except (ValueError, RecursionError, AttributeError) as error:
            self.findings.find(index, "entry-unreadable", where, error, "canonical JSON")
            return
        entry = Entry(index, shape["type"], shape["at"], shape["actor"], shape["facts"], leaf)
        facts = entry.facts
        said = [entry.type, entry.at, entry.actor, facts.get("run"), facts.get("tool"), shape["index"]]
        if said != [*columns, index]:
            names = ("type", "at", "actor", "run", "tool", "idx")
            row, wanted = (dict(zip(names, values, strict=True)) for values in ([*columns, index], said))
            self.findings.compare(index, "log_entries", index, row, wanted)
        if entry.type not in TYPES or (index == 0) != (entry.type == "log.opened"):
            self.findings.find(index, "entry-type", where, entry.type, "log.opened" if index == 0 else "a known one")
        elif entry.type in self._checkpoints.readers and fits(entry.type, facts):
            tell(self._checkpoints.readers, entry, self.findings)

    def tail(self) -> None:
        """Rows that point past the log's end say that it was longer once."""
        size = self.tree.size
        for level, position in self.db.execute("SELECT level, idx FROM log_tiles") if self.whole else ():
            if type(level) is not int or type(position) is not int or not 1 <= level <= 7 or position < 0:
                self.findings.find(None, "row-unlogged", f"log_tiles of {level}/{position}", level, "1 to 7")
            elif (position + 1) * TILE**level > size:
                expected = f"{(position + 1) * TILE**level} entries"
                self.findings.find(size, "log-cut", f"log_tiles of {level}/{position}", f"{size} entries", expected)
        sql = """SELECT id, max(ifnull(start_index, 0), ifnull(end_index, 0)) AS last FROM runs NOT INDEXED
                 WHERE last >= ? ORDER BY last LIMIT 1"""
        for run, index in self.db.execute(sql, (self.next,)):
            where = f"runs.start_index/end_index of {run}"
            self.findings.find(self.next, "log-cut", where, f"{self.next} entries", f"entry {index}")
