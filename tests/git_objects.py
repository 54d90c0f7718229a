"""Git repositories made object by object, so that a test can have any tree or commit, also ones no git would write."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.git_http import git

PERSON = "铸渊 <zhuyuan@example.org>"
DEFINITION = """\
name: {name}
display: 工具 {name}
intent: 用 {name} 做事
method: run
executor: shell
params_schema: {{}}
constraints: {{}}
author: ICE-GL-ZY001
created: 2026-11-30
why: 需要它。{note}
command: [echo, hello]
"""

Row = tuple[str, bytes, str]
"""Mode as written, name, id in hex."""


def definition(name: str, note: str = "") -> bytes:
    """A valid TOOL.hdlp; another `note` makes other bytes."""
    return DEFINITION.format(name=name, note=note).encode()


class Builder:
    """Writes objects into one bare repository and moves its branch."""

    def __init__(self, folder: Path, branch: str = "main") -> None:
        self.folder = folder
        self.branch = branch
        self._seconds = 1_790_000_000

    def blob(self, content: bytes) -> str:
        """A blob's id."""
        return git("hash-object", "-w", "--stdin", at=self.folder, stdin=content)

    def rows(self, rows: Sequence[Row]) -> str:
        """A tree of exactly these entries, in this order."""
        raw = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(id) for mode, name, id in rows)
        return self.literal("tree", raw)

    def literal(self, type: str, raw: bytes) -> str:
        """Any bytes as an object of a type."""
        return git("hash-object", "-w", "-t", type, "--stdin", "--literally", at=self.folder, stdin=raw)

    def tree(self, files: Mapping[str, bytes]) -> str:
        """A proper tree of files at paths; one that begins with `#!` may be executed."""
        rows: list[Row] = []
        inside: dict[str, dict[str, bytes]] = {}
        for path, content in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                inside.setdefault(name, {})[rest] = content
            else:
                rows.append(("100755" if content.startswith(b"#!") else "100644", name.encode(), self.blob(content)))
        rows += [("40000", name.encode(), self.tree(below)) for name, below in inside.items()]
        return self.rows(sorted(rows, key=lambda row: row[1] + b"/" * (row[0] == "40000")))

    def tool(self, name: str, note: str = "", **files: bytes) -> Row:
        """A row for `tools`: a folder with a valid definition, and other files (`run_sh` is run.sh)."""
        extra = {key.replace("_", "."): content for key, content in files.items()}
        return ("40000", name.encode(), self.tree({"TOOL.hdlp": definition(name, note), **extra}))

    def root(self, *tools: Row) -> str:
        """A root tree with a README and `tools` of these rows as they are."""
        return self.rows([("100644", b"README.md", self.blob(b"readme\n")), ("40000", b"tools", self.rows(tools))])

    def commit(self, tree: str, *parents: str, message: str = "一步", author: bytes | None = None) -> str:
        """A commit; `author` replaces what stands after `author `."""
        self._seconds += 60
        who = f"{PERSON} {self._seconds} +0800".encode()
        lines = [b"tree " + tree.encode(), *(b"parent " + parent.encode() for parent in parents)]
        lines += [b"author " + (who if author is None else author), b"committer " + who]
        return self.literal("commit", b"\n".join(lines) + b"\n\n" + message.encode() + b"\n")

    def move(self, commit: str, branch: str | None = None) -> str:
        """Let the branch stand at a commit."""
        git("update-ref", f"refs/heads/{branch or self.branch}", commit, at=self.folder)
        return commit

    def push(self, tree: str, *parents: str, message: str = "一步") -> str:
        """Commit and move."""
        return self.move(self.commit(tree, *parents, message=message))

    def push_as(self, author: bytes) -> str:
        """Commit one good tool with this author line, and move."""
        return self.move(self.commit(self.root(self.tool("good")), author=author))
