"""Which version of each tool runs: contract/registration.md (Active, Orphaned, collisions), as pure functions of the history."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from service.domain.definitions import Definition, Problem
from service.domain.history import FolderChange

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """A Definition at a commit. Ids and hashes are hex; `number` is its short name in this registry.

    `state`: active, superseded, removed or orphaned. `same_meaning`: only comments or layout differ from the one before.
    """

    id: int
    tool: str
    number: int
    state: str
    commit: str
    tree: str
    blob: str
    sha256: str
    definition: Definition
    git_author: str
    git_committer: str
    git_committed_at: str | None
    pusher: str | None
    registered_at: str
    warnings: tuple[Problem, ...] = ()
    same_meaning: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A name in the registry and how it stands. `state`: active, removed, orphaned or unregistered.

    `version` is the one that runs, or the last that ran before it was removed; `behind`: the tip holds a definition that
    was rejected, and an older one runs.
    """

    name: str
    state: str
    version: ToolVersion | None
    behind: bool = False
    removed_commit: str | None = None
    removed_at: str | None = None
    removed_by: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A folder at one commit: its tree there (None: gone) and the commit that made it so."""

    tree: str | None
    made_by: str


@dataclass(frozen=True, slots=True)
class Base:
    """A commit whose folders are all known already, so that a walk may stop at it."""

    commit: str
    folders: Mapping[bytes, Standing]


class Graph(Protocol):
    """The commits and how each changed its folders."""

    def parents(self, commit: str) -> Sequence[str]:
        """The parents of a commit, in order."""

    def changes(self, commit: str) -> Mapping[bytes, FolderChange]:
        """How its folders differ from those of its first parent."""


# What a commit made of a folder: "valid" or "invalid" where there is a TOOL.hdlp, "none" where there is not.
Verdict = Callable[[bytes, Standing], str]


def trace(
    graph: Graph, start: str, base: Base | None = None, want: Iterable[bytes] | None = None
) -> dict[bytes, Standing]:
    """For each folder at `start` (or those wanted): while a parent has the same tree, go to the first such parent.

    A folder that was there once and is gone is in the answer with `tree` None; one that never was is not in it.
    """
    found: dict[bytes, Standing] = {}
    work: list[tuple[str, set[bytes] | None]] = [(start, None if want is None else set(want))]
    while work:
        commit, wanted = work.pop()
        elsewhere = _follow_first_parents(graph, commit, base, wanted, found)
        for place, folders in elsewhere.items():
            work.append((place, folders))
    return found


def _follow_first_parents(
    graph: Graph, commit: str, base: Base | None, wanted: set[bytes] | None, found: dict[bytes, Standing]
) -> dict[str, set[bytes]]:
    """Settle what the first-parent line from `commit` settles; answer which folders go on from a merge's other parent."""
    settled: set[bytes] = set()
    elsewhere: dict[str, set[bytes]] = {}
    while True:
        if base is not None and commit == base.commit:
            for folder in base.folders if wanted is None else wanted & base.folders.keys():
                if folder not in settled:
                    found[folder] = base.folders[folder]
            return elsewhere
        parents = graph.parents(commit)
        for folder, change in graph.changes(commit).items():
            if folder in settled or (wanted is not None and folder not in wanted):
                continue
            settled.add(folder)
            if change.source is None:
                found[folder] = Standing(change.tree, commit)
            else:
                elsewhere.setdefault(parents[change.source], set()).add(folder)
        if not parents or (wanted is not None and wanted <= settled):
            return elsewhere
        commit = parents[0]


@dataclass(frozen=True, slots=True)
class Placement:
    """What follows for one folder at the tip.

    `state`: active (then `commit` made the version that runs), removed (then `commit` made the last version that ran, if
    any did, and `removed_by` took it away), or unregistered (nothing valid to fall back on, or a collision).
    """

    state: str
    commit: str | None = None
    behind: bool = False
    removed_by: str | None = None
    collides_with: bytes | None = None


def place(graph: Graph, folder: bytes, standing: Standing, verdict: Verdict, base: Base | None = None) -> Placement:
    """What runs for this folder (contract/registration.md, Active): the last good version when the newest was rejected."""
    kind = verdict(folder, standing)
    if kind == "none":
        standing = _when_it_went(graph, folder, standing, verdict, base)
        before = _fall_back(graph, folder, standing, verdict, base)
        return Placement("removed", before, removed_by=standing.made_by)
    if kind == "valid":
        return Placement("active", standing.made_by)
    commit = _fall_back(graph, folder, standing, verdict, base)
    state = "unregistered" if commit is None else "active"
    return Placement(state, commit, behind=commit is not None)


def _when_it_went(graph: Graph, folder: bytes, standing: Standing, verdict: Verdict, base: Base | None) -> Standing:
    """Where the definition went away: whoever later changed what files it left behind did not remove it."""
    while True:
        parents = graph.parents(standing.made_by)
        earlier = [found for parent in parents if (found := trace(graph, parent, base, [folder]).get(folder))]
        if not earlier or any(verdict(folder, found) != "none" for found in earlier):
            return standing
        standing = earlier[0]


