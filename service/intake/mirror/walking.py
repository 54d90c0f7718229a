"""From a tip to what happened: new commits in order, and for each the folders of `tools` that it changed.

Does not use dulwich's walker: a commit's `tools` tree is compared by id with each parent's, and where ids differ only
the few bytes in which the two trees differ are read (contract/registration.md, What counts).
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

from service.domain.history import FolderChange, Progress, Seen, SeenCommit
from service.intake.mirror import trees
from service.intake.mirror.commits import Commit, parents, read_commit
from service.intake.mirror.objects import Objects
from service.intake.mirror.tool_folders import FolderReader, Reader
from service.intake.mirror.trees import NOWHERE, Difference, Folder, Listing, Place

Key = TypeVar("Key")
Value = TypeVar("Value")

# So many commits past the known tips are read before all known commits are asked for.
_GLANCE: Final = 64
_PROGRESS_EVERY_S: Final = 0.5
_KEPT_RAW_BYTES: Final = 1024
_LISTINGS: Final = 64


class Walk:
    """One walk over what is new. `tips`: known commits with all their ancestors; `known`: asks for every known one."""

    def __init__(
        self,
        objects: Objects,
        *,
        tools_path: str,
        tips: AbstractSet[bytes],
        known: Callable[[], AbstractSet[bytes]],
        read_definition: Reader,
    ) -> None:
        self._objects = objects
        self._tips = tips
        self._known = known
        self._raw: dict[bytes, bytes] = {}
        self._map = ToolsMap(objects, tools_path)
        self._reader = FolderReader(objects, read_definition)

    def from_tip(self, tip: bytes) -> Iterator[Seen]:
        """Blobs, folders and commits, parents before children in parent order. Raises Damaged, Undecodable."""
        order = self._order(tip)
        reported = time.monotonic()
        for count, name in enumerate(order):
            if time.monotonic() - reported > _PROGRESS_EVERY_S:
                reported = time.monotonic()
                yield Progress("walk", count, len(order))
            yield from self._tell(name)
        if len(order) > _GLANCE:
            yield Progress("walk", len(order), len(order))

    def _order(self, tip: bytes) -> list[bytes]:
        """What is new, depth first from the tip, a commit after its parents; iteratively, since histories are deep."""
        stop = self._where_to_stop(tip)
        order: list[bytes] = []
        entered: set[bytes] = set()
        stack: list[tuple[bytes, Iterator[bytes]]] = []

        def enter(name: bytes) -> None:
            entered.add(name)
            stack.append((name, iter(parents(self._commit(name)))))

        if tip not in stop:
            enter(tip)
        while stack:
            name, above = stack[-1]
            for parent in above:
                if parent not in stop and parent not in entered:
                    enter(parent)
                    break
            else:
                stack.pop()
                order.append(name)
        return order

    def _where_to_stop(self, tip: bytes) -> AbstractSet[bytes]:
        """The tips, when a glance shows that all that is new ends there; else every known commit."""
        waiting, seen = [tip], {tip}
        while waiting and len(seen) <= _GLANCE:
            name = waiting.pop()
            if name in self._tips:
                continue
            above = parents(self._commit(name))
            if not above:
                break
            waiting += [parent for parent in above if parent not in seen]
            seen.update(above)
        else:
            if not waiting:
                return self._tips
        return self._known() | self._tips

    def _commit(self, name: bytes) -> bytes:
        raw = self._raw.get(name)
        if raw is None:
            raw = self._objects.read(name, b"commit")
            if len(raw) <= _KEPT_RAW_BYTES:
                self._raw[name] = raw
        return raw

    def _tell(self, name: bytes) -> Iterator[Seen]:
        commit = read_commit(self._commit(name))
        self._raw.pop(name, None)
        changes = self._changes(name, commit)
        for folder_name, folder, _ in changes:
            if folder is not None:
                yield from self._reader.tell(folder_name, folder)
        yield SeenCommit(
            id=name.decode(),
            parents=tuple(parent.decode() for parent in commit.parents),
            author=commit.author,
            committer=commit.committer,
            message=commit.message,
            changes=tuple(
                FolderChange(folder_name, folder.tree if folder else None, source)
                for folder_name, folder, source in changes
            ),
            problems=commit.problems,
        )

    def _changes(self, name: bytes, commit: Commit) -> list[tuple[bytes, Folder | None, int | None]]:
        """Folders unlike the first parent's, in the order of their names, and which later parent has them so."""
        mine = self._map.place_of_tree(name, commit.tree)
        above = [self._place_of(parent) for parent in commit.parents]
        first = self._map.difference(above[0] if above else NOWHERE, mine)
        if not first.now and not first.gone:
            return []
        others = [self._map.difference(place, mine) for place in above[1:]]

        def source(folder: bytes) -> int | None:
            unlike = (folder in other.now or folder in other.gone for other in others)
            return next((index for index, differs in enumerate(unlike, start=1) if not differs), None)

        changed: list[tuple[bytes, Folder | None]] = [*first.now.items(), *((folder, None) for folder in first.gone)]
        return [(folder, now, source(folder)) for folder, now in sorted(changed, key=lambda change: change[0])]

    def _place_of(self, commit: bytes) -> Place:
        place = self._map.place(commit)
        if place is None:
            tree = read_commit(self._commit(commit)).tree
            place = self._map.place_of_tree(commit, tree)
        return place


