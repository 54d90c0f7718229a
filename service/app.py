"""The running service: settings, the one that runs on them, the application over it, and its end."""

import asyncio
import ctypes
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from starlette.applications import Starlette

from service import __version__, logs
from service.bitong import Bitong
from service.errors import BitongError, UsageError
from service.serving import BACKLOG, LoopTrouble, ProgressLog, Server, allow_descriptors, listen, loopback_of
from service.settings import Settings, load, refuse_open_file, refuse_unsafe
from service.store.folder import Control
from service.web.protocol import Protocol
from service.web.routing import Pools
from service.web.server import create_application

logger = structlog.get_logger(__name__)

_SWITCH_S: Final = 0.0005  # between threads: a run's answer shall not wait five milliseconds for another's hashing
_PR_SET_DUMPABLE: Final = 4
_EXEC_SPARE: Final = 16  # threads beside those that run, so that refusals are still answered


def serve(settings: Settings) -> None:
    """Run the service until SIGTERM or SIGINT; returns when everything is recorded and closed."""
    logs.configure()
    refuse_unsafe(settings)
    allow_descriptors()
    sys.setswitchinterval(_SWITCH_S)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # a tool of our user may not read our environment or memory
    listener = listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    progress = ProgressLog()
    control = Control(f"http://{loopback_of(settings.host)}:{port}", secrets.token_urlsafe(32))
    bitong = Bitong(settings, control=control, progress=progress)
    try:
        bitong.folder.announce(control)
        _run(bitong, listener)
    finally:
        bitong.folder.withdraw()
        bitong.attempts.wait_until_recorded(settings.shutdown_grace_s)
        bitong.execution.turns.close()
        bitong.close()
        listener.close()


def _run(bitong: Bitong, listener: socket.socket) -> None:
    settings = bitong.settings
    pools = Pools({"exec": settings.max_runs + _EXEC_SPARE, "hooks": 4, "reads": 8, "sync": 4})
    bitong.metrics.watch(
        {
            "runs_open": ("Runs that are open now", lambda: float(bitong.execution.turns.running())),
            "runs_waiting": ("Calls that wait for their turn", lambda: float(bitong.execution.turns.waiting())),
            "tools": ("Tools that can run", lambda: float(len(bitong.ingest.index))),
            "log_entries": ("Entries in the log", lambda: float(bitong.database.log.size)),
            "database_bytes": ("Bytes of the database on disk", lambda: float(bitong.database.bytes())),
            "output_bytes": ("Bytes of output and parameters kept", lambda: float(bitong.retention.kept)),
            "repository_trouble": (
                "1 while the repository cannot be read",
                lambda: float(bitong.ingest.trouble is not None),
            ),
            "anchor_trouble": (
                "1 while checkpoints cannot be anchored",
                lambda: float(bitong.anchors is not None and bitong.anchors.state != "ok"),
            ),
        }
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(LoopTrouble())
        bitong.start()
        logger.info("serving", version=__version__, host=settings.host, sandbox=bitong.sandbox.state)
        yield

    application = create_application(
        bitong.parts(),
        pools,
        allowed_hosts=settings.allowed_hosts,
        metrics_public=settings.metrics_public,
        lifespan=lifespan,
    )
    config = uvicorn.Config(
        application,
        loop="asyncio",
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        backlog=BACKLOG,
        server_header=False,
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=settings.shutdown_grace_s + 10,
        timeout_keep_alive=30,
    )
    asyncio.run(Server(config, bitong.begin_to_end).serve(sockets=[listener]))
    pools.close()


def main() -> int:
    """`python -m service.app [CONFIG]`: what `bitong serve` becomes, without the command line's libraries in memory."""
    config = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    config = config or (Path(os.environ["BITONG_CONFIG"]) if os.environ.get("BITONG_CONFIG") else None)
    try:
        settings = load(os.environ, config)
        if config is not None:
            refuse_open_file(config)
        serve(settings)
    except BitongError as error:
        sys.stderr.write(f"bitong: {error.message.zh}\nbitong: {error.message.en}\n")
        return 2 if isinstance(error, UsageError) else 3
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        sys.stderr.write(f"bitong: 无法使用 data_dir：{reason}\nbitong: Cannot work in data_dir: {reason}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
