"""The verifier behind `bitong audit verify` (contract/audit.md, Verification). It shares no code with the writer.

`python -m service.verify FILE` reads one copy of the database, read-only, and names what is wrong, first index first:

1. the log: each entry's bytes, leaf and columns, in index order, and the tiles of the RFC 6962 tree over them;
2. the runs: each refused alone, or started and ended once; every column of theirs that an entry says something of; what
   was kept of them, by the hashes in the entries;
3. versions (with their files, down to the bytes), tokens and rejections.

Entries are streamed. What stays in memory is one record for each version, token, rejection and run still open.
Not checked here: checkpoints' signatures, and columns that no entry speaks of (such as a version's parsed definition).
"""

import hashlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import contains, methodcaller
from pathlib import Path
from typing import Any, Final, NoReturn

import pysqlite3.dbapi2 as sqlite

from service.domain.audit import TYPES

MAX_FINDINGS: Final = 100
TILE: Final = 256

TABLES: Final = {  # what is read; each must be a plain table, each column a plain one
    "log_entries": "idx type at actor run tool leaf entry",
    "log_tiles": "level idx hash",
    "runs": "seq id state reason tool version version_id commit_id actor node params_digest match_id confirmation_id"
    " key_hash exit_code status duration_ms stdout_bytes stdout_sha256 stdout_kept stderr_bytes stderr_sha256"
    " stderr_kept start_index end_index end_leaf started_at ended_at problems",
    "run_parameters": "run_seq salt masked",
    "run_output": "run_seq stream kept",
    "tool_versions": "tool number state id commit_id tree blob sha256 definition registered_at pusher",
    "folder_trees": "folder tree files blob sha256",
    "blobs": "id content",
    "tokens": "id name scopes tools created_at created_by expires_at revoked_at",
    "rejections": "id kind tool commit_id pusher problems",
}
RUN: Final = TABLES["runs"].split()[2:]

# Asked again and again, so each must be answered from an index.
FIND_RUN: Final = f"""SELECT p.salt, p.masked, o.kept, e.kept, {", ".join(f"r.{name}" for name in RUN)} FROM runs r
 LEFT JOIN run_parameters p ON p.run_seq = r.seq
 LEFT JOIN run_output o ON o.run_seq = r.seq AND o.stream = 'stdout'
 LEFT JOIN run_output e ON e.run_seq = r.seq AND e.stream = 'stderr' WHERE r.id = ?"""  # noqa: S608 - names of our own
FIND_PURGE: Final = "SELECT 1 FROM log_entries WHERE run = ? AND type = 'output.purged'"
FIND_VERSION: Final = """SELECT id, commit_id, tree, blob, sha256, definition, registered_at, pusher FROM tool_versions
 WHERE tool = ? AND number = ?"""
FIND_BLOB: Final = "SELECT content FROM blobs WHERE id = ?"
FIND_TILE: Final = "SELECT hash FROM log_tiles WHERE level = ? AND idx = ?"

# The facts of an entry: exactly these names. `?`: text or null; `#`: a number; `##`: a number, null, or text for one
# that does not fit; `[]`, `[]?`: a list, or null; `{}`: an object; else text. Other entries are free in their facts.
FACTS: Final = {
    "log.opened": "origin",
    "service.started": "version sandbox? digests{}",
    "run.started": "run tool version# commit tree blob sha256 executor node?"
    " params_digest match? confirmation? key_hash?",
    "run.finished": "run state reason? exit_code## status## duration_ms## stdout{} stderr{}",
    "run.refused": "run tool code problems_digest",
    "definition.registered": "tool version# commit tree blob sha256 author pusher?",
    "definition.rejected": "tool? version#? commit tree? blob? sha256? author? pusher? problems[]",
    "token.issued": "token name scopes[] tools[]? expires?",
}
_NULL: Final = type(None)
KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "": (str,),
    "?": (str, _NULL),
    "#": (int,),
    "#?": (int, _NULL),
    "##": (int, str, _NULL),
    "[]": (list,),
    "[]?": (list, _NULL),
    "{}": (dict,),
}
SHAPES: Final = {
    type_: {name: KINDS[mark] for name, mark in sorted(re.findall(r"(\w+)(\S*)", names))}
    for type_, names in FACTS.items()
}
STREAM: Final = {"bytes", "sha256", "kept", "kept_sha256"}
WAITING: Final = ("queued", "awaiting_confirmation")  # a run of which nothing has been logged yet

