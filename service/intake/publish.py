"""From history to registry: versions, what is active, and the record of it, in ONE transaction (contract/registration.md)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from service.domain.audit import SYSTEM, Fact
from service.domain.definitions import FILE_NAME, Problem
from service.domain.deliveries import Delivery
from service.domain.history import SeenCommit, SeenFolder, changed
from service.domain.tools import (
    NAME,
    Base,
    Placement,
    Standing,
    ToolVersion,
    between,
    collision_key,
    dropped_by,
    place,
    reachable,
    settle_collisions,
    trace,
)
from service.store import history, tools
from service.store.database import Transaction
from service.store.history import StoredGraph


@dataclass(slots=True)
class Published:
    """What one look changed: names in the order they came up, and the names whose standing may differ now."""

    registered: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    revision: int = 0

    @property
    def anything(self) -> bool:
        """Whether the look registered, removed or rejected."""
        return bool(self.registered or self.removed or self.rejected)


class _Rejected(NamedTuple):
    """A row for `rejections`, and the folder it is about."""

    row: dict[str, Any]
    folder: SeenFolder


def publish(
    transaction: Transaction,
    *,
    tip: str,
    seen: Sequence[SeenCommit],
    pushes: Sequence[Delivery],
    tools_path: str,
    full: bool = False,
) -> Published:
    """Make the registry what the tip says. `seen`: this look's new commits, parents first, already staged.

    `full`: trust nothing of how the registry stood and place every folder anew.
    """
    return _Publication(transaction, tip, seen, pushes, tools_path, full=full).run()


class _Publication:
    """One publication; its steps in the order `run` names them."""

    def __init__(
        self,
        transaction: Transaction,
        tip: str,
        seen: Sequence[SeenCommit],
        pushes: Sequence[Delivery],
        tools_path: str,
        *,
        full: bool,
    ) -> None:
        self.transaction = transaction
        self.connection = transaction.connection
        self.tip = tip
        self.seen = seen
        self.pushes = pushes
        self.tools_path = tools_path
        self.graph = StoredGraph(self.connection, seen)
        self.registry: Mapping[str, Any] = tools.registry_row(self.connection) or {"tip": None, "revision": 0}
        old = self.registry["tip"]
        self.old_standings = history.tip_standings(self.connection)
        self.base = Base(old.hex(), self.old_standings) if old and not full else None
        self.result = Published(revision=self.registry["revision"])
        self.facts: list[Fact] = []
        self._folders: dict[tuple[bytes, str], SeenFolder | None] = {}
        self._verdicts: dict[tuple[bytes, Standing], str] = {}
        self._commits = {commit.id: commit for commit in seen}

    def run(self) -> Published:
        """All of it."""
        self._register(self._pushers())
        standings = trace(self.graph, self.tip, self.base)
        reach = self._reach()
        self._settle(standings, reach)
        history.replace_tip_standings(self.connection, self.old_standings, standings)
        history.publish(self.connection)
        if self.result.touched:
            self.result.revision += 1
        self.transaction.append_all(self.facts)
        tools.put_registry(self.connection, tip=bytes.fromhex(self.tip), revision=self.result.revision)
        return self.result

    # Versions and rejections of the new commits.

    def _pushers(self) -> dict[str, str]:
        """Who pushed each new commit: the first signed push whose range contains it."""
        pushers: dict[str, str] = {}
        for push in self.pushes:
            if push.after in self._commits and push.pusher is not None:
                known = push.before is None or push.before in self._commits or self.graph.knows(push.before)
                if known:
                    outside = self._within(push.before) if push.before else set()
                    for commit in self._within(push.after) - outside:
                        pushers.setdefault(commit, push.pusher)
        return pushers

    def _within(self, start: str | None) -> set[str]:
        """What `start` reaches among the new commits."""
        found: set[str] = set()
        work = [start] if start in self._commits else []
        while work:
            commit = work.pop()
            if commit is not None and commit not in found:
                found.add(commit)
                work += [parent for parent in self._commits[commit].parents if parent in self._commits]
        return found

    def _register(self, pushers: Mapping[str, str]) -> None:
        events = [(commit, change) for commit in self.seen for change in changed(commit) if change.tree is not None]
        names = {change.folder.decode("utf-8", "backslashreplace") for _, change in events}
        numbers = tools.latest_numbers(self.connection, names)
        latest: dict[str, ToolVersion | None] = {}
        versions: list[ToolVersion] = []
        rejected: list[_Rejected] = []
        for commit, change in events:
            folder = self._folder(change.folder, change.tree or "")
            if folder is None or not _has_definition(folder):
                continue
            problems = (*commit.problems, *folder.problems, *(folder.reading.problems if folder.reading else ()))
            if problems or folder.reading is None or folder.reading.definition is None:
                rejected.append(self._rejection(commit, folder, problems, pushers.get(commit.id)))
                continue
            name = folder.reading.definition.name
            if tools.has_version(self.connection, name, commit.id):
                continue
            if name not in latest:
                latest[name] = tools.version(self.connection, name, numbers[name]) if name in numbers else None
            numbers[name] = numbers.get(name, 0) + 1
            version = self._version(commit, folder, numbers[name], pushers.get(commit.id), latest[name])
            latest[name] = version
            versions.append(version)
        tools.add_versions(self.connection, versions)
        tools.add_rejections(self.connection, [item.row for item in rejected])
        self.facts += [_definition_fact("definition.registered", version) for version in versions]
        self.facts += [_rejection_fact(item) for item in rejected]
        self.result.registered += _unique(version.tool for version in versions)
        self.result.rejected += _unique(item.row["tool"] for item in rejected)

    def _version(
        self, commit: SeenCommit, folder: SeenFolder, number: int, pusher: str | None, before: ToolVersion | None
    ) -> ToolVersion:
        assert folder.reading is not None
        assert folder.reading.definition is not None
        return ToolVersion(
            id=0,
            tool=folder.reading.definition.name,
            number=number,
            state="superseded",
            commit=commit.id,
            tree=folder.tree,
            blob=folder.blob or "",
            sha256=folder.sha256 or "",
            definition=folder.reading.definition,
            git_author=commit.author.text(),
            git_committer=commit.committer.text(),
            git_committed_at=commit.committer.at,
            pusher=pusher,
            registered_at=self.transaction.now,
            warnings=tuple(folder.reading.warnings),
            same_meaning=before is not None and self._means_the_same(before, folder),
        )

    def _means_the_same(self, before: ToolVersion, folder: SeenFolder) -> bool:
        assert folder.reading is not None
        older = self._folder(folder.folder, before.tree)
        return (
            older is not None
            and before.definition == folder.reading.definition
            and [file for file in older.files if file.path != FILE_NAME]
            == [file for file in folder.files if file.path != FILE_NAME]
        )

    def _rejection(
        self, commit: SeenCommit, folder: SeenFolder, problems: Sequence[Problem], pusher: str | None
    ) -> "_Rejected":
        name = _name(folder.folder)
        row = {
            "folder": folder.folder,
            "commit_id": bytes.fromhex(commit.id),
            "kind": "definition",
            "path": f"{self.tools_path}/{name}/{FILE_NAME}",
            "tool": name,
            "pusher": pusher,
            "at": self.transaction.now,
            "problems": _dump([problem.as_json() for problem in problems]),
            "current": False,
        }
        return _Rejected(row, folder)

    # What stands at the tip.

    def _reach(self) -> set[str] | None:
        """The commits that the tip reaches, or None where all that ever were are reached: the branch only grew."""
        if self.base is None:
            return None if self.registry["tip"] is None else reachable(self.graph, self.tip)
        orphans = tools.any_orphaned(self.connection)
        grew = self.base.commit == self.tip or any(self.base.commit in commit.parents for commit in self.seen)
        return None if grew and not orphans else reachable(self.graph, self.tip)

    def _settle(self, standings: Mapping[bytes, Standing], reach: set[str] | None) -> None:
        placements = {
            folder: place(self.graph, folder, standings[folder], self._verdict, self.base)
            for folder in self._affected(standings, everything=reach is not None)
        }
        placements = settle_collisions(self.graph, self.tip, placements, self._has_definition)
        names = {_name(folder): placement for folder, placement in placements.items() if _is_name(folder)}
        self._place_absent(names, {_name(folder) for folder in standings}, reach)
        self._write_states(names, reach)
        self._write_rejections(placements, standings)

    def _place_absent(self, names: dict[str, Placement], standing: set[str], reach: set[str] | None) -> None:
        """Names whose versions the tip does not reach, or whose folder a merge left behind on the side it did not take."""
        left = {_name(folder) for folder in self.old_standings} - standing
        rows = tools.version_states(self.connection, None if reach is not None else left | set(self.result.registered))
        reached = {name for _, name, commit, _ in rows if reach is None or commit in reach}
        commits: dict[str, list[str]] = {}
        for _, name, commit, _ in rows:
            commits.setdefault(name, []).append(commit)
        for name, made in commits.items():
            if name in reached and name not in standing:
                dropped = dropped_by(self.graph, self.tip, made)
                names[name] = Placement("removed", removed_by=dropped, made_by=dropped)
            elif name not in reached and names.get(name, Placement("removed")).state == "removed":
                names[name] = Placement("orphaned")

    def _affected(self, standings: Mapping[bytes, Standing], *, everything: bool) -> set[bytes]:
        """The folders whose placement may differ from the last tip's; the others keep theirs."""
        if self.base is None or everything:
            return set(standings)
        before = self.base.folders
        affected = {folder for folder, standing in standings.items() if before.get(folder) != standing}
        affected |= {folder for folder in tools.colliding_folders(self.connection) if folder in standings}
        keys: dict[str, list[bytes]] = {}
        for folder, standing in standings.items():
            if standing.tree is not None and _is_name(folder):
                keys.setdefault(collision_key(_name(folder)), []).append(folder)
        for rivals in keys.values():
            if len(rivals) > 1:
                affected |= set(rivals)
        return affected

    def _write_states(self, names: Mapping[str, Placement], reach: set[str] | None) -> None:
        old = tools.tool_states(self.connection)
        rows = tools.version_states(self.connection, names)
        states: dict[int, str] = {}
        chosen: dict[str, int] = {}
        for row, name, commit, state in rows:
            placement = names[name]
            new = _version_state(placement, commit, orphaned=reach is not None and commit not in reach)
            if placement.commit == commit:
                chosen[name] = row
            if new != state:
                states[row] = new
                self._note_version(row, state, new)
        tools.set_version_states(self.connection, states)
        versions = {name for _, name, _, _ in rows}
        tool_rows = []
        for name, placement in names.items():
            row = self._tool_row(name, placement, chosen.get(name), old.get(name), has_versions=name in versions)
            if row is not None and row != old.get(name):
                tool_rows.append(row)
        tools.put_tools(self.connection, tool_rows)
        self.result.touched |= {row["name"] for row in tool_rows}

    def _note_version(self, row: int, old: str, new: str) -> None:
        if "orphaned" in (old, new):
            kind = "definition.orphaned" if new == "orphaned" else "definition.restored"
            self.facts.append(_definition_fact(kind, tools.version_by_id(self.connection, row)))

    def _tool_row(
        self, name: str, placement: Placement, chosen: int | None, old: Mapping[str, Any] | None, *, has_versions: bool
    ) -> dict[str, Any] | None:
        state = placement.state
        if state == "removed" and not has_versions:
            return None if old is None else _row(name, "unregistered")
        if state == "orphaned":
            return _row(name, state, old["version_id"] if old else None)
        if state != "removed":
            return _row(name, state, chosen, behind=placement.behind)
        gone = history.commit(self.connection, placement.removed_by or "")
        assert gone is not None
        if old is None or old["removed_commit"] != bytes.fromhex(gone.id):
            self.result.removed.append(name)
            if chosen is not None:
                version = tools.version_by_id(self.connection, chosen)
                self.facts.append(_definition_fact("definition.removed", version))
        return _row(name, state, chosen) | {
            "removed_commit": bytes.fromhex(gone.id),
            "removed_at": gone.committer.at or self.transaction.now,
            "removed_by": gone.author.text(),
        }

    def _write_rejections(self, placements: Mapping[bytes, Placement], standings: Mapping[bytes, Standing]) -> None:
        current: set[tuple[bytes, bytes, str]] = set()
        collisions = []
        for folder, placement in placements.items():
            if self._verdict(folder, standings[folder]) == "invalid":
                current.add((folder, bytes.fromhex(standings[folder].made_by), "definition"))
            if placement.collides_with is not None:
                current.add((folder, bytes.fromhex(standings[folder].made_by), "name-collision"))
                collisions.append(self._collision(folder, placement.collides_with, standings[folder]))
        gone = self.old_standings.keys() - standings.keys()
        tools.set_current_rejections(self.connection, placements.keys() | gone, current)
        fresh = [item for item in collisions if not tools.has_rejection(self.connection, item.row)]
        tools.add_rejections(self.connection, [item.row for item in collisions])
        self.facts += [_rejection_fact(item) for item in fresh]
        known = set(self.result.rejected)
        self.result.rejected += _unique(item.row["tool"] for item in fresh if item.row["tool"] not in known)

    def _collision(self, folder: bytes, stays: bytes, standing: Standing) -> "_Rejected":
        commit = history.commit(self.connection, standing.made_by)
        seen = self._folder(folder, standing.tree or "")
        assert commit is not None
        assert seen is not None
        problem = Problem(
            "name-collision",
            f"名称与工具 {_name(stays)} 冲突（大小写、`-` 与 `_` 视为相同）；先注册的保留。请换一个名称，或先移除 {_name(stays)}。",
            f"The name collides with the tool {_name(stays)} (case, `-` and `_` count as the same); the one that was there "
            f"first stays. Choose another name, or remove {_name(stays)} first.",
            field="name",
        )
        pusher = next(iter(self._pusher_of(_name(folder), commit.id)), None)
        rejected = self._rejection(commit, seen, [problem], pusher)
        rejected.row.update(kind="name-collision", current=True)
        return rejected

    def _pusher_of(self, name: str, commit: str) -> Iterable[str]:
        version = tools.version_at(self.connection, name, commit)
        if version is not None and version.pusher is not None:
            yield version.pusher

    # What the history says of one folder.

    def _folder(self, folder: bytes, tree: str) -> SeenFolder | None:
        key = (folder, tree)
        if key not in self._folders:
            if len(self._folders) > 4096:
                self._folders.clear()
            self._folders[key] = history.folder(self.connection, folder, tree)
        return self._folders[key]

    def _has_definition(self, folder: bytes, tree: str | None) -> bool:
        seen = None if tree is None else self._folder(folder, tree)
        return seen is not None and _has_definition(seen)

    def _verdict(self, folder: bytes, standing: Standing) -> str:
        key = (folder, standing)
        if key not in self._verdicts:
            if not self._has_definition(folder, standing.tree):
                self._verdicts[key] = "none"
            else:
                made = _is_name(folder) and tools.has_version(self.connection, _name(folder), standing.made_by)
                self._verdicts[key] = "valid" if made else "invalid"
        return self._verdicts[key]


