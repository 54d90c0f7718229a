"""An exported log against itself: `bitong audit verify --export FILE` (contract/audit.md, Verification).

The file is what `bitong audit export` writes: a line of JSON for each entry, oldest first, with `index`, `leaf` (hex) and
`entry_b64`, the exact bytes; beside them `type`, `at`, `actor` and `facts`, which have to say what the bytes say. Its last
line may be `{"checkpoint": note}`. Tables are not in it, so what pages are made from cannot be checked with it. In memory
stay the ids of runs, and what was registered.
"""

import base64
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pysqlite3.dbapi2 as sqlite

from service.verify.checkpoints import Checkpoints, Kept, read_files, read_keys
from service.verify.findings import MAX_FINDINGS, Findings, Report, VerifyError, shown
from service.verify.forms import FACTS, Entry, canonical, fits, identity, read_entry
from service.verify.notes import read_note
from service.verify.story import tell
from service.verify.tree import Tree, sha256

LONGEST: Final = 64 * 1024 * 1024  # bytes of one line: an entry is far smaller
_TABLES: Final = ("表不在导出的文件里，没有核对。", "The tables are not in an export, so they were not checked.")
_FILTERED: Final = ("不是完整的日志。", "It is not the whole log.")


def verify_export(file: Path, *, keys: Sequence[str] = (), checkpoints: Sequence[Path] = ()) -> Report:
    """Check every line and what follows from all of them. Raises VerifyError for a file that is no export."""
    begun = time.perf_counter()
    known, kept = read_keys(keys), read_files(checkpoints)
    try:
        last = _note(_tail(file))
        kept += [] if last is None else [last]
        return _Export(file, known, kept).report(begun)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise VerifyError(f"读不到文件：{why}。", f"The file cannot be read: {why}.") from error


