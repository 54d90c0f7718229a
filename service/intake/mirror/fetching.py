"""Where a look finds the objects: the bare mirror of a remote branch, or a local repository as it stands.

The mirror is fetched into, and cloned anew and swapped in whole when it is damaged or scattered. A local repository is
read where it is.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dulwich.errors import NotGitRepository
from dulwich.refs import Ref
from dulwich.repo import Repo

from service.domain.history import Tip
from service.intake.mirror import commits
from service.intake.mirror.git_remote import Remote, Unreachable, commit_id
from service.intake.mirror.objects import Damaged, Objects, type_name
from service.intake.mirror.packs import Progress, receive, write_loose
from service.intake.mirror.trees import Undecodable, entries

MAX_PACKS: Final = 50
MAX_LOOSE_IN_ONE_FOLDER: Final = 200  # of 256 folders, as git estimates it: some 50,000 loose objects
HAVES: Final = 32
# After the first clone none: it may have been cut off by a restart of ours. At most six in any hour.
BACK_OFF_MINUTES: Final = (0, 2, 5, 10, 20, 40)


class BareMirror:
    """The bare mirror on disk of one branch of a remote repository."""

    def __init__(
        self, folder: Path, remote: Remote, branch: str, tip: str, *, max_pack_bytes: int, progress: Progress
    ) -> None:
        """`tip`: the commit that the branch stands at now."""
        self._folder = folder
        self._remote = remote
        self._branch = branch
        self._max_pack_bytes = max_pack_bytes
        self._progress = progress
        self._cloned = False
        self._tip = tip
        self.clones = CloneLog(folder.with_name(folder.name + ".clones.json"))

    @property
    def objects_folder(self) -> Path:
        """Where its objects are now."""
        return self._folder / "objects"

    def keep(self, commit_ids: Iterable[str]) -> None:
        """Hold on to these commits' objects, where they are here: refs/bitong/kept/<id>."""
        if not self.objects_folder.exists():
            return
        kept = self._folder / "refs" / "bitong" / "kept"
        missing = [name for name in commit_ids if not (kept / name).exists()]
        if not missing:
            return
        objects = Objects(self.objects_folder)
        for name in missing:
            if objects.has(name.encode()):
                _write_ref(self._folder, f"refs/bitong/kept/{name}", name)
        objects.close()

    def bring(self) -> None:
        """Have every object of the tip. Raises Unreachable, Damaged."""
        self._tidy()
        have = _read_ref(self._folder, self._branch)
        if have == self._tip:
            return
        if have is None or self._is_scattered():
            self._clone()
            return
        try:
            self._fetch(have)
        except Damaged:
            if self.mend() is None:
                raise

    def mend(self) -> Path | None:
        """Replace a damaged mirror by a fresh clone; its objects' folder, None when this look cloned already."""
        if self._cloned:
            return None
        self._clone()
        return self.objects_folder

    def _fetch(self, have: str) -> None:
        objects = Objects(self.objects_folder)
        try:
            receive(self._remote, self._tip, _haves(objects, have), objects, self._max_pack_bytes, self._progress)
            objects.read(self._tip.encode(), b"commit")
        finally:
            objects.close()
        _write_ref(self._folder, f"refs/heads/{self._branch}", self._tip)

    def _clone(self) -> None:
        """A whole new mirror beside the old one, which leaves only then. At most one a look, and ever fewer in time."""
        self._cloned = True
        self.clones.begin()
        fresh = Path(tempfile.mkdtemp(prefix=self._folder.name + ".new-", dir=self._folder.parent))
        try:
            _make_bare(fresh, self._branch)
            objects = Objects(fresh / "objects")
            receive(self._remote, self._tip, (), objects, self._max_pack_bytes, self._progress)
            _carry_kept(self._folder, fresh)
            objects.read(self._tip.encode(), b"commit")
            objects.close()
        except Damaged as error:
            self.clones.failed("repository-damaged", type_name(error))
            raise
        except Unreachable as error:
            self.clones.failed(error.code, error.cause)
            raise
        finally:
            if not _is_whole(fresh, self._tip):
                shutil.rmtree(fresh, ignore_errors=True)
        _write_ref(fresh, f"refs/heads/{self._branch}", self._tip)
        self._swap(fresh)

    def _swap(self, fresh: Path) -> None:
        old = self._folder.with_name(self._folder.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):
            self._folder.rename(old)
        fresh.rename(self._folder)
        shutil.rmtree(old, ignore_errors=True)

    def _tidy(self) -> None:
        """What a process that died left behind."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        old = self._folder.with_name(self._folder.name + ".old")
        if old.exists() and not self._folder.exists():
            old.rename(self._folder)
        for left in (*self._folder.parent.glob(self._folder.name + ".new-*"), old):
            shutil.rmtree(left, ignore_errors=True)
        for left in self.objects_folder.glob("tmp_*"):
            left.unlink(missing_ok=True)

    def _is_scattered(self) -> bool:
        packs = sum(1 for _ in (self.objects_folder / "pack").glob("*.pack"))
        loose = self.objects_folder / "17"
        crowded = loose.exists() and sum(1 for _ in loose.iterdir()) > MAX_LOOSE_IN_ONE_FOLDER
        return (packs > MAX_PACKS or crowded) and self.clones.may_begin()


class CloneLog:
    """When clones began that no whole look followed, in a small file: so that a broken repository costs few of them."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._path = path
        self._clock = clock

    def _read(self) -> dict[str, Any]:
        try:
            value = json.loads(self._path.read_bytes())
            return {"count": int(value["count"]), "at": float(value["at"]), **value}
        except (OSError, ValueError, KeyError, TypeError):
            return {"count": 0, "at": 0.0}

    def may_begin(self) -> bool:
        """Whether the last one is long enough ago."""
        return self._wait_s() <= 0

    def _wait_s(self) -> float:
        state = self._read()
        if not state["count"]:
            return 0.0
        minutes = BACK_OFF_MINUTES[min(state["count"], len(BACK_OFF_MINUTES)) - 1]
        since = self._clock() - state["at"]
        return minutes * 60 - since if since >= 0 else 0.0  # a clock set back does not lock us out

    def begin(self) -> None:
        """Note a clone before it starts, since it may be killed. Raises Unreachable when it is too soon for one."""
        state, wait_s = self._read(), self._wait_s()
        if wait_s > 0:
            cause = state.get("cause", "it was not whole")
            raise Unreachable(
                state.get("code", "repository-damaged"), f"{cause}; the next clone is tried in {wait_s:.0f} s"
            )
        self._write({"count": state["count"] + 1, "at": self._clock()})

    def failed(self, code: str, cause: str) -> None:
        """Say why, for the looks that come too soon."""
        self._write({**self._read(), "code": code, "cause": cause})

    def succeeded(self) -> None:
        """A whole look: all is forgotten."""
        self._path.unlink(missing_ok=True)

    def _write(self, state: Mapping[str, Any]) -> None:
        beside = self._path.with_name(self._path.name + ".tmp")
        beside.write_text(json.dumps(state), encoding="utf-8")
        beside.replace(self._path)


