"""What a folder of `tools` holds: its files, its limits, its TOOL.hdlp (contract/registration.md, What is checked)."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

from service.domain.definitions import FILE_NAME, MAX_FILE_BYTES, Problem, Reading
from service.domain.history import FolderFile, SeenBlob, SeenFolder
from service.intake.mirror.objects import Objects
from service.intake.mirror.trees import EXECUTABLE, FILE, TREE, Entry, Folder, entries, flaws

MAX_FILES: Final = 200
MAX_ONE_FILE_BYTES: Final = 1 << 20
MAX_ALL_FILES_BYTES: Final = 4 << 20
MAX_FOLDERS_INSIDE: Final = 200
_MAX_PROBLEMS: Final = 20

Reader = Callable[[bytes, str], Reading]
"""`service.intake.definitions.settling.read_open`: the file's bytes and its folder's name."""

_TEXTS: Final = {
    "symlink": (
        "{path} 是符号链接；工具文件夹里只能有普通文件，请换成真正的文件。",
        "{path} is a symbolic link; a tool's folder holds regular files only: put the file itself there.",
    ),
    "submodule": (
        "{path} 是子模块；工具文件夹里只能有普通文件，请把文件直接放进来。",
        "{path} is a submodule; a tool's folder holds regular files only: put the files themselves there.",
    ),
    "ambiguous-tree": (
        "{path} 在同一个文件夹里出现了两次，不同的程序会读出不同的内容；请用普通的 git 重新提交这个文件夹。",
        "{path} stands twice in one folder: programs disagree on which counts; commit it again with an ordinary git.",
    ),
    "unsorted-tree": (
        "{path} 在文件夹里的排列顺序不合 git 的规定；请用普通的 git 重新提交这个文件夹。",
        "{path} is not where git's order would have it; commit the folder again with an ordinary git.",
    ),
    "bad-name": (
        "{path} 这个名字不能用：不能是 .、.. 或 .git，不能含 / 或控制字符，必须是 UTF-8；请改名。",
        "{path} is no usable name: not ., .. or .git, no / or control characters, and UTF-8; rename it.",
    ),
    "bad-mode": (
        "{path} 的文件模式不是 40000、100644 或 100755；请用普通的 git 重新提交。",
        "{path} has a mode that is none of 40000, 100644 and 100755; commit it again with an ordinary git.",
    ),
    "not-a-file": (
        "{path} 是文件夹；这里需要一个名为 TOOL.hdlp 的文件。",
        "{path} is a folder; a file named TOOL.hdlp is needed here.",
    ),
    "file-too-large": (
        "{path} 有 {size} 字节，最多 {limit} 字节；请缩小它，或放到别处再引用。",
        "{path} has {size} bytes, at most {limit} are taken; make it smaller, or keep it elsewhere.",
    ),
    "folder-too-large": (
        "这个文件夹共有 {size} 字节，最多 {limit} 字节；请缩小它。",
        "This folder has {size} bytes in all, at most {limit} are taken; make it smaller.",
    ),
    "too-many-files": (
        "这个文件夹的文件超过 {limit} 个；请减少文件。",
        "This folder has more than {limit} files; keep fewer.",
    ),
}


def problem(code: str, path: str, **facts: object) -> Problem:
    """A problem of a file or folder, with where it is."""
    zh, en = (text.format(path=path, **facts) for text in _TEXTS[code])
    return Problem(code=code, zh=zh, en=en, field=path or None)


class FolderReader:
    """Reads folders of one look; each (folder, tree) and each blob is told once."""

    def __init__(self, objects: Objects, read_definition: Reader) -> None:
        self._objects = objects
        self._read_definition = read_definition
        self._told: set[tuple[bytes, str]] = set()
        self._told_blobs: set[bytes] = set()

    def tell(self, name: bytes, folder: Folder) -> Iterator[SeenBlob | SeenFolder]:
        """The folder's blobs, then the folder; nothing when this look told it already. Raises Damaged, Undecodable."""
        if (name, folder.tree) in self._told:
            return
        self._told.add((name, folder.tree))
        shown = name.decode("utf-8", "backslashreplace")
        if folder.codes:
            yield SeenFolder(name, folder.tree, None, tuple(problem(code, shown) for code in folder.codes))
            return
        found = _Contents(self._objects)
        found.walk(folder.tree.encode())
        if not found.has_definition:
            yield SeenFolder(name, folder.tree, None)
            return
        reading, digest = self._reading(found, shown)
        files = tuple(found.files)
        if not found.problems and reading is not None:
            yield from self._blobs(files)
        yield SeenFolder(name, folder.tree, reading, tuple(found.problems), files, found.definition_blob, digest)

    def _reading(self, found: "_Contents", shown: str) -> tuple[Reading | None, str | None]:
        if found.definition is None:
            return None, None
        if found.definition.size > MAX_FILE_BYTES:
            limits = {"size": found.definition.size, "limit": MAX_FILE_BYTES}
            return Reading(None, (problem("file-too-large", FILE_NAME, **limits),)), None
        content = self._objects.read(found.definition.blob.encode(), b"blob")
        return self._read_definition(content, shown), hashlib.sha256(content).hexdigest()

    def _blobs(self, files: tuple[FolderFile, ...]) -> Iterator[SeenBlob]:
        for file in files:
            name = file.blob.encode()
            if name not in self._told_blobs:
                self._told_blobs.add(name)
                yield SeenBlob(file.blob, self._objects.read(name, b"blob"))