def _fall_back(graph: Graph, folder: bytes, standing: Standing, verdict: Verdict, base: Base | None) -> str | None:
    """The commit of the version before: go on from the first parent that has the folder with a TOOL.hdlp."""
    while True:
        earlier = _first_parent_with(graph, folder, standing.made_by, verdict, base)
        if earlier is None:
            return None
        if verdict(folder, earlier) == "valid":
            return earlier.made_by
        standing = earlier


def _first_parent_with(
    graph: Graph, folder: bytes, commit: str, verdict: Verdict, base: Base | None
) -> Standing | None:
    for parent in graph.parents(commit):
        standing = trace(graph, parent, base, [folder]).get(folder)
        if standing is not None and verdict(folder, standing) != "none":
            return standing
    return None


def collision_key(name: str) -> str:
    """Names with the same key collide: case, `-` and `_` are one (contract/registration.md)."""
    return name.lower().replace("-", "_")


def settle_collisions(
    graph: Graph, tip: str, placements: Mapping[bytes, Placement], has_definition: Callable[[bytes, str | None], bool]
) -> dict[bytes, Placement]:
    """Of the folders whose names collide at the tip, the one there first along its first-parent line stays."""
    groups: dict[str, list[bytes]] = {}
    for folder, placement in placements.items():
        name = folder.decode("utf-8", "replace")
        if placement.state != "removed" and NAME.match(name):
            groups.setdefault(collision_key(name), []).append(folder)
    settled = dict(placements)
    for rivals in (group for group in groups.values() if len(group) > 1):
        since = _since(graph, tip, rivals, has_definition)
        stays = min(rivals, key=lambda folder: (-since[folder], folder))
        for folder in rivals:
            if folder != stays:
                settled[folder] = replace(
                    placements[folder], state="unregistered", commit=None, behind=False, collides_with=stays
                )
    return settled


def _since(
    graph: Graph, tip: str, folders: Sequence[bytes], has_definition: Callable[[bytes, str | None], bool]
) -> dict[bytes, int]:
    """For each folder, how many steps of the tip's first-parent line it has been there without a break."""
    steps: dict[bytes, int] = {}
    latest: dict[bytes, int] = {}
    commit, step = tip, 0
    while len(steps) < len(folders):
        changes = graph.changes(commit)
        for folder in folders:
            change = changes.get(folder)
            if change is None or folder in steps:
                continue
            if has_definition(folder, change.tree):
                latest[folder] = step
            else:
                steps[folder] = latest[folder]
        parents = graph.parents(commit)
        if not parents:
            break
        commit, step = parents[0], step + 1
    return {folder: steps.get(folder, latest.get(folder, step)) for folder in folders}


def reachable(graph: Graph, tip: str) -> set[str]:
    """Every commit that the tip reaches, itself included."""
    seen = {tip}
    work = [tip]
    while work:
        for parent in graph.parents(work.pop()):
            if parent not in seen:
                seen.add(parent)
                work.append(parent)
    return seen


def left_behind(graph: Graph, tip: str, folder: bytes, made: Sequence[str], verdict: Verdict) -> Placement:
    """A folder that is in no parent's tree any more where the tip's line comes from, though the tip reaches its versions.

    Removed by the merge that took the side without it; what ran last is what that merge's other side had.
    """
    start = tip
    while True:
        line = _first_parents(graph, start)
        merge = next((commit for commit in line if folder in graph.changes(commit)), None)
        if merge is None:
            merge = _oldest_that_reaches(graph, line, made)
            sides = [parent for parent in graph.parents(merge) if not reachable(graph, parent).isdisjoint(made)]
            without = [side for side in sides if _tree_at(graph, side, folder) is None]
            if sides and len(without) == len(sides):
                start = sides[0]
                continue
        last = _fall_back(graph, folder, Standing(None, merge), verdict, None)
        return Placement("removed", last, removed_by=merge)


def _first_parents(graph: Graph, start: str) -> list[str]:
    line = [start]
    while parents := graph.parents(line[-1]):
        line.append(parents[0])
    return line


def _oldest_that_reaches(graph: Graph, line: Sequence[str], made: Sequence[str]) -> str:
    """Of a first-parent line, newest first, the oldest commit that reaches one of `made`; the newest does."""
    low, high = 0, len(line) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if reachable(graph, line[middle]).isdisjoint(made):
            high = middle - 1
        else:
            low = middle
    return line[low]


def _tree_at(graph: Graph, commit: str, folder: bytes) -> str | None:
    standing = trace(graph, commit, None, [folder]).get(folder)
    return None if standing is None else standing.tree


def between(graph: Graph, before: str | None, after: str, known: Callable[[str], bool]) -> set[str]:
    """The commits of `before..after`; `before` None stands for a new branch: all that `after` reaches."""
    if not known(after) or (before is not None and not known(before)):
        return set()
    return reachable(graph, after) - (reachable(graph, before) if before is not None else set())