class LocalRepository:
    """A repository on this machine, read where it is: what is needed of it is stored elsewhere."""

    def __init__(self, path: Path, branch: str, folder: Path) -> None:
        self._branch = branch
        self._folder = folder
        self._tries = 0
        try:
            self._repository = Repo(os.fspath(path))
        except NotGitRepository as error:
            raise Unreachable("repository-not-found", f"{path} is no git repository") from error
        except Exception as error:  # what a configuration or a format can make dulwich raise
            raise Unreachable("repository-unsupported", type(error).__name__) from error
        if self._repository.object_format.hex_length != 40:
            raise Unreachable("repository-unsupported", "its object format is not SHA-1")
        if self._repository.get_shallow():
            raise Unreachable("repository-unsupported", "it is a shallow clone; git fetch --unshallow makes it whole")
        self.objects_folder = Path(os.fspath(self._repository.object_store.path))

    def tip(self) -> Tip:
        """Where the branch stands."""
        refs = self._repository.refs
        try:
            branches = refs.as_dict(Ref(b"refs/heads"))
            head = refs.get_symrefs().get(Ref(b"HEAD"))
        except Exception as error:
            raise Unreachable("repository-damaged", type(error).__name__) from error
        commit = branches.get(Ref(self._branch.encode()))
        default = head.removeprefix(b"refs/heads/").decode("utf-8", "replace") if head else None
        return Tip(commit_id(commit), default, empty=not branches)

    def mend(self) -> Path | None:
        """Being repacked, perhaps: read again, up to three times."""
        self._tries += 1
        if self._tries > 3:
            return None
        time.sleep(0.05 * 4 ** (self._tries - 1))
        return self.objects_folder

    def keep(self, commit_ids: Sequence[str], tools_path: str) -> None:
        """Copy what these commits have below `tools` to the mirror's folder, before the source forgets them."""
        kept = self._folder / "refs" / "bitong" / "kept"
        missing = [name for name in commit_ids if not (kept / name).exists()]
        if not missing:
            return
        if not self._folder.exists():
            _make_bare(self._folder, self._branch)
        source, target = Objects(self.objects_folder), Objects(self._folder / "objects")
        for name in missing:
            with suppress(Damaged, Undecodable):
                _copy_tools(source, target, name.encode(), [part.encode() for part in tools_path.split("/") if part])
                _write_ref(self._folder, f"refs/bitong/kept/{name}", name)


