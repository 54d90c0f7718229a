"""From history to registry: what is active, and the record of it, in ONE transaction (contract/registration.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.domain.definitions import Problem
from service.domain.deliveries import Delivery
from service.domain.history import SeenCommit
from service.domain.tools import (
    NAME,
    Base,
    Placement,
    Standing,
    between,
    collision_key,
    left_behind,
    place,
    reachable,
    settle_collisions,
    trace,
)
from service.intake.registering import (
    Folders,
    Registered,
    Registering,
    Rejected,
    definition_fact,
    name_of,
    pushers,
    reject,
    rejection_fact,
    unique,
    write,
)
from service.store import history, tools
from service.store.database import Reader, Transaction
from service.store.history import StoredGraph
from service.store.tools import VersionState

if TYPE_CHECKING:
    from service.domain.audit import Fact


@dataclass(slots=True)
class Published:
    """What one look changed: names in the order they came up, and the names whose standing may differ now."""

    registered: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    moved: bool = False
    orphaned: bool = False
    revision: int = 0
    standings: Mapping[bytes, Standing] | None = None

    @property
    def anything(self) -> bool:
        """Whether the look registered, removed or rejected, or other versions run after it."""
        return bool(self.registered or self.removed or self.rejected or self.moved)


@dataclass(frozen=True, slots=True)
class News:
    """What a look brought: the tip, its new commits (parents first, already staged), and what they made.

    `full`: trust nothing of how the registry stood and place every folder anew.
    """

    tip: str
    commits: Sequence[SeenCommit]
    registered: Registered
    tools_path: str
    full: bool = False
    before: Mapping[bytes, Standing] | None = None  # the last tip's standings, where they are known already


def prepare(
    connection: Reader,
    tip: str,
    commits: Sequence[SeenCommit],
    pushes: Sequence[Delivery],
    *,
    tools_path: str,
    operations: Mapping[str, Any],
    again: bool = False,
    full: bool = False,
    before: Mapping[bytes, Standing] | None = None,
) -> News:
    """Read what the new commits made. Nobody but the one look that runs writes versions, so it may be written later.

    `operations`, `again`: as for `Registering`.
    """
    new = [commit for commit in commits if not history.is_published(connection, commit.id)]
    graph = StoredGraph(connection, commits)
    pushed_by = pushers({commit.id: commit for commit in new}, pushes, graph)
    registered = Registering(connection, tools_path, operations).register(new, pushed_by, again=again)
    return News(tip, new, registered, tools_path, full, before)


def publish(transaction: Transaction, news: News) -> Published:
    """Make the registry what the tip says."""
    return _Publication(transaction, news).run()


class _Publication:
    """One publication; its steps in the order `run` names them."""

    def __init__(self, transaction: Transaction, news: News) -> None:
        self.transaction = transaction
        self.connection = transaction.connection
        self.news = news
        self.tip = news.tip
        self.graph = StoredGraph(self.connection, news.commits)
        self.folders = Folders(self.connection)
        self.registry: Mapping[str, Any] = tools.registry_row(self.connection) or {"tip": None, "revision": 0}
        old = self.registry["tip"]
        self.old_standings = history.tip_standings(self.connection) if news.before is None else news.before
        self.base = Base(old.hex(), self.old_standings) if old and not news.full else None
        self.result = Published(revision=self.registry["revision"])
        self.removed_by = tools.removed_by(self.connection)
        self.facts: list[Fact] = []
        self._verdicts: dict[tuple[bytes, Standing], str] = {}

    def run(self) -> Published:
        """All of it."""
        self._register()
        standings = trace(self.graph, self.tip, self.base)
        self._settle(standings, self._reach())
        history.replace_tip_standings(self.connection, self.old_standings, standings)
        self.result.standings = standings
        history.publish(self.connection, [commit.id for commit in self.news.commits])
        if self.result.touched:
            self.result.revision += 1
            self.result.moved = True
        self.transaction.append_all(self.facts)
        tools.put_registry(self.connection, tip=bytes.fromhex(self.tip), revision=self.result.revision)
        return self.result

    def _register(self) -> None:
        registered = write(self.transaction, self.news.registered)
        self.facts += [definition_fact("definition.registered", version) for version in registered.versions]
        self.facts += [rejection_fact(item) for item in registered.rejected]
        self.result.registered += unique(version.tool for version in registered.versions)
        self.result.rejected += unique(item.row["tool"] for item in registered.rejected)

    # What stands at the tip.

    def _reach(self) -> set[str] | None:
        """The commits that the tip reaches, or None where all that ever were are reached: the branch only grew.

        Where older commits came out otherwise, what stands may differ anywhere: it is asked for, and all is placed anew.
        """
        if self.news.registered.again:
            return reachable(self.graph, self.tip)
        if self.base is None:
            return None if self.registry["tip"] is None else reachable(self.graph, self.tip)
        base = self.base.commit
        grew = base == self.tip or any(base in commit.parents for commit in self.news.commits)
        return None if grew and not tools.any_orphaned(self.connection) else reachable(self.graph, self.tip)

    def _settle(self, standings: Mapping[bytes, Standing], reach: set[str] | None) -> None:
        placements = {
            folder: place(self.graph, folder, standings[folder], self._verdict, self.base)
            for folder in self._affected(standings, everything=reach is not None)
        }
        placements = settle_collisions(self.graph, self.tip, placements, self.folders.has_definition)
        names = {name_of(folder): placement for folder, placement in placements.items() if _is_name(folder)}
        self._place_absent(names, {name_of(folder) for folder in standings}, reach)
        self._write_states(names, reach)
        self._write_rejections(placements, standings)

    def _affected(self, standings: Mapping[bytes, Standing], *, everything: bool) -> set[bytes]:
        """The folders whose placement may differ from the last tip's; the others keep theirs."""
        if self.base is None or everything:
            return set(standings)
        before = self.base.folders
        affected = {folder for folder, standing in standings.items() if before.get(folder) != standing}
        colliding = {folder for folder in tools.colliding_folders(self.connection) if folder in standings}
        if not colliding and all(_is_there(before.get(folder)) == _is_there(standings[folder]) for folder in affected):
            return affected  # nobody came and nobody went: no collision can have begun or ended
        affected |= colliding
        keys: dict[str, list[bytes]] = {}
        for folder, standing in standings.items():
            if standing.tree is not None and _is_name(folder):
                keys.setdefault(collision_key(name_of(folder)), []).append(folder)
        for rivals in keys.values():
            if len(rivals) > 1:
                affected |= set(rivals)
        return affected

    def _place_absent(self, names: dict[str, Placement], standing: set[str], reach: set[str] | None) -> None:
        """Names whose versions the tip does not reach, or whose folder a merge left behind on the side it did not take."""
        left = {name_of(folder) for folder in self.old_standings} - standing
        rows = tools.version_states(self.connection, None if reach is not None else left | set(self.result.registered))
        commits: dict[str, list[str]] = {}
        rows_of: dict[str, list[VersionState]] = {}
        for item in rows:
            commits.setdefault(item.tool, []).append(item.commit)
            rows_of.setdefault(item.tool, []).append(item)
        for name, made in commits.items():
            if self._still_removed(name, rows_of[name], reach):
                continue
            reached = reach is None or not reach.isdisjoint(made)
            if reached and name not in standing:
                names[name] = left_behind(self.graph, self.tip, name.encode(), made, self._verdict)
            elif not reached and (name not in names or names[name].state == "removed"):
                names[name] = Placement("orphaned")
        for name in left - commits.keys():
            names.setdefault(name, Placement("unknown"))

    def _still_removed(self, name: str, rows: Sequence[VersionState], reach: set[str] | None) -> bool:
        """Whether a name was removed by a commit that is still there, and nothing about its versions changed since."""
        removed_by = self.removed_by.get(name)
        if reach is None or removed_by not in reach or name in self.result.registered:
            return False
        return all((item.commit in reach) == (item.state != "orphaned") for item in rows)

    def _write_states(self, names: Mapping[str, Placement], reach: set[str] | None) -> None:
        old = tools.tool_states(self.connection, names)
        states: dict[int, str] = {}
        chosen: dict[str, int] = {}
        newest: dict[str, int] = {}
        for item in tools.version_states(self.connection, names):
            newest[item.tool] = max(item.id, newest.get(item.tool, 0))
            placement = names[item.tool]
            if placement.commit == item.commit:
                chosen[item.tool] = item.id
            new = _version_state(placement, item.commit, orphaned=reach is not None and item.commit not in reach)
            if new != item.state:
                states[item.id] = new
                self._note_version(item.id, item.state, new)
        tools.set_version_states(self.connection, states)
        rows, gone = [], []
        for name, placement in names.items():
            if name not in newest and placement.state in ("removed", "unknown"):
                gone += [name] if name in old else []
                continue
            row = self._tool_row(name, placement, chosen.get(name), newest.get(name), old.get(name))
            if row != old.get(name):
                rows.append(row)
        tools.put_tools(self.connection, rows)
        tools.forget_tools(self.connection, gone)
        self.result.touched |= {row["name"] for row in rows} | set(gone)

    def _note_version(self, row: int, old: str, new: str) -> None:
        if "orphaned" in (old, new):
            kind = "definition.orphaned" if new == "orphaned" else "definition.restored"
            self.result.orphaned |= new == "orphaned"
            self.facts.append(definition_fact(kind, tools.version_by_id(self.connection, row)))

    def _tool_row(
        self,
        name: str,
        placement: Placement,
        chosen: int | None,
        newest: int | None,
        old: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        state = placement.state
        if state == "orphaned":
            return _row(name, state, (old["version_id"] if old else None) or newest)
        if state != "removed":
            return _row(name, state, chosen, behind=placement.behind)
        return self._removed_row(name, placement, chosen, old)

    def _removed_row(
        self, name: str, placement: Placement, chosen: int | None, old: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        gone = history.commit(self.connection, placement.removed_by or self.tip)
        assert gone is not None
        last = chosen if chosen is not None else old["version_id"] if old else None
        news = old is None or old["removed_commit"] != bytes.fromhex(gone.id)
        if news:
            self.result.removed.append(name)
        # A version that was registered after its removal is the last that ran, as if it had always been known.
        if last is not None and (news or (old is not None and old["version_id"] != last)):
            self.facts.append(definition_fact("definition.removed", tools.version_by_id(self.connection, last)))
        return _row(name, "removed", chosen) | {
            "removed_commit": bytes.fromhex(gone.id),
            "removed_at": gone.committer.at or self.transaction.now,
            "removed_by": gone.author.text(),
        }

    def _write_rejections(self, placements: Mapping[bytes, Placement], standings: Mapping[bytes, Standing]) -> None:
        current: set[tuple[bytes, bytes, str]] = set()
        collisions = []
        for folder, placement in placements.items():
            made_by = bytes.fromhex(standings[folder].made_by)
            if self._verdict(folder, standings[folder]) == "invalid":
                current.add((folder, made_by, "definition"))
            if placement.collides_with is not None:
                current.add((folder, made_by, "name-collision"))
                collisions.append(self._collision(folder, placement.collides_with, standings[folder]))
        gone = self.old_standings.keys() - standings.keys()
        tools.set_current_rejections(self.connection, placements.keys() | gone, current)
        fresh = [item for item in collisions if not tools.has_rejection(self.connection, item.row)]
        tools.add_rejections(self.connection, [item.row for item in collisions])
        self.facts += [rejection_fact(item) for item in fresh]
        known = set(self.result.rejected)
        self.result.rejected += unique(item.row["tool"] for item in fresh if item.row["tool"] not in known)

    def _collision(self, folder: bytes, stays: bytes, standing: Standing) -> Rejected:
        commit = history.commit(self.connection, standing.made_by)
        seen = self.folders.at(folder, standing.tree)
        assert commit is not None
        assert seen is not None
        other = name_of(stays)
        problem = Problem(
            "name-collision",
            f"名称与工具 {other} 冲突（大小写、`-` 与 `_` 视为相同）；先注册的保留。请换一个名称，或先移除 {other}。",
            f"The name collides with the tool {other} (case, `-` and `_` count as the same); the one that was there first "
            f"stays. Choose another name, or remove {other} first.",
            field="name",
        )
        version = tools.version_at(self.connection, name_of(folder), commit.id)
        pusher = version.pusher if version else None
        rejected = reject(commit, seen, [problem], pusher, self.news.tools_path)
        rejected.row.update(kind="name-collision", current=True, at=self.transaction.now)
        return rejected

    def _verdict(self, folder: bytes, standing: Standing) -> str:
        key = (folder, standing)
        if key not in self._verdicts:
            if not self.folders.has_definition(folder, standing.tree):
                self._verdicts[key] = "none"
            else:
                made = _is_name(folder) and tools.has_version(self.connection, name_of(folder), standing.made_by)
                self._verdicts[key] = "valid" if made else "invalid"
        return self._verdicts[key]


def late_pushers(transaction: Transaction, pushes: Sequence[Delivery]) -> set[str]:
    """Say who pushed what was registered or rejected before its delivery came; one that is known never changes.

    Answers the names of tools that now show another pusher.
    """
    connection = transaction.connection
    unknown = tools.commits_without_pusher(connection) if pushes else set()
    if not unknown:
        return set()
    graph = StoredGraph(connection)
    found: dict[str, str] = {}
    for push in pushes:
        assert push.after is not None
        assert push.pusher is not None
        for commit in unknown & between(graph, push.before, push.after, graph.knows):
            found.setdefault(commit, push.pusher)
    return tools.set_pushers(connection, found)


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


def _is_there(standing: Standing | None) -> bool:
    return standing is not None and standing.tree is not None


def _is_name(folder: bytes) -> bool:
    return NAME.match(folder.decode("utf-8", "replace")) is not None
