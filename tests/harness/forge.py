"""The forge's side: a repository that people push to, and the signed requests Forgejo makes of it."""

import copy
import hashlib
import hmac
import json
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.git_http import GitHttpServer, git
from tests.harness.definitions import tool_text

DATA = Path(__file__).parents[1] / "data"
RECORDED = DATA / "forgejo-deliveries"
SECRET = "a-secret-of-the-hook"
ZEROS = "0" * 40
PUSH = json.loads((RECORDED / "11.0.15" / "0003-push-push.body").read_bytes())


@dataclass
class Push:
    """What one push moved: the branch's commit before and after, 40 zeros where there was or is none."""

    before: str
    after: str
    ref: str = "refs/heads/main"


@dataclass
class NativeRepo:
    """A bare repository served over HTTP, and a work clone to write in. `branch` is what the service tracks."""

    server: GitHttpServer
    path: str
    work: Path
    branch: str = "main"
    bare: Path = field(init=False)

    def __post_init__(self) -> None:
        self.bare = self.server.create(self.path, branch=self.branch)
        self.work.mkdir(parents=True)
        git("init", "--quiet", f"--initial-branch={self.branch}", at=self.work)
        git("remote", "add", "origin", str(self.bare), at=self.work)

    @property
    def url(self) -> str:
        """Where the service fetches from."""
        return self.server.url(self.path)

    def git(self, *arguments: str, stdin: bytes = b"", **environment: str) -> str:
        """The git CLI in the work clone."""
        return git(*arguments, at=self.work, stdin=stdin, **environment)

    def write(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """One file of the work clone; its folders come with it."""
        file = self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        file.chmod(0o755 if executable else 0o644)

    def write_tool(self, name: str, *, text: str | bytes | None = None, folder: str = "", **fields: Any) -> None:
        """tools/<folder or name>/TOOL.hdlp: a valid definition with these fields, or this text."""
        self.write(f"tools/{folder or name}/TOOL.hdlp", tool_text(name, **fields) if text is None else text)

    def remove_tool(self, name: str) -> None:
        """The whole folder goes."""
        shutil.rmtree(self.work / "tools" / name)

    def commit(
        self, message: str = "一次改动", *, author: str = "铸渊 <zhuyuan@example.org>", **environment: str
    ) -> str:
        """Everything in the work clone as a commit of `author`, empty ones too; its id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message, f"--author={author}", **environment)
        return self.head()

    def head(self) -> str:
        """The work clone's commit."""
        return self.git("rev-parse", "HEAD")

    def tip(self, branch: str | None = None) -> str:
        """What the served branch points to; zeros where it does not exist."""
        found = git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch or self.branch}", at=self.bare)
        return found or ZEROS

    def push(self, branch: str | None = None, *, force: bool = False) -> Push:
        """The work clone's HEAD to the served branch, through a real `git push`."""
        name = branch or self.branch
        before = self.tip(name)
        self.git("push", "--quiet", *(["--force"] if force else []), "origin", f"HEAD:refs/heads/{name}")
        return Push(before, self.tip(name), f"refs/heads/{name}")

    def place(self, commit: str, branch: str | None = None) -> Push:
        """Move the served branch without a push: to strange commits that git itself would not make."""
        name = branch or self.branch
        before = self.tip(name)
        git("update-ref", f"refs/heads/{name}", commit, at=self.bare)
        return Push(before, commit, f"refs/heads/{name}")

    def object(self, kind: str, content: bytes) -> str:
        """An object written to the served repository as it is, unchecked; its id."""
        return git("hash-object", "-w", "--literally", "-t", kind, "--stdin", at=self.bare, stdin=content)

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """A tree of (mode, name, object id) in exactly this order, unchecked; its id."""
        raw = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(sha) for mode, name, sha in entries)
        return self.object("tree", raw)

    def raw_commit(self, tree: str, *parents: str, author: bytes | None = None, extra: bytes = b"") -> str:
        """A commit whose author line(s) are given as bytes, unchecked; its id."""
        line = author or "author 铸渊 <zhuyuan@example.org> 1780000000 +0800\n".encode()
        lines = b"".join(f"parent {parent}\n".encode() for parent in parents)
        committer = b"committer c <c@example.org> 1780000000 +0000\n"
        return self.object("commit", f"tree {tree}\n".encode() + lines + line + committer + extra + "\n原样\n".encode())


def push_payload(
    repo: NativeRepo, push: Push, *, pusher: str = "zhuyuan", repository_id: int = 1, most: int = 15, **changes: Any
) -> bytes:
    """The body Forgejo 11 sends for `push`: commits newest first, at most `most` of them, two spaces of indentation.

    `changes` replaces top-level fields. The shape is that of a recorded delivery.
    """
    body = copy.deepcopy(PUSH)
    body.update(ref=push.ref, before=push.before, after=push.after)
    ids = _new_commits(repo, push)
    body["commits"] = [{**copy.deepcopy(PUSH["commits"][0]), "id": commit} for commit in ids[:most]]
    body["total_commits"] = len(ids)
    body["head_commit"] = None if set(push.after) == {"0"} else {**PUSH["head_commit"], "id": push.after}
    body["repository"]["id"] = repository_id
    for role in ("pusher", "sender"):
        body[role].update(login=pusher, username=pusher)
    body.update(changes)
    return json.dumps(body, ensure_ascii=False, indent=2).encode()


def _new_commits(repo: NativeRepo, push: Push) -> list[str]:
    if set(push.after) == {"0"} or push.before == push.after:
        return []
    wanted = [push.after] if set(push.before) == {"0"} else [push.after, f"^{push.before}"]
    return git("rev-list", *wanted, at=repo.bare).split()


def signature(body: bytes, secret: str = SECRET) -> str:
    """HMAC-SHA256 in lower-case hex, as Forgejo signs."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def signed_headers(body: bytes, *, secret: str = SECRET, event: str = "push") -> list[tuple[str, str]]:
    """All headers of a recorded delivery of type `forgejo`, in its order, for this body."""
    delivery, digest = str(uuid.uuid4()), signature(body, secret)
    sha1 = hmac.new(secret.encode(), body, hashlib.sha1).hexdigest()
    headers = [("User-Agent", "Go-http-client/1.1"), ("Content-Type", "application/json")]
    for family in ("Forgejo", "GitHub", "Gitea", "Gogs"):
        headers += [(f"X-{family}-Delivery", delivery), (f"X-{family}-Event", event), (f"X-{family}-Event-Type", event)]
        if family != "GitHub":
            headers.append((f"X-{family}-Signature", digest))
    return [*headers, ("X-Hub-Signature", f"sha1={sha1}"), ("X-Hub-Signature-256", f"sha256={digest}")]


@dataclass(frozen=True)
class Recorded:
    """One delivery as a Forgejo sent it: where to, its headers without Host, its bytes."""

    name: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def event(self) -> Any:
        """The body as JSON; None for a form."""
        return None if self.path == "/form" else json.loads(self.body)


def recorded_deliveries(version: str) -> list[Recorded]:
    """Every kept delivery of one Forgejo version, in order of arrival (tests/data/forgejo-deliveries/README.md)."""
    found = []
    for file in sorted((RECORDED / version).glob("[0-9]*.json")):
        told = json.loads(file.read_bytes())
        headers = [(name, value) for name, value in told["headers"] if name not in ("Host", "Content-Length")]
        found.append(Recorded(file.stem, told["path"], headers, file.with_suffix(".body").read_bytes()))
    return found