def _haves(objects: Objects, have: str) -> Iterator[str]:
    """The mirror's tip and its nearest ancestors: enough for a push, and for a force-push that is not old."""
    waiting, seen = [have], {have}
    while waiting and len(seen) <= HAVES:
        name = waiting.pop(0)
        yield name
        above = [parent.decode() for parent in commits.parents(objects.read(name.encode(), b"commit"))]
        waiting += [parent for parent in above if parent not in seen]
        seen.update(above)


def _make_bare(folder: Path, branch: str) -> None:
    (folder / "objects" / "pack").mkdir(parents=True)
    (folder / "refs" / "heads").mkdir(parents=True)
    (folder / "HEAD").write_text(f"ref: refs/heads/{branch}\n", encoding="utf-8")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n", encoding="utf-8")


def _read_ref(folder: Path, branch: str) -> str | None:
    try:
        text = (folder / "refs" / "heads" / branch).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return text if len(text) == 40 else None


def _write_ref(folder: Path, ref: str, commit: str) -> None:
    target = folder / ref
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = folder / "ref.tmp"
    beside.write_text(commit + "\n", encoding="ascii")
    beside.replace(target)


def _is_whole(folder: Path, tip: str) -> bool:
    with suppress(Damaged):
        objects = Objects(folder / "objects")
        objects.find(tip.encode())
        objects.close()
        return True
    return False


def _carry_kept(old: Path, fresh: Path) -> None:
    """Kept commits move to the new mirror, as far as they can be read."""
    kept = old / "refs" / "bitong" / "kept"
    if not kept.exists():
        return
    source, target = Objects(old / "objects"), Objects(fresh / "objects")
    for ref in sorted(kept.iterdir()):
        with suppress(Damaged, Undecodable):
            for commit in _ancestors_missing(source, target, ref.name.encode()):
                _copy(source, target, commit)
            _write_ref(fresh, f"refs/bitong/kept/{ref.name}", ref.name)
    source.close()
    target.close()


def _ancestors_missing(source: Objects, target: Objects, name: bytes) -> Iterator[bytes]:
    waiting, seen = [name], {name}
    while waiting:
        commit = waiting.pop()
        if target.has(commit):
            continue
        above = commits.parents(source.read(commit, b"commit"))
        yield commit
        waiting += [parent for parent in above if parent not in seen]
        seen.update(above)


def _copy_tools(source: Objects, target: Objects, commit: bytes, path: Sequence[bytes]) -> None:
    """A commit, the trees that lead to `tools`, and all below it."""
    waiting = [commits.read_commit(_copy_one(source, target, commit)).tree]
    for part in path:
        rows = [row for tree in waiting for row in entries(_copy_one(source, target, tree))]
        waiting = [row.id.hex().encode() for row in rows if row.name == part and row.looks_like_tree]
    for tree in waiting:
        _copy(source, target, tree)


def _copy_one(source: Objects, target: Objects, name: bytes) -> bytes:
    kind, content = source.find(name)
    write_loose(target.folders[0], name.decode(), kind, content)
    return content


def _copy(source: Objects, target: Objects, name: bytes) -> None:
    """An object and the trees and blobs below it, but for what is there already."""
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if target.has(one):
            continue
        kind, content = source.find(one)
        if kind == b"commit":
            waiting.append(commits.read_commit(content).tree)
        elif kind == b"tree":
            waiting += [row.id.hex().encode() for row in entries(content) if row.mode != b"160000"]
        write_loose(target.folders[0], one.decode(), kind, content)
