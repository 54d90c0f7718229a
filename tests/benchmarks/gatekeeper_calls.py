"""Table gatekeeper: a call that the service passes on to the reference gatekeeper, against asking that one directly."""

import http.client
import json
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.benchmarks import repository
from tests.benchmarks.service import EXEC_WANTED, Service, free_port
from tests.benchmarks.sides import Side, measure_all, table_of

TOKEN: Final = "a-token-of-the-node"
NODE: Final = "BS-SG-001"
# What the command line does with these arguments, for a checkout whose command line does not know it yet.
_DIRECT: Final = """
import sys
from pathlib import Path
from service.gatekeeper.server import GatekeeperConfig, serve
port, token_file, root, state = sys.argv[1:]
token = Path(token_file).read_text()
serve(GatekeeperConfig(token, Path(state), (Path(root),), token_file=Path(token_file)), port=int(port))
"""


class Gatekeeper:
    """The reference gatekeeper as a process of its own, with one root folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._root = folder / "root"
        self._root.mkdir()
        self._token_file = folder / "token"
        self._token_file.touch(0o600)
        self._token_file.write_text(TOKEN, encoding="ascii")
        self.port = free_port()
        self._process = self._start("-m", "service", "gatekeeper", *self._options())
        self.by = "bitong gatekeeper"
        if not self._is_ready():
            self._process = self._start(
                *("-c", _DIRECT, str(self.port), str(self._token_file), str(self._root), str(folder / "state"))
            )
            self.by = "service.gatekeeper.server.serve"
            if not self._is_ready():
                raise RuntimeError(f"no gatekeeper: {(folder / 'gatekeeper.log').read_text(encoding='utf-8')[-2000:]}")

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def request(self) -> bytes:
        """The bytes of one `exec` as the service sends it; each has a run of its own, so that none is a repeat."""
        body = json.dumps(
            {
                "tool": "exec",
                "method": "exec",
                "params": {"cmd": "echo hello"},
                "timeout_ms": 30000,
                "max_output_bytes": 65536,
                "run_id": str(uuid.uuid4()),
            }
        ).encode()
        head = f"POST /exec HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _options(self) -> list[str]:
        return ["--port", str(self.port), "--token-file", str(self._token_file), "--root", str(self._root)]

    def _start(self, *command: str) -> "subprocess.Popen[bytes]":
        with (self._folder / "gatekeeper.log").open("wb") as log:
            return subprocess.Popen([sys.executable, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _is_ready(self) -> bool:
        end = time.monotonic() + 30
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return True
            time.sleep(0.02)
        return False


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    origin = repository.make(folder / "origin.git", {"tools/exec/TOOL.hdlp": repository.exec_text("gatekeeper")})
    with Gatekeeper(folder / "node") as node:
        nodes = {NODE: {"url": f"http://127.0.0.1:{node.port}", "token": TOKEN}}
        settings: dict[str, Any] = {"gatekeepers": nodes, "gatekeeper_default": NODE, "repository_url": origin}
        with Service(folder / "service", **settings) as service:
            asked = service.exec_request("exec", {"cmd": "echo hello"})
            sides = [
                Side("gatekeeper alone", node.port, node.pid, node.request, b"hello"),
                Side("bitong -> gatekeeper", service.port, service.pid, asked, EXEC_WANTED),
            ]
            measure_all(sides, quick=quick, rounds=3)
    table = table_of("gatekeeper: `echo hello` on another host's gatekeeper (here: loopback)", sides, floor="alone")
    table.note(f"the gatekeeper was started as {node.by}; CPU of the second row leaves out the gatekeeper's")
    table.show()
