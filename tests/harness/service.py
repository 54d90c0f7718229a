"""A running Bitong: a real process with settings of its own, spoken to over HTTP and through the command line."""

import base64
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.harness.forge import SECRET, NativeRepo, Push, push_payload, signed_headers

API = "/api/v1"
ALL_SCOPES = ("read", "exec", "confirm", "admin")
START_S = 30.0
STOP_S = 20.0


def free_port() -> int:
    """A port the system has free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def eventually(check: Callable[[], Any], *, within_s: float = 15.0, every_s: float = 0.05) -> Any:
    """The first truthy answer of `check`; AssertionError with its last answer when the time is over."""
    end = time.monotonic() + within_s
    while not (answer := check()):
        assert time.monotonic() < end, f"not within {within_s} s; last answer: {answer!r}"
        time.sleep(every_s)
    return answer


def environment(settings: dict[str, Any], **extra: str) -> dict[str, str]:
    """A process environment with these settings and none of the caller's own BITONG_ variables."""
    dropped = ("BITONG_", "PYTHONDONTWRITEBYTECODE")  # without the latter each process compiles what changed again
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    told = {f"BITONG_{name.upper()}": _spell(value) for name, value in settings.items() if value is not None}
    return {**kept, "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8", **told, **extra}


def _spell(value: Any) -> str:
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def bitong(*arguments: str, env: dict[str, str], cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command line, run to its end."""
    command = [sys.executable, "-m", "service", *arguments]
    return subprocess.run(
        command,
        check=False,
        env=env,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


class BitongService:
    """One data folder and the service on it; `start`, `stop`, `kill`, and again `start` on the same folder.

    `settings` are names of contract/cli.md; what a test does not name is chosen for tests: a port of its own, a poll
    that never comes by itself, no sandbox.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings: dict[str, Any] = {
            "data_dir": str(folder / "data"),
            "host": "127.0.0.1",
            "port": self.port,
            "public_url": self.url,
            "repository_branch": "main",
            "webhook_secret": SECRET,
            "poll_interval_s": 3600,
            "shell_sandbox": "none",
            **settings,
        }
        self.hook_secret: str = self.settings["webhook_secret"] or SECRET
        self.variables: dict[str, str] = {}  # of the process's environment, beside the settings
        self.log = folder / "service.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: dict[str | None, httpx.Client] = {}
        self._tokens: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
        self._named = 0

    # The process

    @property
    def data_dir(self) -> Path:
        """Everything the service keeps."""
        return Path(self.settings["data_dir"])

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None

    def start(self, *, until: str | None = "/readyz") -> "BitongService":
        """Start the process and wait until `until` answers 200; None waits for nothing."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", "serve"],
                env=environment(self.settings, **self.variables),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if until is not None:
            eventually(lambda: self._answers(until), within_s=START_S, every_s=0.03)
        return self

    def _answers(self, path: str) -> bool:
        self.assert_lives()
        try:
            return self.anonymous.get(path, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """SIGTERM; it ends by itself, with 0, within time."""
        assert self.process is not None
        self._forget_clients()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"not ended {STOP_S} s after SIGTERM:\n{self.log_text()[-4000:]}") from None
        self.process = None
        assert code == 0, f"exit code {code} after SIGTERM:\n{self.log_text()[-4000:]}"

    def kill(self) -> None:
        """SIGKILL, at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        self._forget_clients()

    def assert_lives(self) -> None:
        """The process that was started is still there."""
        code = self.process.poll() if self.process else "none"
        assert code is None, f"the service ended by itself with {code}:\n{self.log_text()[-4000:]}"

    def log_text(self) -> str:
        """All it has said so far."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def close(self) -> None:
        """The end of every test: nothing is left over, it stops well, and the log verifies without it."""
        try:
            if self.process is not None:
                self.assert_lives()
                self.assert_nothing_is_left_over()
                self.stop()
                self.assert_verifies()
        finally:
            self.kill()

    # The command line

    def cli(self, *arguments: str, stdin: str = "", **extra: str) -> subprocess.CompletedProcess[str]:
        """A command with this service's settings in its environment; `extra` adds variables."""
        return bitong(*arguments, env=environment(self.settings, **extra), cwd=self.folder, stdin=stdin)

    def client_cli(self, *arguments: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command that talks to the API: it also knows the address and a token (all scopes unless given)."""
        return self.cli(*arguments, BITONG_URL=self.url, BITONG_TOKEN=token or self.token(*ALL_SCOPES))

    def token(self, *scopes: str, tools: tuple[str, ...] = (), name: str | None = None) -> str:
        """A token with these scopes and patterns, made once unless it is asked for by name.

        Those of a test's own name and the first one come from the command line, others from the API, which is quicker.
        """
        key = (scopes, tools)
        if name is None and key in self._tokens:
            return self._tokens[key]
        self._named += 1
        called = name or f"token-{self._named}"
        if name is None and self.running and (ALL_SCOPES, ()) in self._tokens:
            return self._tokens.setdefault(key, self._issued(called, scopes, tools))
        token = self._created(called, scopes, tools)
        return token if name else self._tokens.setdefault(key, token)

    def actor(self, name: str, *scopes: str, tools: tuple[str, ...] = ()) -> str:
        """A new token of this name, from the running service's API."""
        return self._issued(name, scopes, tools)

    def revoke(self, name: str) -> None:
        """End the token of this name."""
        done = self.cli("token", "revoke", name)
        assert done.returncode == 0, f"token revoke: {done.stderr}"

    def _created(self, name: str, scopes: tuple[str, ...], tools: tuple[str, ...]) -> str:
        arguments = ["token", "create", name]
        arguments += [part for scope in scopes for part in ("--scope", scope)]
        arguments += [part for pattern in tools for part in ("--tools", pattern)]
        done = self.cli(*arguments)
        assert done.returncode == 0, f"token create: {done.stderr}"
        token = done.stdout.strip()
        assert len(token.split()) == 1, f"the token alone was asked for: {done.stdout!r}"
        return token

    def _issued(self, name: str, scopes: tuple[str, ...], tools: tuple[str, ...]) -> str:
        asked = {"name": name, "scopes": scopes, **({"tools": tools} if tools else {})}
        answer = self.admin.post(f"{API}/tokens", json=asked)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    # HTTP

    def client(self, token: str | None) -> httpx.Client:
        """A client that shows this token, or none."""
        if token not in self._clients:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            self._clients[token] = httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60)
        return self._clients[token]

    def _forget_clients(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    @property
    def anonymous(self) -> httpx.Client:
        """Nobody."""
        return self.client(None)

    @property
    def admin(self) -> httpx.Client:
        """A token that may everything."""
        return self.client(self.token(*ALL_SCOPES))

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of one of the API's routes, as one who may everything; 200 is asked for."""
        answer = self.admin.get(API + path, params=query)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def items(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """A whole list, cursor by cursor."""
        return list(self._pages(path, query))

    def _pages(self, path: str, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        page = self.get(path, **{"limit": 1000, **query})
        yield from page["items"]
        while page["next"] is not None:
            page = self.get(path, **{"limit": 1000, **query, "cursor": page["next"]})
            yield from page["items"]

    def tools(self) -> dict[str, dict[str, Any]]:
        """The active tools by name."""
        return {tool["name"]: tool for tool in self.get("/tools")["items"]}

    def versions(self, tool: str) -> list[dict[str, Any]]:
        """One tool's history; empty where it has none."""
        if self.admin.get(f"{API}/tools/{tool}/versions").status_code == 404:
            return []
        return self.items(f"/tools/{tool}/versions")

    def exec(
        self, tool: str, params: dict[str, Any] | None = None, *, token: str | None = None, **fields: Any
    ) -> httpx.Response:
        """An exact call; `fields` stand beside `tool` and `params`."""
        client = self.client(token) if token else self.admin
        return client.post(f"{API}/exec", json={"tool": tool, "params": params or {}, **fields})

    def run(self, tool: str, params: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """An exact call that ran, well or not; its answer."""
        answer = self.exec(tool, params, **fields)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        return answer.json()  # type: ignore[no-any-return]

    def kept(self, run: str, stream: str = "stdout") -> bytes:
        """The bytes the service kept of one stream."""
        answer = self.admin.get(f"{API}/runs/{run}/{stream}")
        assert answer.status_code == 200, answer.text
        return answer.content

    # The forge

    def hook(self, body: bytes, headers: list[tuple[str, str]] | None = None) -> httpx.Response:
        """A delivery: these headers, or all that Forgejo sends, signed."""
        headers = signed_headers(body, secret=self.hook_secret) if headers is None else headers
        return self.anonymous.post("/hooks/forgejo", content=body, headers=headers)

    def sync(self) -> httpx.Response:
        """Look at the repository now, and come back when that is done."""
        return self.admin.post(f"{API}/sync", params={"wait": "true"})

    def deliver(self, repo: NativeRepo, push: Push, **payload: Any) -> dict[str, Any]:
        """Tell the service of a push as Forgejo does, and wait for what became of it; the delivery's row."""
        body = push_payload(repo, push, **payload)
        answer = self.hook(body)
        assert answer.status_code in (202, 204), f"{answer.status_code} {answer.text}"
        return self.outcome(body)

    def outcome(self, body: bytes, *, within_s: float = 20.0) -> dict[str, Any]:
        """The row of the delivery with this body, once it has an outcome."""
        row: dict[str, Any] = eventually(lambda: self._decided(body), within_s=within_s)
        return row

    def _decided(self, body: bytes) -> dict[str, Any] | None:
        row = self.delivery(body)
        return row if row and row["outcome"] else None

    def delivery(self, body: bytes) -> dict[str, Any] | None:
        """The row of the delivery with this body, decided or not."""
        digest = hashlib.sha256(body).hexdigest()
        return next((row for row in self.items("/deliveries") if row["body_sha256"] == digest), None)

    def push(self, repo: NativeRepo, *, force: bool = False, **payload: Any) -> dict[str, Any]:
        """Push what was committed, deliver the hook, wait; the delivery's row."""
        return self.deliver(repo, repo.push(force=force), **payload)

    # The record

    def entry(self, index: int) -> dict[str, Any]:
        """One entry of the log, its leaf recomputed here from its bytes (RFC 6962, section 2.1)."""
        entry: dict[str, Any] = self.get(f"/audit/entries/{index}")
        raw = base64.b64decode(entry["entry_b64"], validate=True)
        assert hashlib.sha256(b"\0" + raw).hexdigest() == entry["leaf"]
        return entry

    def facts(self, type: str, **wanted: Any) -> list[dict[str, Any]]:
        """The facts of this type's entries that say so, newest first, each with its `actor` and `index`."""
        found = [{**item["facts"], "actor": item["actor"], "index": item["index"]} for item in self._entries(type)]
        return [facts for facts in found if all(facts.get(name) == value for name, value in wanted.items())]

    def _entries(self, type: str) -> list[dict[str, Any]]:
        return [item for item in self.items("/audit", type=type) if item["type"] == type]

    def files_with(self, value: bytes) -> list[str]:
        """Files of the data folder whose bytes hold `value`; none is asked for where it is a secret."""
        return [str(file) for file in self.data_dir.rglob("*") if file.is_file() and value in file.read_bytes()]

    def assert_nothing_is_left_over(self) -> None:
        """No delivery without an outcome, no run left open, and a question for each run that waits for an answer."""
        if any(not row["outcome"] for row in self.items("/deliveries")):
            self.sync()
        undecided = [row for row in self.items("/deliveries") if not row["outcome"]]
        left = [row for state in ("started", "queued") for row in self.items("/runs", state=state)]

        assert undecided == []
        assert left == []
        eventually(self._each_waits_for_its_question, within_s=5)

    def _each_waits_for_its_question(self) -> bool:
        runs = {run["confirmation_id"] for run in self.items("/runs", state="awaiting_confirmation")}
        return runs == {row["id"] for row in self.items("/confirmations") if row["state"] == "waiting"}

    def assert_verifies(self) -> None:
        """The log verifies from the database file alone, without settings and without a service."""
        assert not self.running
        done = bitong(
            "audit", "verify", "--database", str(self.data_dir / "bitong.db"), env=environment({}), cwd=self.folder
        )
        assert done.returncode == 0, f"audit verify: {done.stdout}\n{done.stderr}"
