"""What git alone says must be registered, worked out in the plainest way from a repository's tip.

Written from contract/registration.md ("Active"), apart from the service; it knows nothing of validity: the caller says
which (folder, commit) are not valid.
"""

from dataclasses import dataclass, field
from pathlib import Path

from tests.git_http import git


@dataclass
class Branch:
    """The folders below `tools` at each commit of one branch, and each commit's parents."""

    bare: Path
    tip: str
    _folders: dict[str, dict[str, str]] = field(default_factory=dict)

    def folders(self, commit: str) -> dict[str, str]:
        """Folder name → tree at `commit`."""
        if commit not in self._folders:
            listing = git("ls-tree", "-z", "-d", f"{commit}", "tools/", at=self.bare)
            lines = [line.partition("\t") for line in listing.split("\0") if line]
            self._folders[commit] = {path.removeprefix("tools/"): head.split()[2] for head, _, path in lines}
        return self._folders[commit]

    def parents(self, commit: str) -> list[str]:
        """Parents in their order."""
        return git("rev-list", "--parents", "-n1", commit, at=self.bare).split()[1:]

    def made_by(self, folder: str) -> str:
        """The commit that made the tip's `folder` what it is."""
        commit, tree = self.tip, self.folders(self.tip)[folder]
        while True:
            same = [parent for parent in self.parents(commit) if self.folders(parent).get(folder) == tree]
            if not same:
                return commit
            commit = same[0]

    def commits(self) -> set[str]:
        """Every commit that is reachable from the tip."""
        return set(git("rev-list", self.tip, at=self.bare).split())
