"""Versions against a clone of the repository: each recorded blob and tree is what that commit holds at that path."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from service.verify.definitions import Version
from service.verify.findings import Findings, VerifyError, shown
from service.verify.git import Objects, Unreadable, entries_of
from service.verify.tree import sha256

FILE: Final = b"TOOL.hdlp"
_TREE: Final = b"40000"
_FILES: Final = (b"100644", b"100755", b"100664")


class Clone:
    """A clone in `folder`, whose tools stand below `tools_path`. Raises VerifyError for a folder that is no repository."""

    def __init__(self, folder: Path, tools_path: str = "tools") -> None:
        try:
            self._objects = Objects(folder)
        except (OSError, Unreadable) as error:
            raise VerifyError(f"不是 git 仓库：{shown(folder)}。", f"Not a git repository: {shown(folder)}.") from error
        self._path = [part.encode() for part in tools_path.split("/") if part]
        self._entries = lru_cache(64)(self._read_tree)
        self._checked = 0
        self._gone = 0

    def check(self, versions: Mapping[tuple[str, int], Version], findings: Findings) -> None:
        """Every version that was registered; one that a force-push orphaned may be missing from a clone."""
        for (tool, number), version in versions.items():
            commit, tree, blob, digest = version.registered
            where = f"version {number} of {tool} at {commit.hex()}"
            try:
                found = self._at(commit, tool.encode("utf-8", "surrogateescape"))
            except Unreadable as error:
                if version.orphaned:
                    self._gone += 1
                else:
                    findings.find(version.index, "git-missing", where, error, "readable objects")
                continue
            self._checked += 1
            wanted = (tree, blob, digest)
            if found != wanted:
                findings.find(version.index, "git-differs", where, _said(found), _said(wanted))

    def notes(self) -> list[tuple[str, str]]:
        """How much was compared."""
        notes = [(f"与克隆核对了 {self._checked} 个版本。", f"{self._checked} versions were held against the clone.")]
        if self._gone:
            notes.append(
                (
                    f"克隆里没有 {self._gone} 个被强推丢弃的版本。",
                    f"The clone lacks {self._gone} versions that a force-push left behind.",
                )
            )
        return notes

    def _at(self, commit: bytes, tool: bytes) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Tree and blob of the tool at that commit, and the SHA-256 of the file; None for what is not there."""
        here = self._root_of(commit)
        for name in (*self._path, tool):
            mode, found = self._entries(here).get(name, (b"", b""))
            if mode != _TREE:
                return None, None, None
            here = found
        mode, blob = self._entries(here).get(FILE, (b"", b""))
        if mode not in _FILES:
            return here, None, None
        return here, blob, sha256(self._objects.read(blob, b"blob"))

    def _root_of(self, commit: bytes) -> bytes:
        line = self._objects.read(commit, b"commit").partition(b"\n")[0]
        if not line.startswith(b"tree ") or len(line) != 45:
            raise Unreadable(f"{commit.hex()} names no tree")
        try:
            return bytes.fromhex(line[5:].decode("ascii"))
        except ValueError:
            raise Unreadable(f"{commit.hex()} names no tree") from None

    def _read_tree(self, name: bytes) -> dict[bytes, tuple[bytes, bytes]]:
        return entries_of(self._objects.read(name, b"tree"))


def _said(found: tuple[bytes | None, bytes | None, bytes | None]) -> str:
    return "/".join("none" if one is None else one.hex() for one in found)
