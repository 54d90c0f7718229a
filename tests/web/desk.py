"""One real service in this process: real settings, database, mirror and processes, real HTTP on loopback."""

import json
import socket
import threading
import time
from pathlib import Path

import httpx
import uvicorn

from service.bitong import Bitong
from service.domain.actors import OPERATOR
from service.settings import load
from service.web.routing import Pools
from service.web.server import create_application
from tests.git_http import git
from tests.harness.forge import SECRET

MAX_PARAMS_BYTES = 65_536


class Desk:
    """The service, the repository that it tracks, and clients by what their tokens may. `more`: settings beside the usual."""

    def __init__(self, folder: Path, **more: str) -> None:
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
            **{f"BITONG_{name.upper()}": value for name, value in more.items()},
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

    def client(self, *scopes: str, tools: tuple[str, ...] | None = None) -> httpx.Client:
        """Somebody with these scopes, for these tools; nobody without any."""
        headers = {}
        if scopes:
            name = "-".join([*scopes, str(len(self._clients))])
            _, text = self.bitong.authority.issue(name, scopes, tools, None, OPERATOR)
            headers["Authorization"] = f"Bearer {text}"
        client = httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)
        return self.keep(client)

    def keep(self, client: httpx.Client) -> httpx.Client:
        """A client that is closed when this ends."""
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


def push_body(commit: str, ref: str = "refs/heads/main") -> bytes:
    """A push as the forge tells of it, in its smallest form."""
    repository = {"id": 1, "full_name": "zhuyuan/native-repo"}
    payload = {
        "ref": ref,
        "before": "1" * 40,
        "after": commit,
        "repository": repository,
        "pusher": {"login": "zhuyuan"},
    }
    return json.dumps(payload).encode()
