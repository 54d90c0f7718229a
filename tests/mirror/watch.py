"""A mirror as the service would use it, with what must hold of every look."""

from collections.abc import Sequence

from service.domain.history import FolderChange, Progress, Seen, SeenBlob, SeenCommit, SeenFolder, Tip
from service.intake.mirror.looking import Mirror


class Watch:
    """A mirror, and all that its looks said so far, as the service would know it."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.tip: Tip | None = None
        self.commits: dict[str, SeenCommit] = {}
        self.folders: dict[tuple[bytes, str], SeenFolder] = {}
        self.blobs: dict[str, bytes] = {}
        self.tips: tuple[str, ...] = ()
        self.asked = 0

    def known(self) -> list[str]:
        """Every commit seen; counts how often it was asked."""
        self.asked += 1
        return list(self.commits)

    def look(self, *, keep: Sequence[str] = (), full: bool = False) -> list[Seen]:
        """One look; checks what must always hold, and returns what was said."""
        said = list(self.mirror.look(tips=self.tips, known=self.known, keep=keep, full=full))
        assert isinstance(said[0], Tip)
        self.tip = said[0]
        fresh: set[str] = set()
        for seen in said[1:]:
            self._take(seen, fresh)
            assert isinstance(seen, (Progress, SeenBlob, SeenFolder, SeenCommit))
        if self.tip.commit:
            self.tips = (self.tip.commit,)
        return said

    def _take(self, seen: Seen, fresh: set[str]) -> None:
        if isinstance(seen, SeenBlob):
            assert seen.id not in fresh, "a blob is sent once"
            fresh.add(seen.id)
            self.blobs[seen.id] = seen.content
        elif isinstance(seen, SeenFolder):
            assert all(file.blob in self.blobs for file in seen.files if not seen.problems)
            self.folders[seen.folder, seen.tree] = seen
        elif isinstance(seen, SeenCommit):
            assert seen.id not in fresh, "a commit is sent once"
            fresh.add(seen.id)
            assert all(parent in self.commits for parent in seen.parents), "parents come first"
            for change in seen.changes:
                assert change.tree is None or (change.folder, change.tree) in self.folders
            self.commits[seen.id] = seen

    def changes(self, commit: str) -> dict[bytes, FolderChange]:
        """What a commit changed, by folder."""
        return {change.folder: change for change in self.commits[commit].changes}

    def folder(self, commit: str, name: bytes) -> SeenFolder:
        """The folder as this commit changed it."""
        tree = self.changes(commit)[name].tree
        assert tree is not None
        return self.folders[name, tree]

    def codes(self, commit: str, name: bytes) -> list[str]:
        """The codes of its problems."""
        return sorted(problem.code for problem in self.folder(commit, name).problems)

    def reachable(self) -> set[str]:
        """The tip and all its ancestors."""
        assert self.tip
        waiting, found = [self.tip.commit] if self.tip.commit else [], set[str]()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.commits[name].parents
        return found