class ToolsMap:
    """Where `tools` is at each commit, and how two such places differ; remembers the last few trees."""

    def __init__(self, objects: Objects, tools_path: str) -> None:
        self._objects = objects
        self._path = [part.encode() for part in tools_path.split("/") if part]
        self._places: dict[bytes, Place] = {}
        self._by_root: OrderedDict[bytes, Place] = OrderedDict()
        self._listings: OrderedDict[str, Listing] = OrderedDict()
        self._whole: OrderedDict[Place, dict[bytes, Folder]] = OrderedDict()
        self._same: dict[Place, Place] = {}

    def place(self, commit: bytes) -> Place | None:
        """Where it is at a commit that was told before."""
        return self._places.get(commit)

    def place_of_tree(self, commit: bytes, root: bytes) -> Place:
        """Where it is below a root tree; noted for the commit."""
        place = self._by_root.get(root)
        if place is None:
            place = self._find(root)
            place = self._same.setdefault(place, place)  # most commits share a few
            _remember(self._by_root, root, place)
        self._places[commit] = place
        return place

    def _find(self, root: bytes) -> Place:
        place = Place((root.decode(),))
        for part in self._path:
            found = [trees.entries(self._objects.read(tree.encode(), b"tree")) for tree in place.trees]
            below = [trees.step(rows, part, place.codes) for rows in found]
            place = Place(
                tuple(tree for each in below for tree in each.trees),
                tuple(sorted({code for each in below for code in each.codes})),
            )
        return place

    def difference(self, old: Place, new: Place) -> Difference:
        """What differs between two places' folders."""
        if old == new:
            return Difference({}, set())
        if _plain(old) and _plain(new):
            before, after = self._listing(old.trees[0]), self._raw(new.trees[0])
            quick = trees.quick_difference(before.raw, after) if before.clean else None
            if quick is not None:
                _remember(self._listings, new.trees[0], Listing(after, clean=True))
                return quick
        return trees.difference(self._folders(old), self._folders(new))

    def _folders(self, place: Place) -> dict[bytes, Folder]:
        known = self._whole.get(place)
        if known is None:
            rows = [row for tree in place.trees for row in trees.entries(self._raw(tree))]
            known = trees.folders(rows, place.codes)
        _remember(self._whole, place, known)
        return known

    def _raw(self, tree: str) -> bytes:
        known = self._listings.get(tree)
        return known.raw if known else self._objects.read(tree.encode(), b"tree")

    def _listing(self, tree: str) -> Listing:
        known = self._listings.get(tree)
        if known is None:
            known = trees.listing(self._objects.read(tree.encode(), b"tree"))
        _remember(self._listings, tree, known)
        return known


def _plain(place: Place) -> bool:
    return len(place.trees) == 1 and not place.codes


def _remember(kept: "OrderedDict[Key, Value]", key: Key, value: Value) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _LISTINGS:
        kept.popitem(last=False)
