"""The reference gatekeeper as a process of its own, as it would stand on another server."""

import subprocess
import sys
from pathlib import Path

import httpx

from tests.harness.service import environment, eventually, free_port

TOKEN = "a-token-of-the-node"


class ReferenceGatekeeper:
    """`bitong gatekeeper` on a port of its own, with one root folder it may read and write."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.root = folder / "root"
        self.root.mkdir()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        token_file = folder / "token"
        token_file.touch(0o600)
        token_file.write_text(TOKEN)
        self.log = folder / "gatekeeper.log"
        command = ["gatekeeper", "--port", str(self.port), "--token-file", str(token_file), "--root", str(self.root)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", *command],
                env=environment({}),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually(self._answers, within_s=30)

    @property
    def settings(self) -> dict[str, object]:
        """What a service needs to know this node, as its default one."""
        nodes = {"BS-SG-001": {"url": self.url, "token": TOKEN}}
        return {"gatekeepers": nodes, "gatekeeper_default": "BS-SG-001"}

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text("utf-8", "replace")
        try:
            return httpx.get(f"{self.url}/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """SIGTERM, then the end."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
