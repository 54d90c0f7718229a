"""The service as it really runs: a process of its own, spoken to over HTTP."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

EXEC_WANTED: Final = b'"output":"hello\\n"'
SECRET: Final = "a-secret-of-the-hook"
_START_S: Final = 120.0


def free_port() -> int:
    """A port the system has free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Service:
    """One data folder with a running service on it. `module`: what is started, `service.app` unless it is measured inside."""

    def __init__(self, folder: Path, *, module: str = "service.app", **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._module = module
        self._settings = {
            "data_dir": self.data,
            "port": self.port,
            "webhook_secret": SECRET,
            "repository_id": 1,
            "poll_interval_s": 3600,
            "shell_sandbox": "none",
            "max_runs": 64,
            "max_runs_per_token": 64,
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.token = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the process that serves."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        """Start it; seconds from there until `/readyz` answers 200. A first start also makes the token."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BITONG_")}
        told = {f"BITONG_{name.upper()}": _spell(value) for name, value in self._settings.items()}
        began = time.perf_counter()
        with (self.folder / "service.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module], env=kept | told, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        while not self._is_ready():
            if self._process.poll() is not None or time.perf_counter() - began > _START_S:
                log_text = (self.folder / "service.log").read_text(encoding="utf-8")
                raise RuntimeError(f"the service did not become ready:\n{log_text[-3000:]}")
            time.sleep(0.002)
        took = time.perf_counter() - began
        self._check_repository()
        if not self.token:
            self.token = self._new_token()
        return took

    def stop(self) -> None:
        """SIGTERM, and wait."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        """One request over a connection of its own; status and JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content.startswith((b"{", b"[")) else None
        finally:
            connection.close()

    def exec_request(self, tool: str, params: Mapping[str, Any]) -> bytes:
        """The bytes of a `POST /exec` with our token."""
        body = json.dumps({"tool": tool, "params": params}).encode()
        return self.request("POST", "/api/v1/exec", body)

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
        """The bytes of any request with our token."""
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self.token}"]
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def _is_ready(self) -> bool:
        try:
            return self.call("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _check_repository(self) -> None:
        """Ready is also who could not read its repository; nothing can be measured then."""
        _, answer = self.call("GET", "/readyz")
        state = answer["parts"]["repository"]["state"]
        if state != "ok":
            log_text = (self.folder / "service.log").read_text(encoding="utf-8")
            raise RuntimeError(f"the first look: {state}\n{log_text[-3000:]}")

    def _new_token(self) -> str:
        control = json.loads((self.data / "control.json").read_bytes())
        wanted = {"name": "bench", "scopes": ["read", "exec", "admin"]}
        status, answer = self.call("POST", "/api/v1/tokens", wanted, token=control["token"])
        if status not in (200, 201):
            raise RuntimeError(f"no token: {status} {answer}")
        return str(answer["token"])


def _spell(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | list | dict) else str(value)