WORDS: Final = {
    "schema": ("数据库结构不是预期的普通表", "the schema is not the plain tables expected"),
    "storage-damaged": ("数据库文件自身已损坏", "the database file itself is damaged"),
    "storage-unreadable": ("数据库从这里起无法读取", "the database cannot be read from here on"),
    "index-missing": ("记录缺失", "an entry is missing"),
    "index-repeated": ("序号重复", "an index occurs twice"),
    "log-cut": ("日志末尾被截断", "the log's tail was cut off"),
    "leaf-differs": ("叶子哈希与记录的字节不符", "the leaf is not the hash of the entry's bytes"),
    "entry-unreadable": ("记录不是规范的 JSON", "the entry is no canonical JSON of its shape"),
    "entry-type": ("记录类型不对", "the entry's type is wrong"),
    "facts-shape": ("记录的内容字段不对", "the entry's facts are not of their shape"),
    "tile-differs": ("子树的根与叶子不符", "a subtree's root does not follow from its leaves"),
    "run-begins-twice": ("运行开始了两次", "a run begins twice"),
    "run-ends-unstarted": ("运行没有开始却有结束，或结束了两次", "a run ends that was not started, or ends twice"),
    "column-differs": ("表中的值与日志不符", "a column does not say what the log says"),
    "row-missing": ("日志里有，表里没有", "a row is missing that the log tells of"),
    "row-unlogged": ("表里有，日志里没有", "a row stands there that no entry tells of"),
    "version-differs": ("运行的定义与登记的不符", "what ran is not the version that was registered"),
    "definition-twice": ("同一定义登记了两次", "one definition was registered twice"),
    "bytes-differ": ("保存的字节与哈希不符", "kept bytes do not have their hash"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `what`: a key of WORDS; `where`: table.column and row; `index`: where it shows."""

    index: int | None
    what: str
    found: str
    expected: str
    where: str
    zh: str
    en: str


@dataclass(frozen=True, slots=True)
class Report:
    """`root`: hex, of the `size` leaves up to a gap. `entries`: how many of each type. `notes`: (zh, en) each."""

    size: int
    root: str
    open_runs: tuple[str, ...]
    entries: dict[str, int]
    findings: tuple[Finding, ...]
    seconds: float
    notes: tuple[tuple[str, str], ...] = ()


class VerifyError(Exception):
    """The file cannot be read as a database of Bitong's; `zh` and `en` say so."""

    def __init__(self, zh: str, en: str) -> None:
        super().__init__(en)
        self.zh = zh
        self.en = en


def sha256(content: bytes) -> bytes:
    """32 bytes."""
    return hashlib.sha256(content).digest()


def subtree_root(nodes: list[bytes]) -> bytes:
    """RFC 6962 §2.1 over roots of equally large subtrees (the last may be smaller): pair up, an odd one moves up."""
    while len(nodes) > 1:
        odd = nodes[len(nodes) & ~1 :]
        nodes = [sha256(b"\x01" + left + right) for left, right in zip(nodes[::2], nodes[1::2], strict=False)] + odd
    return nodes[0] if nodes else sha256(b"")


class Tree:
    """The tree as it grows. `levels[k]` are the roots of 256^k leaves each that are not in a larger whole one yet."""

    def __init__(self) -> None:
        self.size = 0
        self.levels: list[list[bytes]] = [[]]

    def append(self, leaf: bytes) -> list[tuple[int, int, bytes]]:
        """Add one leaf hash; answers the tiles that this made whole: (level, index, root)."""
        self.size += 1
        self.levels[0].append(leaf)
        whole: list[tuple[int, int, bytes]] = []
        level = 0
        while len(self.levels[level]) == TILE:
            root = subtree_root(self.levels[level])
            self.levels[level] = []
            level += 1
            if level == len(self.levels):
                self.levels.append([])
            self.levels[level].append(root)
            whole.append((level, self.size // TILE**level - 1, root))
        return whole

    def root(self) -> bytes:
        """The root of all leaves so far, which is what a checkpoint of this size signs."""
        last: list[bytes] = []
        for nodes in self.levels:
            if nodes or last:
                last = [subtree_root(nodes + last)]
        return subtree_root(last)


class OneOf:
    """Equal to each of these values: what a column may say where an entry leaves a choice."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return other in self.values

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return " | ".join(map(shown, self.values))


def number(value: int | str | None) -> object:
    """A number as its column holds it; what was too large for one is text in the entry."""
    return OneOf(None, value, float(value)) if isinstance(value, str) else value


def unhex(value: str | None) -> bytes | None:
    """Hex as its column holds it."""
    return None if value is None else bytes.fromhex(value)


def parse(column: object) -> object:
    """What a column holds as JSON text; what is no JSON stays as it is."""
    try:
        return json.loads(column) if isinstance(column, str) else column
    except (ValueError, RecursionError):
        return column


def hash_of(column: object) -> bytes | None:
    """SHA-256 of a column's bytes, or of its text's UTF-8."""
    content = column.encode("utf-8", "surrogateescape") if isinstance(column, str) else column
    return sha256(content) if isinstance(content, bytes) else None


def shown(value: object) -> str:
    """A value for people: at most 200 characters, nothing that a terminal would obey."""
    text = "null" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    text = text if len(text) <= 200 else text[:199] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _no_float(text: str) -> NoReturn:
    raise ValueError(f"{text} is no whole number")


_decode: Final = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float).raw_decode
_encoder: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False)


def canonical(value: object) -> bytes:
    """JSON as entries are written: UTF-8, keys sorted, no spaces."""
    return _encoder.encode(value).encode("utf-8", "replace")


def read_entry(content: bytes) -> dict[str, Any]:
    """The entry's JSON. Raises ValueError unless writing it again gives the same bytes, and its shape is right."""
    shape, _ = _decode(content.decode("utf-8"))
    if canonical(shape) != content:
        raise ValueError("written again, it is not the same bytes")
    if type(shape) is not dict or list(shape) != ["actor", "at", "facts", "index", "type"]:
        raise ValueError("not of the shape {actor, at, facts, index, type}")
    if type(shape["facts"]) is not dict or type(shape["type"]) is not str:
        raise ValueError("type is no text, or facts no object")
    return shape


def git_blob(content: bytes) -> bytes:
    """The id git gives a file's bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).digest()  # noqa: S324 - git's own name for it


def git_tree(files: Iterable[tuple[list[str], bytes, bytes]]) -> bytes:
    """The id git gives a folder: SHA-1 over its sorted entries. `files`: (path's parts, mode, blob) each."""
    entries: dict[bytes, tuple[bytes, bytes]] = {}
    folders: dict[str, list[tuple[list[str], bytes, bytes]]] = {}
    for (name, *below), mode, blob in files:
        if below:
            folders.setdefault(name, []).append((below, mode, blob))
        else:
            entries[name.encode()] = (mode, blob)
    for name, inside in folders.items():
        entries[name.encode() + b"/"] = (b"40000", git_tree(inside))  # git sorts a folder as if its name ended in `/`
    content = b"".join(
        b"%b %b\0%b" % (entries[name][0], name.rstrip(b"/"), entries[name][1]) for name in sorted(entries)
    )
    return hashlib.sha1(b"tree %d\0" % len(content) + content).digest()  # noqa: S324 - git's own name for it


@dataclass(slots=True)
class Entry:
    """One entry of the log, whose JSON is in order."""

    index: int
    type: str
    at: str
    actor: str
    facts: dict[str, Any]
    leaf: bytes


@dataclass(slots=True)
class Version:
    """What the log says of one version."""

    index: int  # of the last entry about it
    registered: tuple[bytes, bytes, bytes, bytes]  # commit, tree, blob, sha256
    row: object  # its id in tool_versions; None without a row
    orphaned: bool = False  # now
    removed: bool = False  # ever

    def states(self) -> tuple[str, ...]:
        """The states it may have by what the log says; which of two versions is active follows from git alone."""
        return ("orphaned",) if self.orphaned else ("active", "superseded") + ("removed",) * self.removed


class Verification:
    """One pass over one copy. Steps only add to the findings; none of them keeps the next from its work."""

    def __init__(self, db: sqlite.Connection) -> None:
        self.db = db
        self.tree = Tree()
        self.next = 0  # the index expected next
        self.whole = True  # no gap so far, so the tree grows
        self.entries: Counter[str] = Counter()
        self.open_runs: dict[str, tuple[int, dict[str, Any]]] = {}  # where started, and what its row must say
        self.run_rows = 0
        self.versions: dict[tuple[str, int], Version] = {}
        self.commits: set[tuple[str, bytes]] = set()
        self.tokens: dict[str, tuple[int, dict[str, Any]]] = {}
        self.rejected: dict[tuple[str | None, bytes], list[tuple[int, dict[str, Any]]]] = {}
        self.total = 0
        self._findings: list[Finding] = []
        self._readers: dict[str, Callable[[Entry], None]] = {
            "run.started": self._run_started,
            "run.finished": self._run_finished,
            "run.refused": self._run_refused,
            "definition.registered": self._registered,
            "definition.rejected": self._rejected,
            "definition.removed": self._moved,
            "definition.orphaned": self._moved,
            "definition.restored": self._moved,
            "token.issued": self._issued,
            "token.revoked": self._revoked,
        }

    def find(self, index: int | None, what: str, where: str, found: object, expected: object) -> None:
        """Note one thing that is wrong. Memory stays bounded: only the first by index are kept."""
        self.total += 1
        place, said, wanted = shown(where), shown(found), shown(expected)
        zh, en = WORDS[what]
        zh, en = f"{zh}（{place}）：实为 {said}，应为 {wanted}。", f"{en} ({place}): found {said}, expected {wanted}."
        self._findings.append(Finding(index, what, said, wanted, place, zh, en))
        if len(self._findings) > 20 * MAX_FINDINGS:
            self._findings = self.first_findings()

    def first_findings(self) -> list[Finding]:
        """By index, then those that show at no entry; each in the order found."""
        return sorted(self._findings, key=lambda one: (one.index is None, one.index or 0))[:MAX_FINDINGS]

    def compare(
        self, index: int | None, table: str, key: object, row: Mapping[str, object], wanted: Mapping[str, object]
    ) -> None:
        """Each column that does not say what the log says is a finding of its own."""
        if wanted.items() <= row.items():  # the same question as below, asked at once
            return
        for name, expected in wanted.items():
            if row[name] != expected:
                self.find(index, "column-differs", f"{table}.{name} of {key}", row[name], expected)

    # 0. The file: plain tables only, sound, and indexed, so that reading it runs nothing and takes no surprising time.

    def schema(self) -> bool:
        """Whether every table that is read is a plain one; nothing is read through any other."""
        sql = "SELECT lower(name), lower(tbl_name), type, rootpage, sql FROM sqlite_schema"
        objects = self.db.execute(sql).fetchall()
        names = {name for name, *_ in objects}
        if "log_entries" not in names:
            raise VerifyError(
                "文件里没有笔筒的日志（log_entries）。", "The file holds no log of Bitong's (log_entries)."
            )
        tables = {name for name, _, *kind in objects if _is_plain(*kind)}
        for name, columns in TABLES.items():
            if name not in tables:
                self.find(None, "schema", name, "something else" if name in names else None, "a plain table")
                continue
            plain = {row[1] for row in self.db.execute(f"PRAGMA table_xinfo({name})") if row[6] == 0}
            for column in sorted(set(columns.split()) - plain):
                self.find(None, "schema", f"{name}.{column}", "none, or computed", "a plain column")
        for name, table, kind, *_ in objects:
            if kind == "trigger" and table in TABLES:
                self.find(None, "schema", table, f"trigger {name}", "no trigger")
        return not self.total

    def storage(self) -> None:
        """SQLite's own check of pages and indexes; then, whether our questions are answered from indexes."""
        for (message,) in self.db.execute("PRAGMA integrity_check(10)"):
            if message != "ok":
                self.find(None, "storage-damaged", "integrity_check", message, "ok")
        for sql in (FIND_RUN, FIND_PURGE, FIND_VERSION, FIND_BLOB, FIND_TILE):
            for *_, plan in self.db.execute("EXPLAIN QUERY PLAN " + sql, (None,) * sql.count("?")):
                if not plan.startswith("SEARCH"):
                    self.find(None, "schema", "index", plan, "SEARCH")

    # 1. The log.

    def log(self, progress: Callable[[int, int], None] | None) -> None:
        """Every entry in index order. A checkpoint of size n is to be compared where `tree.size` becomes n."""
        (last,) = self.db.execute("SELECT max(idx) FROM log_entries").fetchone()
        sql = "SELECT idx, type, at, actor, run, tool, leaf, entry FROM log_entries NOT INDEXED ORDER BY idx"
        for index, *columns, leaf, content in self.db.execute(sql):
            if index != self.next:
                self._gap(index)
            self.next = index + 1
            digest = sha256(b"\x00" + content) if type(content) is bytes else b""
            if digest != leaf:
                self.find(index, "leaf-differs", f"log_entries.leaf of {index}", leaf, digest)
            if self.whole:
                for level, position, root in self.tree.append(digest):
                    self._tile(level, position, root)
            self._entry(index, columns, content, digest)
            if progress is not None and (self.next % 10_000 == 0 or index == last):
                progress(self.next, last + 1)
        if not self.next:
            self.find(0, "index-missing", "log_entries", None, 0)

    def _gap(self, index: int) -> None:
        self.whole = False
        repeated = index < self.next
        what = "index-repeated" if repeated else "index-missing"
        self.find(index if repeated else self.next, what, "log_entries.idx", index, self.next)

    def _tile(self, level: int, position: int, root: bytes) -> None:
        row = self.db.execute(FIND_TILE, (level, position)).fetchone()
        if row != (root,):
            last = (position + 1) * TILE**level - 1  # of the leaves below: one that is itself wrong is named before
            self.find(last, "tile-differs", f"log_tiles.hash of {level}/{position}", row and row[0], root)

    def _entry(self, index: int, columns: Sequence[object], content: bytes, leaf: bytes) -> None:
        where = f"log_entries.entry of {index}"
        try:
            shape = read_entry(content)
        except (ValueError, RecursionError, AttributeError) as error:
            self.find(index, "entry-unreadable", where, error, "canonical JSON")
            return
        entry = Entry(index, shape["type"], shape["at"], shape["actor"], shape["facts"], leaf)
        facts = entry.facts
        said = [entry.type, entry.at, entry.actor, facts.get("run"), facts.get("tool"), shape["index"]]
        if said != [*columns, index]:
            names = ("type", "at", "actor", "run", "tool", "idx")
            row, wanted = (dict(zip(names, values, strict=True)) for values in ([*columns, index], said))
            self.compare(index, "log_entries", index, row, wanted)
        shape_of_facts = SHAPES.get(entry.type)
        if entry.type not in TYPES or (index == 0) != (entry.type == "log.opened"):
            self.find(index, "entry-type", where, entry.type, "log.opened" if index == 0 else "a known one")
        elif shape_of_facts is not None and not _fits(facts, shape_of_facts):
            self.find(index, "facts-shape", where, canonical(facts).decode(), FACTS[entry.type])
        else:
            self.entries[entry.type] += 1
            self._read(entry, where)

    def _read(self, entry: Entry, where: str) -> None:
        reader = self._readers.get(entry.type)
        if reader is None:
            return
        try:
            reader(entry)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            self.find(entry.index, "facts-shape", where, repr(error), "facts of the form the writer gives them")

    # 2. The runs.

    def _run_started(self, entry: Entry) -> None:
        facts = entry.facts
        name = f"version {facts['version']} of {facts['tool']}"
        version = self.versions.get((facts["tool"], facts["version"]))
        ran = _identity(facts)
        known = version.registered if version is not None else None
        if known != ran:
            self.find(entry.index, "version-differs", f"{name} in run {facts['run']}", _hexes(ran), _hexes(known))
        wanted = {
            "state": "started",
            "reason": None,
            "tool": facts["tool"],
            "version": facts["version"],
            "version_id": version.row if version is not None else None,
            "commit_id": ran[0],
            "actor": entry.actor,
            "node": facts["node"],
            "match_id": facts["match"],
            "confirmation_id": facts["confirmation"],
            "params_digest": unhex(facts["params_digest"]),
            "key_hash": unhex(facts["key_hash"]),
            "start_index": entry.index,
            "started_at": entry.at,
            "end_index": None,
            "end_leaf": None,
            "ended_at": None,
            "exit_code": None,
            "status": None,
        }
        self.open_runs[facts["run"]] = (entry.index, wanted)

    def _run_finished(self, entry: Entry) -> None:
        facts = entry.facts
        _, wanted = self.open_runs.pop(facts["run"], (None, None))
        if wanted is None:
            self.find(
                entry.index, "run-ends-unstarted", f"run {facts['run']}", "run.finished", "one run.started before"
            )
            return
        streams = {name: facts[name] for name in ("stdout", "stderr")}
        for name, said in streams.items():
            if said.keys() != STREAM:
                raise ValueError(name)
            wanted[f"{name}_bytes"], wanted[f"{name}_kept"] = number(said["bytes"]), number(said["kept"])
            wanted[f"{name}_sha256"] = unhex(said["sha256"])
        wanted |= {"state": facts["state"], "reason": facts["reason"], "exit_code": number(facts["exit_code"])}
        wanted |= {"status": number(facts["status"]), "duration_ms": number(facts["duration_ms"])}
        wanted |= {"end_index": entry.index, "end_leaf": entry.leaf, "ended_at": entry.at}
        self._run_row(entry.index, facts["run"], wanted, streams)

    def _run_refused(self, entry: Entry) -> None:
        facts = entry.facts
        wanted: dict[str, object] = {"state": "refused", "reason": facts["code"], "tool": facts["tool"]}
        wanted |= {"actor": entry.actor, "exit_code": None, "status": None, "start_index": None, "started_at": None}
        wanted |= {"end_index": entry.index, "end_leaf": entry.leaf, "ended_at": OneOf(None, entry.at)}
        for name in ("stdout", "stderr"):  # nothing ran
            wanted |= {f"{name}_bytes": 0, f"{name}_kept": 0, f"{name}_sha256": OneOf(None, sha256(b""))}
        row = self._run_row(entry.index, facts["run"], wanted, {})
        problems = bytes.fromhex(facts["problems_digest"])
        if row is not None and hash_of(row["problems"]) != problems:
            self.find(
                entry.index, "bytes-differ", f"runs.problems of {facts['run']}", hash_of(row["problems"]), problems
            )

    def _run_row(
        self, index: int, run: str, wanted: dict[str, Any], streams: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        found = self.db.execute(FIND_RUN, (run,)).fetchone()
        if found is None:
            self.find(index, "row-missing", f"runs.id of {run}", None, run)
            return None
        self.run_rows += 1
        salt, masked, out, err, *values = found
        row = dict(zip(RUN, values, strict=True))
        self.compare(index, "runs", run, row, wanted)
        self._parameters(index, run, row["params_digest"], salt, masked, refused=wanted["state"] == "refused")
        for stream, kept in (("stdout", out), ("stderr", err)):
            if kept is not None or stream in streams:
                self._output(index, run, stream, streams.get(stream), kept)
        return row

    def _parameters(self, index: int, run: str, digest: object, salt: object, masked: object, *, refused: bool) -> None:
        where = f"run_parameters of {run}"
        if salt is None and masked is None:
            if not refused and not self._purged(run):
                self.find(index, "row-missing", where, None, digest)
            return
        bound = sha256(salt + masked) if isinstance(salt, bytes) and isinstance(masked, bytes) else None
        if bound != digest:
            self.find(index, "bytes-differ", where, bound, digest)

    def _output(self, index: int, run: str, stream: str, said: Mapping[str, Any] | None, kept: object) -> None:
        where = f"run_output.kept of {run} {stream}"
        size = said["kept"] if said is not None else 0
        if kept is None:
            if size and not self._purged(run):
                self.find(index, "row-missing", where, None, f"{size} bytes")
        elif not isinstance(kept, bytes) or len(kept) != size:
            found = f"{len(kept)} bytes" if isinstance(kept, bytes) else "no bytes"
            self.find(index, "bytes-differ", where, found, f"{size} bytes")
        elif said is not None and (size or said["kept_sha256"]) and sha256(kept) != unhex(said["kept_sha256"]):
            self.find(index, "bytes-differ", where, sha256(kept), said["kept_sha256"])

    def _purged(self, run: str) -> bool:
        """Whether an `output.purged` entry names the run; its columns are compared with its leaf like all others."""
        return self.db.execute(FIND_PURGE, (run,)).fetchone() is not None

    def runs(self) -> None:
        """What only the whole log can say: runs begun twice, those still open, rows that no entry tells of."""
        sql = """SELECT run, idx FROM (SELECT run, idx, row_number() OVER (PARTITION BY run ORDER BY idx) AS nth
                 FROM log_entries NOT INDEXED WHERE type IN ('run.started', 'run.refused')) WHERE nth = 2 LIMIT 100"""
        for run, index in self.db.execute(sql):
            self.find(index, "run-begins-twice", f"run {run}", "a second beginning", "one")
        sql_end = "SELECT end_index FROM runs WHERE id = ? AND end_index NOT IN (SELECT idx FROM log_entries)"
        for run, (index, wanted) in self.open_runs.items():
            end = self.db.execute(sql_end, (run,)).fetchone()  # of an end that is missing, it shows there
            self._run_row(end[0] if end else index, run, wanted, {})
        (rows,) = self.db.execute("SELECT count(*) FROM runs NOT INDEXED").fetchone()
        if rows != self.run_rows:
            self._unlogged_runs()
        sql = """SELECT 'run_parameters', run_seq FROM run_parameters WHERE run_seq NOT IN (SELECT seq FROM runs)
                 UNION ALL SELECT 'run_output', run_seq FROM run_output
                 WHERE run_seq NOT IN (SELECT seq FROM runs) OR stream NOT IN ('stdout', 'stderr') LIMIT 100"""
        for table, sequence in self.db.execute(sql):
            self.find(None, "row-unlogged", f"{table}.run_seq of {sequence}", sequence, "a run's seq, stdout or stderr")

    def _unlogged_runs(self) -> None:
        sql = """SELECT id, state, start_index, end_index FROM runs r WHERE NOT EXISTS
                 (SELECT 1 FROM log_entries l WHERE l.run = r.id AND l.type IN ('run.started', 'run.refused'))"""
        for run, state, start, end in self.db.execute(sql):
            if state not in WAITING or start is not None or end is not None:
                self.find(None, "row-unlogged", f"runs.id of {run}", state, "run.started or run.refused")

    def tail(self) -> None:
        """Rows that point past the log's end say that it was longer once."""
        size = self.tree.size
        for level, position in self.db.execute("SELECT level, idx FROM log_tiles") if self.whole else ():
            if type(level) is not int or type(position) is not int or not 1 <= level <= 7 or position < 0:
                self.find(None, "row-unlogged", f"log_tiles of {level}/{position}", level, "1 to 7")
            elif (position + 1) * TILE**level > size:
                expected = f"{(position + 1) * TILE**level} entries"
                self.find(size, "log-cut", f"log_tiles of {level}/{position}", f"{size} entries", expected)
        sql = """SELECT id, max(ifnull(start_index, 0), ifnull(end_index, 0)) AS last FROM runs NOT INDEXED
                 WHERE last >= ? ORDER BY last LIMIT 1"""
        for run, index in self.db.execute(sql, (self.next,)):
            self.find(
                self.next, "log-cut", f"runs.start_index/end_index of {run}", f"{self.next} entries", f"entry {index}"
            )

    # 3. Versions, tokens, rejections.

    def _registered(self, entry: Entry) -> None:
        facts = entry.facts
        key = (facts["tool"], facts["version"])
        name = f"{key[0]} {key[1]}"
        commit, tree, blob, digest = identity = _identity(facts)
        if key in self.versions or (key[0], commit) in self.commits:
            self.find(entry.index, "definition-twice", f"version {name}", commit, "one version for each commit")
        self.commits.add((key[0], commit))
        row = self.db.execute(FIND_VERSION, key).fetchone()
        self.versions[key] = Version(entry.index, identity, row and row[0])
        if row is None:
            self.find(entry.index, "row-missing", f"tool_versions of {name}", None, name)
        else:
            columns = ("id", "commit_id", "tree", "blob", "sha256", "definition", "registered_at", "pusher")
            values = dict(zip(columns, row, strict=True))
            parsed = parse(values["definition"])
            values["definition"] = parsed.get("author") if isinstance(parsed, dict) else None
            wanted = {"commit_id": commit, "tree": tree, "blob": blob, "sha256": digest}
            wanted |= {"definition": facts["author"], "registered_at": entry.at}
            wanted |= {} if facts["pusher"] is None else {"pusher": facts["pusher"]}  # may become known later
            self.compare(entry.index, "tool_versions", name, values, wanted)
        content = self.db.execute(FIND_BLOB, (blob,)).fetchone()
        if content is None:
            self.find(entry.index, "row-missing", f"blobs of {name}", None, blob)
        elif hash_of(content[0]) != digest:
            self.find(entry.index, "bytes-differ", f"blobs.content of {name}", hash_of(content[0]), digest)

    def _moved(self, entry: Entry) -> None:
        version = self.versions.get((entry.facts["tool"], entry.facts["version"]))
        if version is not None:
            version.index = entry.index
            version.removed |= entry.type == "definition.removed"
            if entry.type != "definition.removed":
                version.orphaned = entry.type == "definition.orphaned"

    def _rejected(self, entry: Entry) -> None:
        facts = entry.facts
        wanted: dict[str, object] = {"problems": sha256(canonical(facts["problems"]))}
        wanted |= {} if facts["pusher"] is None else {"pusher": facts["pusher"]}
        self.rejected.setdefault((facts["tool"], bytes.fromhex(facts["commit"])), []).append((entry.index, wanted))

    def _issued(self, entry: Entry) -> None:
        facts = entry.facts
        wanted = {"name": facts["name"], "scopes": facts["scopes"], "tools": facts["tools"]}
        wanted |= {
            "created_at": entry.at,
            "created_by": entry.actor,
            "expires_at": facts["expires"],
            "revoked_at": None,
        }
        self.tokens[facts["token"]] = (entry.index, wanted)

    def _revoked(self, entry: Entry) -> None:
        _, wanted = self.tokens.get(entry.facts["token"], (None, None))
        if wanted is not None and wanted["revoked_at"] is None:
            self.tokens[entry.facts["token"]] = (entry.index, {**wanted, "revoked_at": entry.at})

    def definitions(self) -> None:
        """Versions' rows and states, and the files that run: each file by its blob's id, each folder by its tree's."""
        for tool, number_, state in self.db.execute("SELECT tool, number, state FROM tool_versions NOT INDEXED"):
            version = self.versions.get((tool, number_))
            if version is None:
                self.find(None, "row-unlogged", f"tool_versions of {tool} {number_}", state, "definition.registered")
            else:
                wanted = {"state": OneOf(*version.states())}
                self.compare(version.index, "tool_versions", f"{tool} {number_}", {"state": state}, wanted)
        for identity, content in self.db.execute("SELECT id, content FROM blobs NOT INDEXED"):
            found = git_blob(content) if isinstance(content, bytes) else None
            if found != identity:
                self.find(None, "bytes-differ", f"blobs.content of {shown(identity)}", found, identity)
        self._folders()

    def _folders(self) -> None:
        wanted = {(key[0].encode(), one.registered[1]): one for key, one in self.versions.items()}
        for folder, tree, files, *row in self.db.execute("SELECT folder, tree, files, blob, sha256 FROM folder_trees"):
            version = wanted.pop((folder, tree), None)
            if version is not None:
                name = f"{shown(folder.decode())} {tree.hex()}"
                said = dict(zip(("blob", "sha256"), version.registered[2:], strict=True))
                self.compare(version.index, "folder_trees", name, dict(zip(said, row, strict=True)), said)
                self._folder(version.index, name, tree, files)
        for (folder, tree), version in wanted.items():
            self.find(
                version.index, "row-missing", f"folder_trees of {shown(folder.decode())} {tree.hex()}", None, tree
            )

    def _folder(self, index: int, name: str, tree: bytes, files: str) -> None:
        """The files that are laid out for a run make up the tree that the log names."""
        where = f"folder_trees.files of {name}"
        try:
            listed = [(path, runs, bytes.fromhex(blob), size) for path, runs, blob, size in json.loads(files)]
            found = git_tree(
                (path.split("/"), b"100755" if runs else b"100644", blob) for path, runs, blob, _ in listed
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            self.find(index, "bytes-differ", where, repr(error), "a list of [path, executable, blob, size]")
            return
        if found != tree:
            self.find(index, "bytes-differ", where, found, tree)
        for path, _, blob, size in listed:
            content = self.db.execute(FIND_BLOB, (blob,)).fetchone()
            if content is None:
                self.find(index, "row-missing", f"blobs of {name} {path}", None, blob)
            elif isinstance(content[0], bytes) and len(content[0]) != size:
                self.find(index, "bytes-differ", where, size, f"{len(content[0])} bytes of {path}")

    def rights(self) -> None:
        """Each token may what its entry says, and is revoked when an entry says so."""
        columns = TABLES["tokens"].split()
        sql = "SELECT id, name, scopes, tools, created_at, created_by, expires_at, revoked_at FROM tokens NOT INDEXED"
        for values in self.db.execute(sql):
            row = dict(zip(columns, values, strict=True))
            row |= {"scopes": parse(row["scopes"]), "tools": parse(row["tools"])}
            index, wanted = self.tokens.get(row["id"], (None, None))
            if wanted is None:
                self.find(None, "row-unlogged", f"tokens.id of {row['id']}", row["name"], "token.issued")
            else:
                self.compare(index, "tokens", row["id"], row, wanted)

    def rejections(self) -> None:
        """Each rejected definition's row says what its entry says."""
        sql = "SELECT id, tool, commit_id, pusher, problems FROM rejections NOT INDEXED WHERE kind = 'definition'"
        for key, tool, commit, pusher, problems in self.db.execute(sql):
            row = {"pusher": pusher, "problems": sha256(canonical(parse(problems)))}
            known = self.rejected.get((tool, commit), [])
            if not known:
                self.find(None, "row-unlogged", f"rejections of {key}", commit, "definition.rejected")
            elif not any(
                wanted.items() <= row.items() for _, wanted in known
            ):  # a name collision has an entry of its own
                self.compare(known[0][0], "rejections", key, row, known[0][1])


def _is_plain(kind: str, rootpage: int, sql: str) -> bool:
    return kind == "table" and rootpage > 0 and re.match(r"CREATE TABLE\b", str(sql), re.IGNORECASE) is not None


def _fits(facts: Mapping[str, Any], shape: Mapping[str, tuple[type, ...]]) -> bool:
    return list(facts) == list(shape) and all(map(contains, shape.values(), map(type, facts.values())))


def _identity(facts: Mapping[str, str]) -> tuple[bytes, bytes, bytes, bytes]:
    commit, tree, blob, digest = (bytes.fromhex(facts[name]) for name in ("commit", "tree", "blob", "sha256"))
    return commit, tree, blob, digest


def _hexes(identity: Iterable[bytes] | None) -> str | None:
    return None if identity is None else "/".join(one.hex() for one in identity)


def _open(path: str | os.PathLike[str]) -> sqlite.Connection:
    """Read-only, and closed to what a hostile schema may try (SQLite's "Defense Against The Dark Arts")."""
    if not Path(path).is_file():
        raise VerifyError(f"没有这个文件：{shown(path)}。", f"There is no such file: {shown(path)}.")
    db = sqlite.connect(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=0", uri=True, isolation_level=None)
    db.text_factory = methodcaller("decode", "utf-8", "surrogateescape")  # text that is no UTF-8 must differ, not fail
    for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0", "automatic_index=OFF"):
        db.execute(f"PRAGMA {pragma}")
    db.execute("BEGIN")  # one consistent view, also of a database in use
    return db


def verify_database(path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None) -> Report:
    """Check all that follows from the log in this copy; `progress` is told (entries done, entries in all).

    Raises VerifyError for what is no database of Bitong's. What is damaged or hostile is reported on, as far as it reads.
    """
    begun = time.perf_counter()
    db = None
    try:
        db = _open(path)
        check = Verification(db)
        plain = check.schema()
        if plain:
            _take_steps(check, progress)
        return _report(check, time.perf_counter() - begun, plain=plain)
    except (sqlite.Error, OSError) as error:
        raise VerifyError(f"不是能读的数据库：{shown(error)}。", f"Not a readable database: {shown(error)}.") from error
    finally:
        if db is not None:
            db.close()


def _take_steps(check: Verification, progress: Callable[[int, int], None] | None) -> None:
    def log() -> None:
        check.log(progress)

    for step in (check.storage, log, check.tail, check.runs, check.definitions, check.rights, check.rejections):
        try:
            step()
        except sqlite.Error as error:
            check.find(check.next if step is log else None, "storage-unreadable", step.__name__, error, "rows")


def _report(check: Verification, seconds: float, *, plain: bool) -> Report:
    notes = [("没有核对检查点的签名。", "No checkpoint's signature was checked.")]
    if not plain:
        notes.append(("结构不可信，没有往下读。", "The schema is not to be trusted, so nothing was read through it."))
    if not check.whole:
        notes.append(("缺口之后的树没有重算。", "Beyond the gap the tree was not recomputed."))
    if check.total > MAX_FINDINGS:
        notes.append((f"共 {check.total} 处不符，只列最前的。", f"{check.total} findings; only the first are listed."))
    findings, entries = tuple(check.first_findings()), dict(sorted(check.entries.items()))
    root = check.tree.root().hex()
    return Report(check.tree.size, root, tuple(check.open_runs), entries, findings, seconds, tuple(notes))


def lines(report: Report) -> list[str]:
    """The report for people, in Chinese and English."""
    count = len(report.findings)
    text = [
        f"{count} 处不符 / {count} findings" if count else "相符 / verifies",
        f"记录 / entries: {report.size}   根 / root: {report.root}   用时 / took: {report.seconds:.1f} s",
        *(f"未结束的运行 / open run: {shown(run)}" for run in report.open_runs[:MAX_FINDINGS]),
        *(f"注意 / note: {zh} {en}" for zh, en in report.notes),
    ]
    for one in report.findings:
        text += [f"[{'-' if one.index is None else one.index}] {one.what}: {one.zh}", f"    {one.en}"]
    return text


def main(arguments: Sequence[str]) -> int:
    """`python -m service.verify FILE`: exit 0 when it verifies, 1 when not or not readable, 2 when used wrongly."""
    if len(arguments) != 1:
        sys.stderr.write("用法 / usage: python -m service.verify FILE\n")
        return 2
    try:
        report = verify_database(arguments[0])
    except VerifyError as error:
        sys.stderr.write(f"{error.zh}\n{error.en}\n")
        return 1
    sys.stdout.write("\n".join(lines(report)) + "\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
