"""What was seen in git, kept so that neither mirror nor forge is needed again: commits, changes, folders, files."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, select, update
from sqlalchemy.dialects.sqlite import insert

from service.domain.definitions import Problem, Reading
from service.domain.executors import ToolFile
from service.domain.history import FolderChange, FolderFile, SeenBlob, SeenCommit, SeenFolder, Signature
from service.domain.tools import Standing
from service.store.database import Database, compiled
from service.store.tables import blobs, commits, folder_changes, folder_trees, rejections, tip_folders

_FEW: Final = 64  # commits looked up one by one before the whole graph is read at once


# Built once: to build a statement costs more than to run one of these.
_IN_FOLDER: Final = (folder_trees.c.folder == bindparam("name"), folder_trees.c.tree == bindparam("at"))
_FOLDER: Final = select(folder_trees).where(*_IN_FOLDER)
_FILES: Final = compiled(select(folder_trees.c.files).where(*_IN_FOLDER))
_BLOB: Final = compiled(select(blobs.c.content).where(blobs.c.id == bindparam("blob")))
_PARENTS: Final = select(commits.c.parents).where(commits.c.id == bindparam("commit"))
_PUBLISHED: Final = select(commits.c.published).where(commits.c.id == bindparam("commit"))
_PUBLISH: Final = update(commits).where(commits.c.id == bindparam("commit")).values(published=True)
_CHANGES: Final = select(folder_changes).where(folder_changes.c.commit_id == bindparam("commit"))


def stage(connection: Connection, seen: Sequence[SeenCommit | SeenFolder | SeenBlob]) -> None:
    """Keep facts from git, unpublished. Immutable and idempotent: what is there stays."""
    rows: dict[Any, list[dict[str, Any]]] = {}
    for item in seen:
        if isinstance(item, SeenBlob):
            rows.setdefault(blobs, []).append({"id": bytes.fromhex(item.id), "content": item.content})
        elif isinstance(item, SeenFolder):
            rows.setdefault(folder_trees, []).append(_folder_row(item))
        else:
            rows.setdefault(commits, []).append(_commit_row(item))
            rows.setdefault(folder_changes, []).extend(_change_rows(item))
    for table, values in rows.items():
        if values:
            connection.execute(insert(table).on_conflict_do_nothing(), values)


def publish(connection: Connection, ids: Sequence[str]) -> None:
    """Mark commits as those whose versions are registered. What a look that failed had staged is not among them."""
    if ids:
        connection.execute(_PUBLISH, [{"commit": bytes.fromhex(commit_id)} for commit_id in ids])


def known_commits(connection: Connection) -> list[str]:
    """The ids of all published commits."""
    found = connection.execute(select(commits.c.id).where(commits.c.published.is_(True))).scalars()
    return [item.hex() for item in found]


def is_published(connection: Connection, commit_id: str) -> bool:
    """Whether this commit's versions are registered already."""
    return bool(connection.execute(_PUBLISHED, {"commit": bytes.fromhex(commit_id)}).scalar())


def commit(connection: Connection, commit_id: str) -> SeenCommit | None:
    """One commit as it was seen, with its changes; None when it never was."""
    row = connection.execute(select(commits).where(commits.c.id == bytes.fromhex(commit_id))).mappings().first()
    if row is None:
        return None
    changes = tuple(_changes(connection, commit_id).values())
    return SeenCommit(
        commit_id,
        _split(row["parents"]),
        _signature(row["author"], row["authored_at"]),
        _signature(row["committer"], row["committed_at"]),
        row["message"],
        changes,
        _problems(row["problems"]),
    )


def folder(connection: Connection, name: bytes, tree: str) -> SeenFolder | None:
    """What a folder's tree holds; None when it was never seen."""
    row = connection.execute(_FOLDER, {"name": name, "at": bytes.fromhex(tree)}).mappings().first()
    if row is None:
        return None
    return SeenFolder(
        folder=name,
        tree=tree,
        reading=None if row["reading"] is None else Reading.from_json(json.loads(row["reading"])),
        problems=_problems(row["problems"]),
        files=tuple(FolderFile(*item) for item in json.loads(row["files"])),
        blob=row["blob"].hex() if row["blob"] else None,
        sha256=row["sha256"].hex() if row["sha256"] else None,
    )


def blob(database: Database, blob_id: str) -> bytes | None:
    """The bytes of one stored file."""
    rows = database.fetch(_BLOB, {"blob": bytes.fromhex(blob_id)})
    return bytes(rows[0][0]) if rows else None


def rejected_file(connection: Connection, tool: str, commit_id: str) -> bytes | None:
    """TOOL.hdlp of a definition that a commit brought and that was rejected; None where there is none."""
    change = and_(folder_changes.c.commit_id == rejections.c.commit_id, folder_changes.c.folder == rejections.c.folder)
    tree = and_(folder_trees.c.folder == folder_changes.c.folder, folder_trees.c.tree == folder_changes.c.tree)
    found = (
        select(blobs.c.content)
        .select_from(rejections)
        .join(folder_changes, change)
        .join(folder_trees, tree)
        .join(blobs, blobs.c.id == folder_trees.c.blob)
        .where(rejections.c.tool == tool, rejections.c.commit_id == bytes.fromhex(commit_id))
    )
    content = connection.execute(found.limit(1)).scalar()
    return None if content is None else bytes(content)


def files(database: Database, name: bytes, tree: str) -> list[ToolFile]:
    """The files of a folder as registered, each hashed again. Raises FilesChanged where the store has others (X40)."""
    found = database.fetch(_FILES, {"name": name, "at": bytes.fromhex(tree)})
    if not found:
        raise FilesAbsent(tree)
    result = []
    for path, executable, blob_id, _size in json.loads(found[0][0]):
        rows = database.fetch(_BLOB, {"blob": bytes.fromhex(blob_id)})
        if not rows or git_blob_id(rows[0][0]) != blob_id:
            raise FilesChanged(path)
        result.append(ToolFile(path, executable, rows[0][0]))
    return result


