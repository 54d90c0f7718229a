"""What new commits made: a ToolVersion or a Rejection for each folder that changed (contract/registration.md, What counts)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from service.domain.audit import SYSTEM, Fact
from service.domain.definitions import FILE_NAME, Definition, Problem
from service.domain.deliveries import Delivery
from service.domain.history import SeenCommit, SeenFolder, changed
from service.domain.tools import ToolVersion
from service.intake.definitions.operations import OPEN_PREFIX
from service.intake.definitions.settling import is_open, settle
from service.store import history, tools
from service.store.database import Reader, Transaction
from service.store.history import StoredGraph

_FOLDERS_KEPT: Final = 4096


class Rejected(NamedTuple):
    """A row for `rejections`, and the folder it is about."""

    row: dict[str, Any]
    folder: SeenFolder


@dataclass(frozen=True, slots=True)
class Registered:
    """What came of the new commits, in the order of registration. `again`: and of older ones that were rejected before."""

    versions: Sequence[ToolVersion]
    rejected: Sequence[Rejected]
    again: bool = False


class _Event(NamedTuple):
    """A folder that a commit changed; `problems`: as JSON, where it was rejected for them before."""

    commit: SeenCommit
    folder: bytes
    tree: str
    pusher: str | None
    problems: str | None = None


class Folders:
    """The folders that commits hold, each read once a publication."""

    def __init__(self, connection: Reader) -> None:
        self._connection = connection
        self._read: dict[tuple[bytes, str], SeenFolder | None] = {}

    def at(self, folder: bytes, tree: str | None) -> SeenFolder | None:
        """What this folder's tree holds; None for no tree."""
        if tree is None:
            return None
        key = (folder, tree)
        if key not in self._read:
            if len(self._read) >= _FOLDERS_KEPT:
                self._read.clear()
            self._read[key] = history.folder(self._connection, folder, tree)
        return self._read[key]

    def has_definition(self, folder: bytes, tree: str | None) -> bool:
        """Whether something stands at its TOOL.hdlp, valid or not, or the folder is so strange that it must be said."""
        seen = self.at(folder, tree)
        return seen is not None and (seen.reading is not None or seen.blob is not None or bool(seen.problems))


def pushers(commits: Mapping[str, SeenCommit], pushes: Sequence[Delivery], graph: StoredGraph) -> dict[str, str]:
    """Who pushed each new commit: the first signed push whose `before..after` contains it."""
    found: dict[str, str] = {}
    for push in pushes:
        if push.after not in commits or push.pusher is None:
            continue
        if push.before is None or push.before in commits or graph.knows(push.before):
            for commit in _within(commits, push.after) - _within(commits, push.before):
                found.setdefault(commit, push.pusher)
    return found


def _within(commits: Mapping[str, SeenCommit], start: str | None) -> set[str]:
    """What `start` reaches among these commits."""
    found: set[str] = set()
    work = [start] if start in commits else []
    while work:
        commit = work.pop()
        if commit is not None and commit not in found:
            found.add(commit)
            work += [parent for parent in commits[commit].parents if parent in commits]
    return found


