"""Real git over real HTTP on loopback: `git http-backend` behind a threaded server, with faults to order.

    with GitHttpServer(folder) as server:
        server.create("owner/native-repo.git")        # a bare repository that accepts pushes
        url = server.url("owner/native-repo.git")     # http://127.0.0.1:PORT/owner/native-repo.git

`folder` holds bare repositories, at any depth. Everything git can do over HTTP works: protocol v2, fetch, push.
"""

import base64
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, unquote

ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "作者",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_COMMITTER_NAME": "提交者",
    "GIT_COMMITTER_EMAIL": "committer@example.org",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
}


def git(*arguments: str | os.PathLike[str], at: Path | None = None, stdin: bytes = b"", **environment: str) -> str:
    """Run the git CLI with no configuration but the repository's own; its output without the last newline.

    `environment` overrides variables (`GIT_AUTHOR_DATE="…"`). Raises AssertionError with git's words when it fails.
    """
    done = subprocess.run(
        ["git", *map(os.fspath, arguments)],
        cwd=at,
        input=stdin,
        capture_output=True,
        env={**ENVIRONMENT, **environment},
    )
    assert done.returncode == 0, f"git {arguments}: {done.stderr.decode(errors='replace')}"
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came: method, path with query, whether its credentials were right, two of its headers."""

    method: str
    path: str
    authorized: bool
    protocol: str | None
    authorization: str | None


@dataclass(slots=True)
class Faults:
    """What to do wrong, for every request while it is set.

    `status`: answer this status (401, 404, 500 …) at once. `location`: with a 3xx status, where to send the caller.
    `hang`: read the request and never answer (until the server closes). `drop`: close without an answer.
    `cut`: send only the first N bytes of the answer's body, then close. `sleep_s`: wait before the real answer.
    `slow_s`: wait so long after each megabyte of the answer.
    `only`: let the fault apply only to requests whose path contains this text.
    """

    status: int | None = None
    location: str | None = None
    hang: bool = False
    drop: bool = False
    cut: int | None = None
    sleep_s: float = 0.0
    slow_s: float = 0.0
    only: str = ""


@dataclass(slots=True)
class _State:
    folder: Path
    user: str | None
    token: str | None
    requests: list[Request] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    closing: threading.Event = field(default_factory=threading.Event)


class GitHttpServer:
    """Serves every bare repository below `folder`; with `token`, only to Basic auth `user:token` (any user if None).

    `requests` lists what came since `forget()`; `faults` may be replaced or changed at any time; `prefix` is a sub-path
    such as `/code`, to which the repositories' paths are relative.
    """

    def __init__(self, folder: Path, *, user: str | None = None, token: str | None = None, prefix: str = "") -> None:
        self._state = _State(folder, user, token)
        self.folder = folder
        self.prefix = prefix.rstrip("/")
        handler = type("Handler", (_Handler,), {"state": self._state, "prefix": self.prefix})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port the system chose."""
        return int(self._server.server_address[1])

    @property
    def requests(self) -> list[Request]:
        """What came since the start or the last `forget()`, in order of arrival."""
        return list(self._state.requests)

    def forget(self) -> None:
        """Empty `requests`."""
        self._state.requests.clear()

    @property
    def faults(self) -> Faults:
        """What is done wrong now; `server.faults = Faults()` ends it."""
        return self._state.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._state.faults = faults

    def require(self, *, token: str | None, user: str | None = None) -> None:
        """Change the credentials asked for; a token of None asks for none."""
        self._state.user, self._state.token = user, token

    def url(self, path: str) -> str:
        """The address of the repository at `path` below the folder, without credentials."""
        return f"http://127.0.0.1:{self.port}{self.prefix}/{quote(path)}"

    def create(self, path: str, *, branch: str = "main", object_format: str = "sha1") -> Path:
        """A new, empty bare repository that takes pushes; its folder."""
        folder = self.folder / path
        folder.parent.mkdir(parents=True, exist_ok=True)
        git("init", "--quiet", "--bare", f"--initial-branch={branch}", f"--object-format={object_format}", folder)
        git("config", "http.receivepack", "true", at=folder)
        git("config", "uploadpack.allowAnySHA1InWant", "true", at=folder)  # as Forgejo sets it
        return folder

    def close(self) -> None:
        """Stop; requests that hang are let go."""
        self._state.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hung up is no event."""


class _Handler(BaseHTTPRequestHandler):
    state: _State
    prefix: str
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *arguments: object) -> None:
        """Silent."""

    def _serve(self) -> None:
        body = self._read_body()
        authorized = self._authorized()
        header = self.headers.get
        self.state.requests.append(
            Request(self.command, self.path, authorized, header("Git-Protocol"), header("Authorization"))
        )
        if self._misbehave():
            return
        if not authorized:
            self._answer(401, [("WWW-Authenticate", 'Basic realm="Gitea"')], b"Unauthorized\n")
            return
        path = unquote(self.path.partition("?")[0])
        if not path.startswith(self.prefix + "/"):
            self._answer(404, [], b"Not found\n")
            return
        self._run_backend(path[len(self.prefix) :], body)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _authorized(self) -> bool:
        if self.state.token is None:
            return True
        kind, _, text = (self.headers.get("Authorization") or "").partition(" ")
        if kind.lower() != "basic":
            return False
        user, _, token = base64.b64decode(text).decode("utf-8", "replace").partition(":")
        return token == self.state.token and self.state.user in (None, user)

    def _misbehave(self) -> bool:
        faults = self.state.faults
        if faults.only not in self.path:
            return False
        if faults.hang:
            self.state.closing.wait()
        if faults.sleep_s:
            self.state.closing.wait(faults.sleep_s)
        if faults.hang or faults.drop:
            self.close_connection = True
            return True
        if faults.status is not None:
            location = [("Location", faults.location)] if faults.location else []
            self._answer(faults.status, location, b"as ordered\n")
            return True
        return False

    def _run_backend(self, path: str, body: bytes) -> None:
        environment = {
            **ENVIRONMENT,
            "GIT_PROJECT_ROOT": os.fspath(self.state.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": self.path.partition("?")[2],
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_ADDR": "127.0.0.1",
            "REMOTE_USER": "tester",
        }
        for header, variable in (("Git-Protocol", "GIT_PROTOCOL"), ("Content-Encoding", "HTTP_CONTENT_ENCODING")):
            if value := self.headers.get(header):
                environment[variable] = value
        backend = [shutil.which("git") or "git", "http-backend"]
        done = subprocess.run(backend, input=body, capture_output=True, env=environment)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode("latin-1").split("\r\n") if ": " in line]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200 if head else 500)
        self._answer(status, [(name, value) for name, value in headers if name != "Status"], content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        faults = self.state.faults if self.state.faults.only in self.path else Faults()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if faults.cut is not None:
            content, self.close_connection = content[: faults.cut], True
        for start in range(0, len(content), 1 << 20):
            self.wfile.write(content[start : start + (1 << 20)])
            if faults.slow_s:
                self.state.closing.wait(faults.slow_s)
