"""Sentences of contract/registration.md that did not hold: real git, real SQLite, looks as the service makes them."""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest
from sqlalchemy import text

from service.domain.deliveries import Delivery
from service.domain.times import now, uuid7
from service.domain.tools import Tool, ToolVersion
from service.intake.identity import RepositoryIdentity
from service.intake.ingest import Ingest, Look
from service.intake.mirror.looking import Mirror
from service.intake.receive import Receiver
from service.intake.worker import Worker
from service.store import deliveries, tools
from service.store.database import Database
from service.store.migrations import ensure_schema
from tests.git_http import git
from tests.harness.definitions import tool_text
from tests.harness.forge import PUSH, SECRET, signed_headers
from tests.harness.service import eventually

BROKEN = "name: [\n"


class Registry:
    """A repository written with git's own commands, and what the service makes of its branch `main`."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "repo"
        self.repo.mkdir()
        git("init", "--quiet", "--initial-branch=main", at=self.repo)
        ensure_schema(folder / "bitong.db")
        self.database = Database(folder / "bitong.db")
        self.mirror = Mirror(folder=folder / "mirror.git", url=str(self.repo), branch="main")
        self.ingest = self._new_ingest()

    def _new_ingest(self) -> Ingest:
        return Ingest(self.database, self.mirror, branch="main", tools_path="tools", repository_id=lambda: None)

    def close(self) -> None:
        self.mirror.close()
        self.database.close()

    # The repository

    def write(self, path: str, content: str | bytes) -> None:
        file = self.repo / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def write_tool(self, name: str, **fields: Any) -> None:
        self.write(f"tools/{name}/TOOL.hdlp", tool_text(name, **fields))

    def commit(self, author: str = "铸渊 <zhuyuan@example.org>") -> str:
        git("add", "--all", at=self.repo)
        git("commit", "--quiet", "--allow-empty", "-m", "改动", f"--author={author}", at=self.repo)
        return git("rev-parse", "HEAD", at=self.repo)

    def go(self, *arguments: str) -> None:
        git(*arguments, at=self.repo)

    # The registry

    def look(self, *, full: bool = False) -> Look:
        look = self.ingest.look(full=full)
        assert look.outcome != "failed", look
        return look

    def place(self, commit: str) -> Look:
        """The branch is put at a commit by force, and looked at."""
        self.go("reset", "--quiet", "--hard", commit)
        return self.look()

    def tool(self, name: str) -> Tool:
        """As everybody reads it: from the index."""
        found = [tool for tool in self.ingest.index.named(_ALL) if tool.name == name]
        assert found, f"{name} is not in the index"
        return found[0]

    def versions(self, name: str) -> list[ToolVersion]:
        with self.database.read() as connection:
            return tools.versions(connection, name)

    def rejections(self, name: str) -> list[Any]:
        with self.database.read() as connection:
            return list(tools.list_rejections(connection, before=None, limit=100, tool=name))

    def log(self, kind: str) -> int:
        """How many entries of one type the log has."""
        with self.database.read() as connection:
            asked = text("select count(*) from log_entries where type = :kind")
            return int(connection.execute(asked, {"kind": kind}).scalar_one())

    def deliver(self, before: str | None, after: str, pusher: str) -> str:
        """A signed push was received and kept; its body's hash."""
        digest = hashlib.sha256(os.urandom(8)).hexdigest()
        delivery = Delivery(uuid7(), now(), "push", "refs/heads/main", 1, "o/r", pusher, before, after, digest)
        self.database.write(lambda transaction: deliveries.keep(transaction.connection, delivery, transaction.now))
        return digest

    def outcome(self, digest: str) -> Delivery:
        with self.database.read() as connection:
            rows = deliveries.listed(connection, before=None, limit=100)
        return next(delivery for _, delivery in rows if delivery.body_sha256 == digest)


class _Everybody:
    def sees(self, _tool: str) -> bool:
        return True