class Registering:
    """Turns the changes of new commits into versions and rejections.

    It only reads, so that a long import keeps nobody from writing; what it gives is written later, at one moment.
    `operations`: what the instance's document says, by operationId.
    """

    def __init__(self, connection: Reader, tools_path: str, operations: Mapping[str, Any]) -> None:
        self._connection = connection
        self._folders = Folders(connection)
        self._tools_path = tools_path
        self._operations = operations
        self._numbers: dict[str, int] = {}
        self._latest: dict[str, ToolVersion | None] = {}

    def register(
        self, commits: Sequence[SeenCommit], pushed_by: Mapping[str, str], *, again: bool = False
    ) -> Registered:
        """Parents before children, so that numbers follow history.

        `again`: first those of older commits that were rejected and that the document may settle otherwise by now. What
        comes out as before is left as it is, and what was registered stays so, whatever the document lacks by now.
        """
        older = self._rejected_before() if again else []
        events = older + [
            _Event(commit, change.folder, change.tree, pushed_by.get(commit.id))
            for commit in commits
            for change in changed(commit)
            if change.tree is not None
        ]
        self._numbers = tools.latest_numbers(self._connection, {name_of(event.folder) for event in events})
        versions: list[ToolVersion] = []
        rejected: list[Rejected] = []
        otherwise = False
        for event in events:
            made = self._made(event)
            if isinstance(made, ToolVersion):
                versions.append(made)
            elif made is not None and made.row["problems"] != event.problems:
                rejected.append(made)
            else:
                continue
            otherwise |= event.problems is not None
        return Registered(versions, rejected, otherwise)

    def _rejected_before(self) -> list[_Event]:
        events = []
        for item in tools.rejected_definitions(self._connection, OPEN_PREFIX):
            folder, commit = self._folders.at(item.folder, item.tree), history.commit(self._connection, item.commit)
            if folder is not None and is_open(folder.reading) and commit is not None:
                events.append(_Event(commit, item.folder, item.tree, item.pusher, item.problems))
        return events

    def _made(self, event: _Event) -> ToolVersion | Rejected | None:
        folder = self._folders.at(event.folder, event.tree)
        if folder is None or not self._folders.has_definition(event.folder, event.tree):
            return None
        if folder.reading is not None:
            folder = replace(folder, reading=settle(folder.reading, self._operations))
        definition, problems = _verdict(event.commit, folder)
        if definition is None:
            return reject(event.commit, folder, problems, event.pusher, self._tools_path)
        return self._version(event.commit, folder, definition, event.pusher)

    def _version(
        self, commit: SeenCommit, folder: SeenFolder, definition: Definition, pusher: str | None
    ) -> ToolVersion:
        name = definition.name
        before = self._before(name)
        self._numbers[name] = self._numbers.get(name, 0) + 1
        version = ToolVersion(
            id=0,
            tool=name,
            number=self._numbers[name],
            state="superseded",
            commit=commit.id,
            tree=folder.tree,
            blob=folder.blob or "",
            sha256=folder.sha256 or "",
            definition=definition,
            git_author=commit.author.text(),
            git_committer=commit.committer.text(),
            git_committed_at=commit.committer.at,
            pusher=pusher,
            registered_at="",
            warnings=tuple(folder.reading.warnings) if folder.reading else (),
            same_meaning=before is not None and self._means_the_same(before, folder, definition),
        )
        self._latest[name] = version
        return version

    def _before(self, name: str) -> ToolVersion | None:
        """The version that was numbered last."""
        if name not in self._latest:
            number = self._numbers.get(name)
            self._latest[name] = None if number is None else tools.version(self._connection, name, number)
        return self._latest[name]

    def _means_the_same(self, before: ToolVersion, folder: SeenFolder, definition: Definition) -> bool:
        older = self._folders.at(folder.folder, before.tree)
        return older is not None and before.definition == definition and _others(older) == _others(folder)


def reject(
    commit: SeenCommit, folder: SeenFolder, problems: Sequence[Problem], pusher: str | None, tools_path: str
) -> Rejected:
    """The row that says why this folder at this commit is not registered; `at` is given when it is written."""
    name = name_of(folder.folder)
    row = {
        "folder": folder.folder,
        "commit_id": bytes.fromhex(commit.id),
        "kind": "definition",
        "path": f"{tools_path}/{name}/{FILE_NAME}",
        "tool": name,
        "pusher": pusher,
        "at": "",
        "problems": _dump([problem.as_json() for problem in problems]),
        "current": False,
    }
    return Rejected(row, folder)


def write(transaction: Transaction, registered: Registered) -> Registered:
    """Write versions and rejections at the transaction's moment."""
    versions = [replace(version, registered_at=transaction.now) for version in registered.versions]
    for item in registered.rejected:
        item.row["at"] = transaction.now
    tools.add_versions(transaction.connection, versions)
    tools.add_rejections(transaction.connection, [item.row for item in registered.rejected])
    return replace(registered, versions=versions)


def _verdict(commit: SeenCommit, folder: SeenFolder) -> tuple[Definition | None, Sequence[Problem]]:
    reading = folder.reading
    problems = (*commit.problems, *folder.problems, *(reading.problems if reading else ()))
    return (None if problems or reading is None else reading.definition), problems


def _others(folder: SeenFolder) -> list[Any]:
    return [file for file in folder.files if file.path != FILE_NAME]


def definition_fact(kind: str, version: ToolVersion) -> Fact:
    """`definition.*` with its facts (contract/audit.md, Names of facts)."""
    return Fact(
        kind,
        SYSTEM,
        {
            "tool": version.tool,
            "version": version.number,
            "commit": version.commit,
            "tree": version.tree,
            "blob": version.blob,
            "sha256": version.sha256,
            "author": version.definition.author,
            "pusher": version.pusher,
        },
    )


def rejection_fact(rejected: Rejected) -> Fact:
    """`definition.rejected` with every problem."""
    row, folder = rejected
    reading = folder.reading
    return Fact(
        "definition.rejected",
        SYSTEM,
        {
            "tool": row["tool"],
            "version": None,
            "commit": row["commit_id"].hex(),
            "tree": folder.tree,
            "blob": folder.blob,
            "sha256": folder.sha256,
            "author": reading.definition.author if reading and reading.definition else None,
            "pusher": row["pusher"],
            "problems": json.loads(row["problems"]),
        },
    )


def name_of(folder: bytes) -> str:
    """A folder's name as text; bytes that are no UTF-8 are escaped."""
    return folder.decode("utf-8", "backslashreplace")


def unique(names: Iterable[str]) -> list[str]:
    """Each name once, in the order they first came."""
    return list(dict.fromkeys(names))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
