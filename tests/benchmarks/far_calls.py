"""Table far: a call that the service passes on to an HTTP API, against asking that API directly."""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import repository
from tests.benchmarks.service import Service, free_port
from tests.benchmarks.sides import Side, measure_all, table_of

WANTED: Final = b"hello"
TOOL: Final = """name: {name}
display: 远端
intent: 问一问远端
method: {method}
executor: {executor}
params_schema:
  {parameter}: {{ type: string, required: true, description: "一段路径" }}
constraints: {{}}
author: ICE-GL-ZY001
created: 2026-05-31
why: 量一量经过我们要多久。
"""
# Answers every request alike: the least that a far side can cost.
_FAR_SIDE: Final = """
import asyncio, sys
BODY = b'{"ok": true, "said": "hello"}'
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(BODY)
async def serve(reader, writer):
    try:
        while await reader.readuntil(b"\\r\\n\\r\\n"):
            writer.write(HEAD + BODY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
"""


def run(folder: Path, *, quick: bool) -> None:
    """Print the table."""
    origin = repository.make(folder / "origin.git", _tools())
    port = free_port()
    far = subprocess.Popen([sys.executable, "-c", _FAR_SIDE, str(port)], stdin=subprocess.DEVNULL)
    try:
        _await(port)
        url = f"http://127.0.0.1:{port}"
        settings: dict[str, Any] = {"hlpd_api_url": url, "forgejo_url": f"{url}/api/v1", "forgejo_tools_token": "t"}
        with Service(folder / "service", repository_url=origin, **settings) as service:
            sides = _sides(service, port, far.pid)
            measure_all(sides, quick=quick, rounds=3)
    finally:
        far.terminate()
        far.wait()
    table = table_of("far: one request to another API (here: loopback)", sides, floor="alone")
    table.note("aim: at c1 p50 no more than 2.5 ms of our own over the bare call, two durable records included")
    table.show()


def _tools() -> dict[str, str]:
    hlpd = TOOL.format(name="hlpd", method="GET /personas/{who}", executor="hlpd-api", parameter="who")
    forge = TOOL.format(name="forge", method="orgGet", executor="git-forgejo", parameter="org")
    return {"tools/hlpd/TOOL.hdlp": hlpd, "tools/forge/TOOL.hdlp": forge}


def _sides(service: Service, port: int, pid: int) -> list[Side]:
    bare = b"GET /personas/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    asked = {"hlpd": {"who": "x"}, "forge": {"org": "x"}}
    ours = {name: service.exec_request(name, params) for name, params in asked.items()}
    return [
        Side("the API alone", port, pid, bare, WANTED),
        Side("bitong -> hlpd-api", service.port, service.pid, ours["hlpd"], WANTED),
        Side("bitong -> git-forgejo", service.port, service.pid, ours["forge"], WANTED),
    ]


def _await(port: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.01)
    raise RuntimeError(f"nobody listens on {port} ({os.strerror(111)})")