_ALL: Any = _Everybody()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path)
    yield made
    made.close()


# Faults


def test_what_a_failed_look_had_read_is_registered_when_the_branch_comes_back_to_it(registry: Registry) -> None:
    """G11, G24: a look that fails half-way has staged commits; publishing another branch must not call them registered."""
    registry.write_tool("base")
    base = registry.commit()
    registry.look()
    for group in ("one", "two"):
        for number in range(5):
            registry.write_tool(f"big-{group}-{number}")
            registry.write(f"tools/big-{group}-{number}/data", os.urandom(1 << 20))
        good = registry.commit()
    registry.write_tool("lost")
    registry.commit()
    lost = registry.repo / ".git/objects" / _loose(git("rev-parse", "HEAD:tools/lost/TOOL.hdlp", at=registry.repo))
    lost.unlink()
    assert registry.ingest.look().outcome == "failed"
    registry.go("reset", "--quiet", "--hard", base)
    registry.write_tool("elsewhere")
    registry.commit()
    registry.look()

    registry.place(good)

    assert registry.tool("big-one-0").state == "active"
    assert len(registry.versions("big-one-0")) == 1


def _loose(object_id: str) -> str:
    return f"{object_id[:2]}/{object_id[2:]}"


# Removed: where, when and by whom


def test_a_merge_that_takes_the_side_without_the_folder_removes_the_tool(registry: Registry) -> None:
    """G12, G14: the merge removed it, not the commit that wrote it; and the last version that ran is still named."""
    registry.write("README", "x")
    base = registry.commit()
    registry.write_tool("foo")
    wrote = registry.commit(author="writer <w@example.org>")
    registry.look()
    registry.go("switch", "--quiet", "--create", "side", base)
    registry.write("other", "y")
    other = registry.commit()
    tree = git("rev-parse", f"{other}^{{tree}}", at=registry.repo)
    merge = git("commit-tree", tree, "-p", wrote, "-p", other, "-m", "merge", at=registry.repo)
    registry.go("switch", "--quiet", "main")

    registry.place(merge)

    foo = registry.tool("foo")
    assert foo.state == "removed"
    assert foo.removed_commit == merge
    assert foo.version is not None
    assert foo.version.commit == wrote


def test_a_tool_is_removed_once_though_its_leftover_files_change(registry: Registry) -> None:
    """G14: removed where TOOL.hdlp went away; who later tidies the leftover files did not remove it."""
    registry.write_tool("foo")
    registry.write("tools/foo/notes", "1")
    registry.commit()
    registry.look()
    (registry.repo / "tools/foo/TOOL.hdlp").unlink()
    removed = registry.commit(author="remover <r@example.org>")
    assert registry.look().removed == ("foo",)
    registry.write("tools/foo/notes", "2")
    registry.commit(author="tidier <t@example.org>")

    second = registry.look()

    assert second.removed == ()
    assert registry.tool("foo").removed_commit == removed
    assert registry.log("definition.removed") == 1


def test_the_end_of_leftover_files_is_no_second_removal(registry: Registry) -> None:
    """G14: the same when at last the folder goes."""
    registry.write_tool("foo")
    registry.write("tools/foo/notes", "1")
    registry.commit()
    registry.look()
    (registry.repo / "tools/foo/TOOL.hdlp").unlink()
    removed = registry.commit(author="remover <r@example.org>")
    registry.look()
    (registry.repo / "tools/foo/notes").unlink()
    registry.commit(author="tidier <t@example.org>")

    registry.look()

    assert registry.tool("foo").removed_commit == removed


