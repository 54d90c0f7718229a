"""One real service in this process: real settings, database, mirror and processes, real HTTP on loopback."""

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from service.app import Bitong
from service.domain.actors import OPERATOR
from service.settings import load
from service.web.routing import Pools
from service.web.server import API, create_application
from tests.git_http import git
from tests.harness.definitions import shell_exec_text, tool_text
from tests.harness.forge import SECRET

MAX_PARAMS_BYTES = 65_536


class Desk:
    """The service, the repository that it tracks, and clients by what their tokens may."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "native-repo"
        self.repository.mkdir(parents=True)
        git("init", "--quiet", "--initial-branch=main", at=self.repository)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        settings = {
            "BITONG_DATA_DIR": str(folder / "data"),
            "BITONG_PUBLIC_URL": self.url,
            "BITONG_REPOSITORY_URL": str(self.repository),
            "BITONG_WEBHOOK_SECRET": SECRET,
            "BITONG_POLL_INTERVAL_S": "3600",
            "BITONG_SHELL_SANDBOX": "none",
            "BITONG_MAX_PARAMS_BYTES": str(MAX_PARAMS_BYTES),
        }
        self.bitong = Bitong(load(settings))
        self._pools = Pools({"exec": 4, "hooks": 2, "reads": 4, "sync": 2})
        application = create_application(self.bitong.parts(), self._pools, allowed_hosts=(), metrics_public=False)
        config = uvicorn.Config(application, ws="none", lifespan="off", log_config=None, access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})
        self._clients: list[httpx.Client] = []

    def start(self) -> None:
        """Look for the first time, then serve."""
        self.bitong.start()
        self._thread.start()
        assert self.bitong.worker.first_look_ended.wait(20)
        while not self._server.started:
            time.sleep(0.005)

    def close(self) -> None:
        """End everything."""
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self._thread.join(20)
        self._pools.close()
        self.bitong.close()
        self._listener.close()

    def client(self, *scopes: str) -> httpx.Client:
        """Somebody with these scopes; nobody without any."""
        headers = {}
        if scopes:
            name = "-".join([*scopes, str(len(self._clients))])
            _, text = self.bitong.authority.issue(name, scopes, None, None, OPERATOR)
            headers["Authorization"] = f"Bearer {text}"
        client = httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)
        self._clients.append(client)
        return client

    def commit(self, **tools: str | None) -> str:
        """Write (None: remove) these TOOL.hdlp, commit; `_` in a name stands for `-`. The commit's id."""
        for name, text in tools.items():
            file = self.repository / "tools" / name.replace("_", "-") / "TOOL.hdlp"
            if text is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        git("add", "--all", at=self.repository)
        git("commit", "--quiet", "--message", "一次改动", at=self.repository)
        return git("rev-parse", "HEAD", at=self.repository)


GREETING: dict[str, Any] = {
    "command": ["printf", "%s %s", "{word}", "{count}"],
    "params_schema": {
        "word": {"type": "string", "enum": ["hello", "你好"], "default": "hello", "description": "说什么"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "list": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "max_length": 3},
    },
    "constraints": {"timeout_ms": 5000},
    "effect": "read",
    "deprecated": "请改用 shell-exec",
    "examples": ["打个招呼"],
}


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A registry with a history: versions, a rejection, a removed tool, one that needs a node, one that asks first."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.commit(
        shell_exec=shell_exec_text(constraints={"timeout_ms": 20000, "max_output_bytes": 1000}),
        greet=tool_text("greet", **GREETING),
        gone=tool_text("gone"),
        far=tool_text("far", executor="gatekeeper", method="run", command=["uname"], node="BS-SG-001"),
        asks=tool_text("asks", constraints={"require_confirm": True}),
        wrong="name: wrong\nintent: [\n",
    )
    desk.commit(greet=tool_text("greet", **{**GREETING, "why": "换了说法。"}), gone=None)
    desk.commit(greet=tool_text("greet", without=("why",), **GREETING))
    desk.start()
    yield desk
    desk.close()


def signed_body(desk: Desk, commit: str, ref: str = "refs/heads/main") -> bytes:
    """A push as the forge tells of it, in its smallest form."""
    repository = '{"id": 1, "full_name": "zhuyuan/native-repo"}'
    digest = hashlib.sha1(desk.url.encode()).hexdigest()
    return (
        f'{{"ref": "{ref}", "before": "{digest}", "after": "{commit}", "repository": {repository}, '
        '"pusher": {"login": "zhuyuan"}}'
    ).encode()


@pytest.fixture(scope="session")
def everything(desk: Desk) -> httpx.Client:
    """Somebody who may everything."""
    return desk.client("read", "exec", "confirm", "admin")


__all__ = ["API", "Desk", "desk", "everything", "signed_body"]
