"""Repositories of tools, made by `git fast-import`: any number of tools and commits within a second or two."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.git_http import ENVIRONMENT, git

_BEGAN: Final = 1_780_000_000
_PERSON: Final = "铸渊 <zhuyuan@example.org>"

SHELL_EXEC: Final = """\
name: {name}
display: Shell命令执行
intent: 在服务器上执行一条shell命令并返回结果
method: exec
executor: {executor}
params_schema:
  cmd: {{ type: string, required: true, description: "要执行的shell命令" }}
  cwd: {{ type: string, required: false, description: "工作目录" }}
constraints:
  timeout_ms: 30000
  max_output_bytes: 65536
  require_confirm: false
author: ICE-GL-ZY001
created: 2026-05-31
why: 铸渊需要执行服务器命令。这是所有系统操作的基础工具。
"""

ORDINARY: Final = """\
name: {name}
display: 工具 {name}
intent: 查看第 {number} 台服务器的服务状态,并把结果按时间排列
method: run
executor: shell
params_schema:
  unit: {{ type: string, required: true, description: "要查看的服务" }}
  lines: {{ type: integer, required: false, description: "最多多少行", default: 50, minimum: 1, maximum: 1000 }}
  since: {{ type: string, required: false, description: "从何时起", pattern: "^[0-9-]{{10}}$" }}
constraints:
  timeout_ms: 30000
  max_output_bytes: 65536
  require_confirm: false
author: ICE-GL-ZY001
created: 2026-05-31
why: 第 {revision} 次修订。值班的人每天要看这台服务器,不应为此登录上去。
command: [echo, "{{unit}}", "{{lines}}"]
"""


def exec_text(executor: str = "shell", name: str = "exec") -> str:
    """The seed's shell-exec."""
    return SHELL_EXEC.format(name=name, executor=executor)


def tool_name(number: int) -> str:
    """Of an ordinary tool."""
    return f"server-{number:04d}"


def tool_text(number: int, revision: int = 0) -> str:
    """An ordinary definition; another revision has other bytes."""
    return ORDINARY.format(name=tool_name(number), number=number, revision=revision)


def make_empty(folder: Path) -> Path:
    """A bare repository without a commit."""
    git("init", "--quiet", "--bare", "--initial-branch=main", folder)
    git("config", "uploadpack.allowAnySHA1InWant", "true", at=folder)  # as Forgejo sets it
    return folder


def make(folder: Path, files: dict[str, str], tools: int = 0, commits: int = 0) -> Path:
    """A bare repository: one commit with `files` and `tools` ordinary tools, then `commits` that change one each."""
    make_empty(folder)
    first = {**files, **{f"tools/{tool_name(number)}/TOOL.hdlp": tool_text(number) for number in range(tools)}}
    feed = subprocess.Popen(["git", "fast-import", "--quiet"], cwd=folder, stdin=subprocess.PIPE, env=ENVIRONMENT)
    assert feed.stdin is not None
    feed.stdin.write(_commit(0, first))
    for number in range(1, commits + 1):
        changed = number * 7919 % tools  # a prime step: every tool gets its turn, neighbours do not follow each other
        feed.stdin.write(_commit(number, {f"tools/{tool_name(changed)}/TOOL.hdlp": tool_text(changed, number)}))
    feed.stdin.close()
    if feed.wait() != 0:
        raise RuntimeError("git fast-import failed")
    return folder


def one_more(folder: Path, number: int, revision: int) -> str:
    """Commit a new revision of one ordinary tool on top of main, within the bare repository; the commit's id."""
    path = f"tools/{tool_name(number)}/TOOL.hdlp"
    content = b"".join(_lines(revision, {path: tool_text(number, revision)}, parent="refs/heads/main^0"))
    git("fast-import", "--quiet", "--force", at=folder, stdin=content)
    return git("rev-parse", "refs/heads/main", at=folder)


def _commit(number: int, files: dict[str, str]) -> bytes:
    return b"".join(_lines(number, files, parent=""))


def _lines(number: int, files: dict[str, str], parent: str) -> Iterator[bytes]:
    yield f"commit refs/heads/main\ncommitter {_PERSON} {_BEGAN + number * 60} +0800\n".encode()
    yield _data(f"第 {number} 次改动\n")
    if parent:
        yield f"from {parent}\n".encode()
    for path, text in files.items():
        yield f"M 100644 inline {path}\n".encode() + _data(text)
    yield b"\n"


def _data(text: str) -> bytes:
    content = text.encode()
    return b"data %d\n%b\n" % (len(content), content)
