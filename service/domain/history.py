"""What the mirror sees in git, as plain values. `intake/mirror/` makes them, `domain/tools.py` and `intake/ingest.py` use them.

Ids are 40 lower-case hex digits. A folder's name is kept as git's bytes, since a hostile tree may hold any.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.definitions import Problem, Reading


@dataclass(frozen=True, slots=True)
class Signature:
    """An author or committer line as the commit claims it; `at` is RFC 3339 UTC, or None where unreadable (cases.md G4)."""

    name: str
    email: str
    at: str | None

    def text(self) -> str:
        """`Name <email>`, or the name alone where no address was given."""
        return f"{self.name} <{self.email}>" if self.email else self.name


@dataclass(frozen=True, slots=True)
class FolderChange:
    """How one folder below `tools` differs from that of the commit's first parent (from nothing, for a root commit).

    `tree`: its tree at this commit, None when it is not there. `source`: None when it differs from every parent's, so that
    the commit made it; else the index (≥ 1) of the first parent that has the same tree.
    """

    folder: bytes
    tree: str | None
    source: int | None = None


@dataclass(frozen=True, slots=True)
class SeenCommit:
    """One commit of the tracked branch, each parent before its child, parents in parent order.

    `problems`: what makes the commit itself strange (two author lines); every definition it made is then rejected.
    `message`: its first line, decoded by its encoding header, at most 200 characters.
    """

    id: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str
    changes: tuple[FolderChange, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file of a tool's folder: its path inside the folder, whether it may be executed, its blob and size in bytes."""

    path: str
    executable: bool
    blob: str
    size: int


@dataclass(frozen=True, slots=True)
class SeenFolder:
    """What one folder tree holds. Sent once a look for each (folder, tree), before the first commit that has it.

    `reading` is None when there is no TOOL.hdlp; `problems` are those of the tree itself (a symlink, 201 files, an entry
    twice): with any, the folder cannot be registered. `blob`, `sha256`: of TOOL.hdlp, where there is one.
    """

    folder: bytes
    tree: str
    reading: Reading | None
    problems: tuple[Problem, ...] = ()
    files: tuple[FolderFile, ...] = ()
    blob: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class SeenBlob:
    """The bytes of one file of a folder; sent once a look, before the folder that holds it. Verified against its id."""

    id: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Tip:
    """Where the tracked branch stands; the first thing a look says. `commit` is None when the branch is not there.

    `default_branch` is what the repository's HEAD names, where it says so; `empty`: the repository has no branch at all.
    """

    commit: str | None
    default_branch: str | None = None
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long look is: `phase` is `fetch` (bytes) or `walk` (commits); `total` None where unknown."""

    phase: str
    done: int
    total: int | None = None


Seen = Tip | Progress | SeenCommit | SeenFolder | SeenBlob


def changed(commit: SeenCommit) -> Sequence[FolderChange]:
    """The folders that something happened to at this commit (contract/registration.md, What counts)."""
    return [change for change in commit.changes if change.source is None]
