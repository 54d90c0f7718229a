"""Definitions: versions and their files down to the bytes, and what was rejected."""

import json
from dataclasses import dataclass
from typing import Any

import pysqlite3.dbapi2 as sqlite

from service.verify.database import FIND_BLOB, FIND_VERSION
from service.verify.findings import Findings, OneOf, shown
from service.verify.forms import Entry, canonical, git_blob, git_tree, hash_of, identity, parse
from service.verify.tree import sha256


@dataclass(slots=True)
class Version:
    """What the log says of one version."""

    index: int  # of the last entry about it
    registered: tuple[bytes, bytes, bytes, bytes]  # commit, tree, blob, sha256
    row: object  # its id in tool_versions; None without a row
    method: str | None = None  # executor and method, as its row says: runs are compared with it
    orphaned: bool = False  # now
    removed: bool = False  # ever

    def states(self) -> tuple[str, ...]:
        """The states it may have by what the log says; which of two versions is active follows from git alone."""
        return ("orphaned",) if self.orphaned else ("active", "superseded") + ("removed",) * self.removed


class Definitions:
    """What the entries said of definitions, held against the rows. In memory: one record a version or rejection."""

    def __init__(self, db: sqlite.Connection, findings: Findings) -> None:
        self.db = db
        self.findings = findings
        self.versions: dict[tuple[str, int], Version] = {}
        self.commits: set[tuple[str, bytes]] = set()
        self.rejected: dict[tuple[str | None, bytes], list[tuple[int, dict[str, Any]]]] = {}
        self.readers = {
            "definition.registered": self._registered,
            "definition.rejected": self._rejected,
            "definition.removed": self._moved,
            "definition.orphaned": self._moved,
            "definition.restored": self._moved,
        }

    def _registered(self, entry: Entry) -> None:
        facts = entry.facts
        key = (facts["tool"], facts["version"])
        name = f"{key[0]} {key[1]}"
        commit, tree, blob, digest = registered = identity(facts)
        if key in self.versions or (key[0], commit) in self.commits:
            self.findings.find(entry.index, "definition-twice", f"version {name}", commit, "one version a commit")
        self.commits.add((key[0], commit))
        row = self.db.execute(FIND_VERSION, key).fetchone()
        self.versions[key] = Version(entry.index, registered, row and row[0])
        if row is None:
            self.findings.find(entry.index, "row-missing", f"tool_versions of {name}", None, name)
        else:
            columns = ("id", "commit_id", "tree", "blob", "sha256", "definition", "registered_at", "pusher")
            values = dict(zip(columns, row, strict=True))
            parsed = parse(values["definition"])
            shape = parsed if isinstance(parsed, dict) else {}
            values["definition"] = shape.get("author")
            self.versions[key].method = f"{shape.get('executor')}:{shape.get('method')}"
            wanted: dict[str, object] = {"commit_id": commit, "tree": tree, "blob": blob, "sha256": digest}
            wanted |= {"definition": facts["author"], "registered_at": entry.at}
            wanted |= {} if facts["pusher"] is None else {"pusher": facts["pusher"]}  # may become known later
            self.findings.compare(entry.index, "tool_versions", name, values, wanted)
        content = self.db.execute(FIND_BLOB, (blob,)).fetchone()
        if content is None:
            self.findings.find(entry.index, "row-missing", f"blobs of {name}", None, blob)
        elif hash_of(content[0]) != digest:
            self.findings.find(entry.index, "bytes-differ", f"blobs.content of {name}", hash_of(content[0]), digest)

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

    def check(self) -> None:
        """Versions' rows and states, and the files that run: each file by its blob's id, each folder by its tree's."""
        for tool, given, state in self.db.execute("SELECT tool, number, state FROM tool_versions NOT INDEXED"):
            version = self.versions.get((tool, given))
            if version is None:
                where = f"tool_versions of {tool} {given}"
                self.findings.find(None, "row-unlogged", where, state, "definition.registered")
            else:
                wanted = {"state": OneOf(*version.states())}
                self.findings.compare(version.index, "tool_versions", f"{tool} {given}", {"state": state}, wanted)
        for key, content in self.db.execute("SELECT id, content FROM blobs NOT INDEXED"):
            found = git_blob(content) if isinstance(content, bytes) else None
            if found != key:
                self.findings.find(None, "bytes-differ", f"blobs.content of {shown(key)}", found, key)
        self._tools()
        self._folders()

    def _tools(self) -> None:
        """What a name runs is its own one active version: which, follows from git; that both tables agree, can be said."""
        sql = """SELECT t.name, t.state, t.version_id, v.tool, v.state FROM tools t NOT INDEXED
                 LEFT JOIN tool_versions v ON v.id = t.version_id"""
        active: dict[str, object] = {}
        for name, state, row, tool, version_state in self.db.execute(sql):
            if row is not None and tool != name:
                self.findings.find(None, "column-differs", f"tools.version_id of {name}", tool, name)
            if state == "active":
                active[name] = row
                self.findings.compare(None, "tools", name, {"state": state}, {"state": version_state})
        for tool, number, row in self.db.execute("SELECT tool, number, id FROM tool_versions WHERE state = 'active'"):
            if active.get(tool) != row:
                where = f"tools.version_id of {tool}, whose version {number} is active"
                self.findings.find(None, "column-differs", where, active.get(tool), row)

    def _folders(self) -> None:
        wanted = {(key[0].encode(), one.registered[1]): one for key, one in self.versions.items()}
        for folder, tree, files, *row in self.db.execute("SELECT folder, tree, files, blob, sha256 FROM folder_trees"):
            version = wanted.pop((folder, tree), None)
            if version is not None:
                name = f"{shown(folder.decode())} {tree.hex()}"
                said = dict(zip(("blob", "sha256"), version.registered[2:], strict=True))
                self.findings.compare(version.index, "folder_trees", name, dict(zip(said, row, strict=True)), said)
                self._folder(version.index, name, tree, files)
        for (folder, tree), version in wanted.items():
            where = f"folder_trees of {shown(folder.decode())} {tree.hex()}"
            self.findings.find(version.index, "row-missing", where, None, tree)

    def _folder(self, index: int, name: str, tree: bytes, files: str) -> None:
        """The files that are laid out for a run make up the tree that the log names."""
        where = f"folder_trees.files of {name}"
        try:
            listed = [(path, runs, bytes.fromhex(blob), size) for path, runs, blob, size in json.loads(files)]
            if any(blob.hex() not in files for _, _, blob, _ in listed):
                raise ValueError("an id in other letters")
            found = git_tree(
                (path.split("/"), b"100755" if runs else b"100644", blob) for path, runs, blob, _ in listed
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            self.findings.find(index, "bytes-differ", where, repr(error), "a list of [path, executable, blob, size]")
            return
        if found != tree:
            self.findings.find(index, "bytes-differ", where, found, tree)
        for path, _, blob, size in listed:
            content = self.db.execute(FIND_BLOB, (blob,)).fetchone()
            if content is None:
                self.findings.find(index, "row-missing", f"blobs of {name} {path}", None, blob)
            elif isinstance(content[0], bytes) and len(content[0]) != size:
                self.findings.find(index, "bytes-differ", where, size, f"{len(content[0])} bytes of {path}")

    def rejections(self) -> None:
        """Each rejected definition's row says what one of its entries says."""
        sql = "SELECT id, tool, commit_id, pusher, problems FROM rejections NOT INDEXED WHERE kind = 'definition'"
        for key, tool, commit, pusher, problems in self.db.execute(sql):
            row = {"pusher": pusher, "problems": sha256(canonical(parse(problems)))}
            known = self.rejected.get((tool, commit), [])
            if not known:
                self.findings.find(None, "row-unlogged", f"rejections of {key}", commit, "definition.rejected")
            elif all(row != {**row, **wanted} for _, wanted in known):  # a name collision has an entry of its own
                self.findings.compare(known[0][0], "rejections", key, row, known[0][1])