def test_removals_are_the_same_at_once_and_commit_by_commit(tmp_path: Path) -> None:
    """G24: which commit removed a tool follows from the history alone, also after a merge turned the line round."""
    at_once, step_by_step = Registry(_made(tmp_path / "a")), Registry(_made(tmp_path / "b"))
    try:
        found = []
        for registry, steps in ((at_once, False), (step_by_step, True)):
            tips = _turned_round(registry)
            for tip in tips if steps else tips[-1:]:
                registry.place(tip)
            foo = registry.tool("foo")
            found.append((foo.state, foo.removed_commit))
        assert found[0] == found[1]
    finally:
        at_once.close()
        step_by_step.close()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _turned_round(registry: Registry) -> list[str]:
    """A merge that left `foo` behind on its other side; then a merge whose first parent is another line."""

    def commit(tree: str, *parents: str) -> str:
        dated = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
        above = [part for parent in parents for part in ("-p", parent)]
        return git("commit-tree", tree, *above, "-m", "x", at=registry.repo, **dated)

    registry.write("README", "x")
    registry.go("add", "--all")
    plain = git("write-tree", at=registry.repo)
    registry.write_tool("foo")
    registry.go("add", "--all")
    with_foo = git("write-tree", at=registry.repo)
    base = commit(plain)
    wrote = commit(with_foo, base)
    dropped = commit(plain, base, wrote)
    other = commit(plain, base, base)
    return [dropped, commit(plain, other, dropped)]


# Who


def test_a_pusher_told_late_is_seen_by_everybody(registry: Registry) -> None:
    """W22, W24: a poll was quicker than the hook; the index says who pushed as soon as it is known."""
    registry.write_tool("foo")
    before = registry.commit()
    registry.look()
    registry.write_tool("foo", display="新")
    after = registry.commit()
    registry.look()
    revision = registry.ingest.index.revision
    registry.deliver(before, after, "who")

    registry.look()

    assert registry.versions("foo")[0].pusher == "who"
    shown = registry.tool("foo").version
    assert shown is not None
    assert shown.pusher == "who"
    assert registry.ingest.index.revision > revision  # or an ETag would hide it


def test_a_rejection_also_learns_its_pusher_late(registry: Registry) -> None:
    """Who: `pusher` of what could not be registered is the same claim of the same delivery."""
    registry.write_tool("foo")
    before = registry.commit()
    registry.look()
    registry.write("tools/foo/TOOL.hdlp", BROKEN)
    after = registry.commit()
    registry.look()
    registry.deliver(before, after, "who")

    registry.look()

    assert [row["pusher"] for row in registry.rejections("foo")] == ["who"]


def test_a_delivery_waits_while_the_forge_has_not_said_which_repository_is_tracked(registry: Registry) -> None:
    """R10: the API being away makes nobody's delivery another repository's: it looks at once, and counts later."""
    registry.write_tool("foo")
    before = registry.commit()
    with _Forge() as forge:
        identity = RepositoryIdentity(
            fixed=None, repository_url="http://forge.example/o/r.git", api_url=forge.url, token=None
        )
        ingest = Ingest(
            registry.database,
            registry.mirror,
            branch="main",
            tools_path="tools",
            repository_id=identity,
            before=identity.resolve,
        )
        looks: list[Look] = []
        worker = Worker(ingest, interval_s=3600, looked=looks.append)
        worker.start()
        eventually(lambda: looks)
        registry.write_tool("foo", display="新")
        after = registry.commit()
        receiver = Receiver(
            registry.database, worker, secrets={"current": SECRET}, branch="main", repository_id=identity
        )
        body = json.dumps(PUSH | {"ref": "refs/heads/main", "before": before, "after": after}).encode()
        headers = [(name.encode(), value.encode()) for name, value in signed_headers(body)]

        received = receiver.receive(body, headers)
        forge.knows(PUSH["repository"]["id"])
        worker.ask().result(20)
        worker.stop()

    assert received.outcome is None
    assert registry.versions("foo")[0].pusher == PUSH["pusher"]["login"]
    assert registry.outcome(received.body_sha256).outcome in ("applied", "unchanged")