class FilesChanged(LookupError):
    """A stored file is not what the commit holds any more."""


class FilesAbsent(FilesChanged):
    """The folder is not there at all: registered a moment ago and not yet committed, or lost."""


def git_blob_id(content: bytes) -> str:
    """The id git gives these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def tip_standings(connection: Connection) -> dict[bytes, Standing]:
    """Where each folder that ever was stands at the last published tip."""
    rows = connection.execute(select(tip_folders)).mappings()
    return {
        row["folder"]: Standing(row["tree"].hex() if row["tree"] is not None else None, row["made_by"].hex())
        for row in rows
    }


def replace_tip_standings(connection: Connection, old: Mapping[bytes, Standing], new: Mapping[bytes, Standing]) -> None:
    """Write what differs between two sets of standings."""
    gone = [{"f": name} for name in old if name not in new]
    if gone:
        connection.execute(tip_folders.delete().where(tip_folders.c.folder == bindparam("f")), gone)
    changed = [
        {
            "folder": name,
            "tree": bytes.fromhex(standing.tree) if standing.tree is not None else None,
            "made_by": bytes.fromhex(standing.made_by),
        }
        for name, standing in new.items()
        if old.get(name) != standing
    ]
    if changed:
        statement = insert(tip_folders)
        statement = statement.on_conflict_do_update(
            index_elements=["folder"], set_={"tree": statement.excluded.tree, "made_by": statement.excluded.made_by}
        )
        connection.execute(statement, changed)


class StoredGraph:
    """The commit graph (domain/tools.Graph): those just seen from memory, older ones from the database as needed."""

    def __init__(self, connection: Connection, seen: Iterable[SeenCommit] = ()) -> None:
        self._connection = connection
        self._parents: dict[str, tuple[str, ...]] = {}
        self._changes: dict[str, dict[bytes, FolderChange]] = {}
        self._asked = 0
        self._whole = False
        for item in seen:
            self._parents[item.id] = item.parents
            self._changes[item.id] = {change.folder: change for change in item.changes}

    def parents(self, commit_id: str) -> Sequence[str]:
        """See domain/tools.Graph. Raises KeyError for a commit never seen."""
        if commit_id not in self._parents:
            self._look_up(commit_id)
        return self._parents[commit_id]

    def changes(self, commit_id: str) -> Mapping[bytes, FolderChange]:
        """See domain/tools.Graph."""
        if commit_id not in self._changes:
            if self._whole:
                return {}
            self._changes[commit_id] = _changes(self._connection, commit_id)
        return self._changes[commit_id]

    def knows(self, commit_id: str) -> bool:
        """Whether the commit was ever seen."""
        try:
            self.parents(commit_id)
        except KeyError:
            return False
        return True

    def _look_up(self, commit_id: str) -> None:
        self._asked += 1
        if self._asked > _FEW and not self._whole:
            self._read_all()
            return
        row = self._connection.execute(_PARENTS, {"commit": bytes.fromhex(commit_id)}).scalar()
        if row is not None:
            self._parents[commit_id] = _split(row)

    def _read_all(self) -> None:
        self._whole = True
        for row in self._connection.execute(select(commits.c.id, commits.c.parents)):
            self._parents.setdefault(row.id.hex(), _split(row.parents))
        rows = self._connection.execute(select(folder_changes))
        for row in rows:
            name = row.commit_id.hex()
            self._changes.setdefault(name, {}).setdefault(row.folder, _change(row))


def _changes(connection: Connection, commit_id: str) -> dict[bytes, FolderChange]:
    rows = connection.execute(_CHANGES, {"commit": bytes.fromhex(commit_id)})
    return {row.folder: _change(row) for row in rows}


def _change(row: Any) -> FolderChange:
    return FolderChange(row.folder, row.tree.hex() if row.tree is not None else None, row.source)


def _folder_row(item: SeenFolder) -> dict[str, Any]:
    return {
        "folder": item.folder,
        "tree": bytes.fromhex(item.tree),
        "reading": None if item.reading is None else _dump(item.reading.as_json()),
        "problems": _dump([problem.as_json() for problem in item.problems]),
        "files": _dump([[file.path, file.executable, file.blob, file.size] for file in item.files]),
        "blob": bytes.fromhex(item.blob) if item.blob else None,
        "sha256": bytes.fromhex(item.sha256) if item.sha256 else None,
    }


def _commit_row(item: SeenCommit) -> dict[str, Any]:
    return {
        "id": bytes.fromhex(item.id),
        "parents": bytes.fromhex("".join(item.parents)),
        "author": item.author.text(),
        "authored_at": item.author.at,
        "committer": item.committer.text(),
        "committed_at": item.committer.at,
        "message": item.message,
        "problems": _dump([problem.as_json() for problem in item.problems]) if item.problems else None,
        "published": False,
    }


def _change_rows(item: SeenCommit) -> list[dict[str, Any]]:
    return [
        {
            "commit_id": bytes.fromhex(item.id),
            "folder": change.folder,
            "tree": bytes.fromhex(change.tree) if change.tree is not None else None,
            "source": change.source,
        }
        for change in item.changes
    ]


def _signature(text: str, at: str | None) -> Signature:
    return Signature(text, "", at)


def _split(parents: bytes) -> tuple[str, ...]:
    text = parents.hex()
    return tuple(text[start : start + 40] for start in range(0, len(text), 40))


def _problems(text: str | None) -> tuple[Problem, ...]:
    return () if not text else tuple(Problem.from_json(item) for item in json.loads(text))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