def late_pushers(transaction: Transaction, pushes: Sequence[Delivery]) -> None:
    """Say who pushed versions that were registered before their delivery came; one that is known never changes."""
    unknown = tools.without_pusher(transaction.connection)
    if not unknown or not pushes:
        return
    graph = StoredGraph(transaction.connection)
    found: dict[int, str] = {}
    for push in pushes:
        assert push.after is not None
        assert push.pusher is not None
        commits = between(graph, push.before, push.after, graph.knows)
        for row, commit in unknown:
            if commit in commits:
                found.setdefault(row, push.pusher)
    tools.set_pushers(transaction.connection, found)


def _version_state(placement: Placement, commit: str, *, orphaned: bool) -> str:
    if orphaned:
        return "orphaned"
    if placement.commit == commit:
        return "removed" if placement.state == "removed" else "active"
    return "superseded"


def _row(name: str, state: str, version: int | None = None, *, behind: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "version_id": version,
        "behind": behind,
        "removed_commit": None,
        "removed_at": None,
        "removed_by": None,
    }


def _definition_fact(kind: str, version: ToolVersion) -> Fact:
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


def _rejection_fact(rejected: _Rejected) -> Fact:
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


def _has_definition(folder: SeenFolder) -> bool:
    return folder.reading is not None or folder.blob is not None or bool(folder.problems)


def _is_name(folder: bytes) -> bool:
    return NAME.match(folder.decode("utf-8", "replace")) is not None


def _name(folder: bytes) -> str:
    return folder.decode("utf-8", "backslashreplace")


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