class _Forge:
    """A forge's API that answers 503 until it is told what to know."""

    def __init__(self) -> None:
        told: list[int] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"id": told[0]}).encode() if told else b""
                self.send_response(200 if told else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Silent."""

        self.knows = told.append
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/api/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


# Outcomes, and looks that find nothing new


def test_a_look_at_everything_again_rejects_nothing_twice(registry: Registry) -> None:
    """G24: imported twice is imported once, in the log too."""
    registry.write_tool("foo")
    registry.commit()
    registry.write("tools/foo/TOOL.hdlp", BROKEN)
    registry.commit()
    registry.look()

    again = registry.look(full=True)

    assert (again.outcome, again.rejected) == ("unchanged", ())
    assert registry.log("definition.rejected") == 1


def test_a_look_after_which_other_versions_run_is_not_unchanged(registry: Registry) -> None:
    """G13: a force-push back changes what runs; its delivery must not say that nothing changed."""
    registry.write_tool("foo")
    old = registry.commit()
    registry.write_tool("foo", display="新")
    new = registry.commit()
    registry.look()
    digest = registry.deliver(new, old, "who")

    registry.place(old)

    assert registry.tool("foo").version.commit == old  # type: ignore[union-attr]
    assert registry.outcome(digest).outcome == "applied"


def test_a_name_that_never_was_valid_and_is_gone_is_unknown_again(registry: Registry) -> None:
    """G24: a force-push away from an invalid definition leaves what a fresh import of the tip would."""
    registry.write_tool("foo")
    base = registry.commit()
    registry.look()
    registry.write("tools/never/TOOL.hdlp", BROKEN)
    registry.commit()
    registry.look()

    registry.place(base)

    assert [tool.name for tool in registry.ingest.index.named(_ALL)] == ["foo"]


# Orphaned


def test_the_objects_of_an_orphan_are_kept_from_the_look_that_orphaned_it(registry: Registry, tmp_path: Path) -> None:
    """G21: it keeps its objects by a local ref, also when the source is pruned right after the force-push."""
    registry.write_tool("foo")
    base = registry.commit()
    registry.look()
    registry.write_tool("gone")
    gone = registry.commit()
    registry.look()
    registry.place(base)
    (registry.repo / ".git/ORIG_HEAD").unlink(missing_ok=True)
    registry.go("reflog", "expire", "--expire=now", "--all")
    registry.go("gc", "--quiet", "--prune=now")

    registry.look()

    assert registry.tool("gone").state == "orphaned"
    kept = tmp_path / "mirror.git"
    assert git("cat-file", "-t", f"{gone}:tools/gone/TOOL.hdlp", at=kept) == "blob"
    assert gone in git("for-each-ref", "--format=%(objectname)", at=kept).split()


def test_what_a_collision_kept_from_running_is_orphaned_like_all_else(registry: Registry) -> None:
    """G13: exec answers `orphaned` and not `unknown-tool`, so the name knows its newest version."""
    registry.write_tool("a-b")
    base = registry.commit()
    registry.write_tool("a_b")
    loser = registry.commit()
    registry.look()

    registry.place(base)

    orphan = registry.tool("a_b")
    assert orphan.state == "orphaned"
    assert orphan.version is not None
    assert orphan.version.commit == loser


# Collisions


def test_a_name_that_collides_with_another_than_before_says_so(registry: Registry) -> None:
    """G16: whose winner changes by force-push; the rejection names the one that stays now."""
    registry.write("README", "x")
    base = registry.commit()
    registry.write_tool("a-b")
    registry.commit()
    registry.write_tool("A_b")
    registry.commit()
    registry.write_tool("a_b")
    registry.commit()
    registry.look()
    assert registry.tool("a-b").state == "active"
    registry.go("reset", "--quiet", "--hard", base)
    registry.write_tool("A_b")
    registry.commit()
    registry.write_tool("a_b")
    registry.commit()
    registry.look()

    current = [row for row in registry.rejections("a_b") if row["current"]]
    assert len(current) == 1
    assert "A_b" in json.loads(current[0]["problems"])[0]["en"]
    assert registry.tool("a-b").state == "orphaned"
