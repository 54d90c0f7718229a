"""Checkpoints against the tree: those in the table, and those that somebody kept elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pysqlite3.dbapi2 as sqlite

from service.verify.findings import Findings, VerifyError, shown
from service.verify.forms import Entry
from service.verify.notes import Key, Note, is_signed, read_key, read_note
from service.verify.tree import Tree


@dataclass(frozen=True, slots=True)
class Kept:
    """One checkpoint to be compared, and where it stands."""

    note: Note
    where: str
    at: str | None = None  # the row's; of the last entry that it covers


class Checkpoints:
    """All checkpoints known, each to be compared where the tree reaches its size.

    Signatures are checked with the keys that were given, else with those that the log itself names, which proves less.
    """

    def __init__(self, db: sqlite.Connection, findings: Findings, keys: Sequence[Key]) -> None:
        self.db = db
        self.findings = findings
        self.given = bool(keys)
        self.compared = 0
        self.origin: str | None = None
        self.sizes: list[int] = []  # still to be reached, the smallest last
        self._keys = list(keys)
        self._named: set[str] = set()
        self._waiting: dict[int, list[Kept]] = {}
        self._done: list[Kept] = []  # their signatures wait for the log's last word on its keys
        self.readers = {
            "log.opened": self._opened,
            "key.created": self._key,
            "key.rotated": self._key,
        }

    def load(self, kept: Sequence[Kept]) -> None:
        """Take those that were given, and read the table's; a row that contradicts itself is a finding."""
        for one in kept:
            self._waiting.setdefault(one.note.size, []).append(one)
        for size, root, at, note in self.db.execute("SELECT size, root, at, note FROM checkpoints NOT INDEXED"):
            where = f"checkpoints of {shown(size)}"
            try:
                read = read_note(note) if isinstance(note, bytes) else None
            except ValueError as error:
                self.findings.find(_last(size), "checkpoint-unreadable", where, error, "a signed checkpoint")
                continue
            if read is None:
                self.findings.find(_last(size), "checkpoint-unreadable", where, note, "a signed checkpoint")
                continue
            row, wanted = {"size": size, "root": root}, {"size": read.size, "root": read.root}
            self.findings.compare(_last(size), "checkpoints", size, row, wanted)
            self._waiting.setdefault(read.size, []).append(Kept(read, where, at if isinstance(at, str) else shown(at)))
        self.sizes = sorted(self._waiting, reverse=True)

    def _opened(self, entry: Entry) -> None:
        self.origin = str(entry.facts["origin"])

    def _key(self, entry: Entry) -> None:
        key = read_key(entry.facts["key"])
        previous = entry.facts.get("previous")
        if previous is not None and previous not in self._named:
            self.findings.find(
                entry.index, "key-unknown", f"key.rotated of {entry.index}", previous, "a key named before"
            )
        self._named.add(entry.facts["key"])
        if not self.given:
            self._keys.append(key)

    def reached(self, tree: Tree, at: str) -> None:
        """The tree has the size of the next one now; `at` is its last entry's time."""
        size = self.sizes.pop()
        root = tree.root()
        for kept in self._waiting.pop(size):
            self.compared += 1
            if kept.note.root != root:
                self.findings.find(size - 1, "checkpoint-differs", kept.where, root, kept.note.root)
            if kept.at is not None and kept.at != at:
                self.findings.find(size - 1, "column-differs", f"checkpoints.at of {size}", kept.at, at)
            self._done.append(kept)

    def check(self, next_index: int, *, whole: bool) -> None:
        """What only the whole log can say: heads beyond its end, the log's name, signatures."""
        if whole:
            for size, many in sorted(self._waiting.items()):
                for kept in many:
                    self.findings.find(next_index, "log-cut", kept.where, f"{next_index} entries", f"{size} entries")
        for kept in [*self._done, *(one for many in self._waiting.values() for one in many)]:
            last = _last(kept.note.size)
            if kept.note.origin != self.origin:
                self.findings.find(last, "origin-differs", kept.where, kept.note.origin, self.origin)
            if self._keys and not is_signed(kept.note, self._keys):
                self.findings.find(last, "signature-wrong", kept.where, "no right signature", self._wanted())

    def notes(self) -> list[tuple[str, str]]:
        """What to know of the signatures that were checked."""
        if self.given:
            return []
        if self._keys and self.compared:
            return [
                (
                    "没有给出公钥：签名只按日志自己所记的公钥核对过。",
                    "No key was given: signatures were checked only with those that the log itself names.",
                )
            ]
        return [("没有核对检查点的签名。", "No checkpoint's signature was checked.")]

    def _wanted(self) -> str:
        return " | ".join(f"{key.name}+{key.id.hex()}" for key in self._keys)


def read_files(files: Sequence[Path]) -> list[Kept]:
    """Checkpoints that somebody kept. Raises VerifyError for a file that holds none."""
    kept = []
    for file in files:
        try:
            kept.append(Kept(read_note(file.read_bytes()), f"checkpoint {file}"))
        except (OSError, ValueError) as error:
            raise VerifyError(
                f"{shown(file)} 里没有检查点：{shown(error)}。", f"{shown(file)} holds no checkpoint: {shown(error)}."
            ) from error
    return kept


def read_keys(vkeys: Sequence[str]) -> list[Key]:
    """Keys as `bitong audit key` prints them. Raises VerifyError for what is none."""
    keys = []
    for vkey in vkeys:
        try:
            keys.append(read_key(vkey))
        except ValueError:
            raise VerifyError(f"不是公钥：{shown(vkey)}。", f"Not a key: {shown(vkey)}.") from None
    return keys


def _last(size: object) -> int | None:
    return size - 1 if isinstance(size, int) and size > 0 else None