class _Contents:
    """The files of one folder tree, and what is wrong with them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._bytes = 0
        self._full = False
        self.files: list[FolderFile] = []
        self.problems: list[Problem] = []
        self.has_definition = False
        self.definition: FolderFile | None = None

    @property
    def definition_blob(self) -> str | None:
        """The blob of TOOL.hdlp, where it is one file."""
        return self.definition.blob if self.definition else None

    def walk(self, tree: bytes) -> None:
        """Read the folder and all below it, until it is too much; nothing but its names where it has no TOOL.hdlp."""
        waiting, seen = [("", tree)], 0
        while waiting and not self._full:
            above, tree = waiting.pop()
            seen += 1
            if seen > MAX_FOLDERS_INSIDE:
                self._too_many()
                return
            found = entries(self._objects.read(tree, b"tree"))
            if not above:
                self._look_for_definition(found)
                if not self.has_definition:
                    return
            waiting += reversed(self._take(above, found))

    def _look_for_definition(self, found: list[Entry]) -> None:
        named = [entry for entry in found if entry.name == FILE_NAME.encode()]
        self.has_definition = bool(named)
        if len(named) == 1 and named[0].mode in (FILE, EXECUTABLE):
            self.definition = self._file(FILE_NAME, named[0])

    def _file(self, path: str, entry: Entry) -> FolderFile:
        blob = entry.id.hex()
        return FolderFile(path, entry.mode == EXECUTABLE, blob, self._objects.header(blob.encode()).size)

    def _take(self, above: str, found: list[Entry]) -> list[tuple[str, bytes]]:
        """Note one tree's files; the trees in it come back, to be read next."""
        strange = flaws(found)
        inside: list[tuple[str, bytes]] = []
        reported: set[bytes] = set()
        for entry in found:
            path = above + entry.name.decode("utf-8", "backslashreplace")
            if codes := strange.get(entry.name):
                if entry.name not in reported:
                    reported.add(entry.name)
                    for code in codes:
                        self._add_problem(problem(code, path))
            elif entry.mode == TREE:
                if path == FILE_NAME:
                    self._add_problem(problem("not-a-file", path))
                inside.append((path + "/", entry.id.hex().encode()))
            elif entry.mode in (FILE, EXECUTABLE) and not self._add_file(path, entry):
                break
        return inside

    def _add_file(self, path: str, entry: Entry) -> bool:
        """Note one file; whether there may be more."""
        if len(self.files) >= MAX_FILES:
            self._too_many()
            return False
        file = self._file(path, entry)
        self.files.append(file)
        if file.size > MAX_ONE_FILE_BYTES:
            self._add_problem(problem("file-too-large", path, size=file.size, limit=MAX_ONE_FILE_BYTES))
            return True
        before, self._bytes = self._bytes, self._bytes + file.size
        if before <= MAX_ALL_FILES_BYTES < self._bytes:
            self._add_problem(problem("folder-too-large", "", size=self._bytes, limit=MAX_ALL_FILES_BYTES))
        return True

    def _too_many(self) -> None:
        self._full = True
        self._add_problem(problem("too-many-files", "", limit=MAX_FILES))

    def _add_problem(self, found: Problem) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(found)
