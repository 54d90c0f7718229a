"""`bitong hook post-receive` in a real bare repository, on real pushes, against a server that checks what comes."""

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.git_http import git
from tests.harness.forge import signature
from tests.harness.service import bitong, environment, free_port

SECRET = "a-secret-钥匙"
ZEROS = "0" * 40


@dataclass
class Receiver:
    """Takes deliveries, and answers `status`."""

    url: str = ""
    status: int = 202
    taken: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """(event, payload) in order of arrival, each one signed as Forgejo signs."""
        for headers, body in self.taken:
            assert headers["x-forgejo-signature"] == signature(body, SECRET)
            assert headers["x-hub-signature-256"] == f"sha256={signature(body, SECRET)}"
            assert headers["content-type"] == "application/json"
            assert len(headers["x-forgejo-delivery"]) == 36
        return [(headers["x-forgejo-event"], json.loads(body)) for headers, body in self.taken]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.taken.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hooks/forgejo"
    yield receiver
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Repository:
    """A bare repository and a clone of it."""

    bare: Path
    work: Path

    def commit(self, message: str = "一次改动") -> str:
        git("commit", "--quiet", "--allow-empty", "-m", message, at=self.work)
        return git("rev-parse", "HEAD", at=self.work)

    def push(self, *refs: str, **variables: str) -> str:
        """A real push; what the pusher reads on standard error."""
        done = subprocess.run(
            ["git", "push", "--quiet", str(self.bare), *refs],
            cwd=self.work,
            env=environment({}, GIT_CONFIG_GLOBAL="/dev/null", **variables),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr


@pytest.fixture
def repository(tmp_path: Path, receiver: Receiver) -> Repository:
    """With the hook installed."""
    secret = tmp_path / "webhook.secret"
    secret.write_text(f"{SECRET}\n", "utf-8")
    bare, work = tmp_path / "srv" / "native-repo.git", tmp_path / "work"
    git("init", "--quiet", "--bare", "--initial-branch=main", bare)
    git("init", "--quiet", "--initial-branch=main", work)
    command = [sys.executable, "-m", "service", "hook", "post-receive", "--url", receiver.url]
    hook = bare / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec {shlex.join([*command, '--secret-file', str(secret), '--repository-id', '7'])}\n")
    hook.chmod(0o755)
    return Repository(bare, work)


def test_a_push_is_told_as_the_forge_would_tell_it(repository: Repository, receiver: Receiver) -> None:
    """The shape of Forgejo's push payload: a new branch from zeros, then an update with its commits, newest first."""
    first = repository.commit()
    repository.push("main", REMOTE_USER="铸渊")
    second, third = repository.commit(), repository.commit()
    repository.push("main", REMOTE_USER="铸渊")

    (event, new), (_, update) = receiver.events()
    assert event == "push"
    assert (new["ref"], new["before"], new["after"]) == ("refs/heads/main", ZEROS, first)
    assert (update["before"], update["after"], update["total_commits"]) == (first, third, 2)
    assert [commit["id"] for commit in update["commits"]] == [third, second]
    assert update["head_commit"]["id"] == third
    assert (update["repository"]["id"], update["repository"]["full_name"]) == (7, "srv/native-repo")
    assert update["pusher"]["login"] == update["sender"]["login"] == "铸渊"


def test_each_ref_of_a_push_is_told_by_itself(repository: Repository, receiver: Receiver) -> None:
    """Branches and tags of one push; a deleted branch as Forgejo's delete event, which has no commits (facts 2.2)."""
    repository.commit()
    repository.push("main", "HEAD:refs/heads/other", "HEAD:refs/tags/v1")
    repository.push(":refs/heads/other", ":refs/tags/v1")

    told = {(event, payload["ref"], payload.get("after") == ZEROS) for event, payload in receiver.events()}
    deleted = next(payload for event, payload in receiver.events() if event == "delete")
    assert told == {
        ("push", "refs/heads/main", False),
        ("push", "refs/heads/other", False),
        ("push", "refs/tags/v1", False),
        ("delete", "refs/heads/other", False),
        ("push", "refs/tags/v1", True),
    }
    assert (deleted["ref_type"], deleted["pusher_type"]) == ("branch", "user")
    assert not {"before", "after", "commits"} & deleted.keys()


def test_the_pusher_is_whom_the_server_knows_and_not_what_git_is_told(
    repository: Repository, receiver: Receiver
) -> None:
    """REMOTE_USER of a git server before the account of the host; git's own user.name anybody may write."""
    repository.commit()
    repository.push("main", USER="account", REMOTE_USER="", GIT_AUTHOR_NAME="somebody else")

    assert receiver.events()[0][1]["pusher"]["login"] == "account"


@pytest.mark.parametrize("status", [401, 503, 302])
def test_an_answer_that_refuses_is_told_to_the_pusher_and_fails_nothing(
    repository: Repository, receiver: Receiver, status: int
) -> None:
    """The push already happened; a redirect is not followed, since it would lose the body."""
    receiver.status = status
    repository.commit()

    said = repository.push("main")

    assert str(status) in said
    assert "Bitong was not told" in said
    assert len(receiver.taken) == 1


@pytest.mark.parametrize("url", [None, "ftp://127.0.0.1/", "nothing", "http://127.0.0.1:99999/"])
def test_a_service_that_cannot_be_reached_fails_nothing(tmp_path: Path, url: str | None) -> None:
    """One sentence in each language, exit 0, and no traceback, whatever the address is."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET, "utf-8")
    url = url or f"http://127.0.0.1:{free_port()}/hooks/forgejo"
    arguments = ("hook", "post-receive", "--url", url, "--secret-file", str(secret))

    done = bitong(*arguments, env=environment({}), cwd=tmp_path, stdin=f"{ZEROS} {'1' * 40} refs/heads/main\n" * 2)

    assert (done.returncode, done.stdout) == (0, "")
    assert len(done.stderr.splitlines()) == 2
    assert SECRET not in done.stderr


def test_a_secret_that_cannot_be_read_fails_nothing(tmp_path: Path) -> None:
    """The pusher cannot mend it."""
    arguments = ("hook", "post-receive", "--url", "http://127.0.0.1:1/", "--secret-file", str(tmp_path / "none"))

    done = bitong(*arguments, env=environment({}), cwd=tmp_path, stdin=f"{ZEROS} {'1' * 40} refs/heads/main\n")

    assert done.returncode == 0
    assert "Bitong was not told" in done.stderr


def test_the_hook_loads_nothing_that_makes_a_push_wait(tmp_path: Path, receiver: Receiver) -> None:
    """The pusher waits for its start: typer, rich and httpx stay out."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET, "utf-8")
    command = [sys.executable, "-X", "importtime", "-m", "service", "hook", "post-receive"]

    done = subprocess.run(
        [*command, "--url", receiver.url, "--secret-file", str(secret)],
        input=f"{ZEROS} {'1' * 40} refs/tags/v1\n",
        cwd=tmp_path,
        env=environment({}),
        capture_output=True,
        text=True,
    )

    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert len(receiver.events()) == 1
    assert {"service.cli.hook"} <= loaded
    assert loaded & {"typer", "rich", "httpx", "sqlalchemy", "starlette", "yaml"} == set()