class _Export:
    """One pass over the lines."""

    def __init__(self, file: Path, keys: Sequence[Any], kept: Sequence[Kept]) -> None:
        self.file = file
        self.findings = Findings()
        self.tree = Tree()
        self.entries: Counter[str] = Counter()
        self.next = 0
        self.whole = True
        self.open: dict[str, int] = {}
        self.begun: set[str] = set()
        self.versions: dict[tuple[str, int], tuple[bytes, bytes, bytes, bytes]] = {}
        empty = sqlite.connect(":memory:")
        empty.execute("CREATE TABLE checkpoints (size, root, at, note)")
        self.signed = Checkpoints(empty, self.findings, list(keys))
        self.signed.load(kept)
        self.readers = {
            **self.signed.readers,
            "definition.registered": self._registered,
            "run.started": self._started,
            "run.finished": self._finished,
            "run.refused": self._refused,
        }

    def report(self, begun: float) -> Report:
        """All of it."""
        self._checkpoint("")
        for shape in _lines(self.file):
            if shape.keys() == {"checkpoint"}:
                continue
            self._line(shape)
        if not self.next:
            self.findings.find(0, "index-missing", "the file", None, 0)
        self.signed.check(self.next, whole=self.whole)
        notes = [_TABLES, *self.signed.notes()] + ([] if self.whole else [_FILTERED])
        return Report(
            size=self.tree.size,
            root=self.tree.root().hex(),
            checkpoints=self.signed.compared,
            open_runs=tuple(self.open),
            entries=dict(sorted(self.entries.items())),
            findings=tuple(self.findings.first()[:MAX_FINDINGS]),
            seconds=time.perf_counter() - begun,
            notes=tuple(notes),
        )

    def _line(self, shape: dict[str, Any]) -> None:
        index = shape.get("index")
        if not isinstance(index, int) or index != self.next:
            self.whole = False
            self.findings.find(self.next, "index-missing", "index", index, self.next)
            index = index if isinstance(index, int) else self.next
        self.next = index + 1
        where = f"entry {index}"
        try:
            content = base64.b64decode(shape["entry_b64"], validate=True)
        except (KeyError, ValueError, TypeError):
            content = b""
        leaf = sha256(b"\0" + content)
        if shape.get("leaf") != leaf.hex():
            self.findings.find(index, "leaf-differs", where, shape.get("leaf"), leaf)
        try:
            said = read_entry(content)
        except (ValueError, RecursionError, AttributeError) as error:
            self.findings.find(index, "entry-unreadable", where, error, "canonical JSON")
            said = None
        if self.whole:
            self.tree.append(leaf)
            self._checkpoint(said["at"] if said else "")
        if said is not None:
            self._entry(index, shape, said, leaf)

    def _entry(self, index: int, shape: dict[str, Any], said: dict[str, Any], leaf: bytes) -> None:
        row = {name: shape.get(name) for name in said}
        self.findings.compare(index, "export", index, row, said)
        entry = Entry(index, said["type"], said["at"], said["actor"], said["facts"], leaf)
        if not fits(entry.type, entry.facts):
            self.findings.find(
                index, "facts-shape", f"entry {index}", canonical(entry.facts).decode(), FACTS[entry.type]
            )
            return
        self.entries[entry.type] += 1
        if entry.type in self.readers:
            tell(self.readers, entry, self.findings)

    def _checkpoint(self, at: str) -> None:
        if self.signed.sizes and self.signed.sizes[-1] == self.tree.size:
            self.signed.reached(self.tree, at)

    # The runs: each begins once, ends once, and ran what was registered.

    def _registered(self, entry: Entry) -> None:
        self.versions[entry.facts["tool"], entry.facts["version"]] = identity(entry.facts)

    def _started(self, entry: Entry) -> None:
        self._begins(entry)
        self.open[entry.facts["run"]] = entry.index
        version = (entry.facts["tool"], entry.facts["version"])
        ran, known = identity(entry.facts), self.versions.get(version)
        if self.whole and ran != known:
            where = f"version {version[1]} of {version[0]} in run {entry.facts['run']}"
            self.findings.find(entry.index, "version-differs", where, _hexes(ran), known and _hexes(known))

    def _finished(self, entry: Entry) -> None:
        if self.open.pop(entry.facts["run"], None) is None and self.whole:
            where = f"run {entry.facts['run']}"
            self.findings.find(entry.index, "run-ends-unstarted", where, entry.type, "one run.started before")

    def _refused(self, entry: Entry) -> None:
        self._begins(entry)

    def _begins(self, entry: Entry) -> None:
        run = entry.facts["run"]
        if run in self.begun:
            self.findings.find(entry.index, "run-begins-twice", f"run {run}", "a second beginning", "one")
        self.begun.add(run)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as stream:
        number = 0
        while line := stream.readline(LONGEST):
            number += 1
            try:
                shape = json.loads(line)
            except (ValueError, RecursionError):
                shape = None
            if not isinstance(shape, dict) or not shape.keys() & {"index", "checkpoint"}:
                raise VerifyError(
                    f"第 {number} 行不是导出的日志（ndjson）。", f"Line {number} is none of an exported log (ndjson)."
                )
            yield shape


def _tail(file: Path) -> list[bytes]:
    with file.open("rb") as stream:
        stream.seek(-min(file.stat().st_size, 65_536), os.SEEK_END)
        return stream.readlines()[-1:]


def _note(lines: Sequence[bytes]) -> Kept | None:
    """The checkpoint in the last line, where there is one."""
    try:
        shape = json.loads(lines[-1])
        return (
            Kept(read_note(shape["checkpoint"].encode()), "checkpoint of the file") if "checkpoint" in shape else None
        )
    except (IndexError, ValueError, TypeError, AttributeError, KeyError) as error:
        if lines and b"checkpoint" in lines[-1][:16]:
            raise VerifyError(
                f"最后一行没有检查点：{shown(error)}。", f"No checkpoint in the last line: {shown(error)}."
            ) from error
        return None


def _hexes(parts: Sequence[bytes]) -> str:
    return "/".join(part.hex() for part in parts)
