"""What the entries tell, in order: each to the part that holds the rows against it; of bytes and hashes `log.py` judges."""

from collections import Counter
from collections.abc import Callable, Mapping

import pysqlite3.dbapi2 as sqlite

from service.verify.findings import Findings
from service.verify.forms import FACTS, Entry, canonical, fits, parse_entry

Readers = Mapping[str, Callable[[Entry], None]]


class Story:
    """One pass over the entries; `readers` are told of each whose type they are for."""

    def __init__(self, db: sqlite.Connection, findings: Findings, readers: Readers) -> None:
        self.db = db
        self.findings = findings
        self.entries: Counter[str] = Counter()
        self._readers = readers

    def read(self) -> None:
        """Every entry whose JSON is in order."""
        sql = "SELECT idx, leaf, entry FROM log_entries NOT INDEXED ORDER BY idx"
        for index, leaf, content in self.db.execute(sql):
            try:
                shape = parse_entry(content)
            except (ValueError, RecursionError, AttributeError):
                continue  # said where the bytes are judged
            entry = Entry(index, shape["type"], shape["at"], shape["actor"], shape["facts"], leaf)
            if isinstance(index, int):
                self._tell(entry)

    def _tell(self, entry: Entry) -> None:
        if not fits(entry.type, entry.facts):
            where = f"log_entries.entry of {entry.index}"
            self.findings.find(entry.index, "facts-shape", where, canonical(entry.facts).decode(), FACTS[entry.type])
            return
        self.entries[entry.type] += 1
        if entry.type in self._readers:
            tell(self._readers, entry, self.findings)


def tell(readers: Readers, entry: Entry, findings: Findings) -> None:
    """One entry to the reader of its type; what that cannot read is a finding."""
    try:
        readers[entry.type](entry)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        where = f"log_entries.entry of {entry.index}"
        findings.find(entry.index, "facts-shape", where, repr(error), "facts of the writer's form")
