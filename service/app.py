"""The only place where parts meet: settings → database, mirror, executors, worker → the application, and its life."""

import asyncio
import ctypes
import errno
import hashlib
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import structlog
import uvicorn
from starlette.applications import Starlette

from service import __version__, logs
from service.domain.audit import SYSTEM, Fact
from service.domain.definitions import Definition, Problem
from service.domain.executors import Executor
from service.domain.history import Progress
from service.errors import BitongError, Message, UsageError
from service.execution.execute import Execution, recover
from service.execution.executors.gatekeeper import GatekeeperExecutor
from service.execution.executors.gatekeeper import Node as GatekeeperNode
from service.execution.executors.gatekeeper_answer import AnswerFields
from service.execution.executors.sandbox import Sandbox
from service.execution.executors.shell import ShellExecutor
from service.execution.limits import Slots
from service.intake.identity import RepositoryIdentity
from service.intake.ingest import Ingest, Look
from service.intake.mirror import Mirror
from service.intake.receive import Receiver
from service.intake.schema import tool_schema
from service.intake.worker import Worker
from service.settings import Settings, load, refuse_open_file, refuse_unsafe
from service.store.database import Database, Transaction
from service.store.folder import Control, DataFolder
from service.store.migrations import ensure_schema
from service.web.auth import Authority
from service.web.metrics import Metrics
from service.web.openapi import document
from service.web.parts import Parts
from service.web.protocol import Protocol
from service.web.routing import Pools
from service.web.server import create_application

logger = structlog.get_logger(__name__)

_SWITCH_S: Final = 0.0005  # between threads: a run's answer shall not wait five milliseconds for another's hashing
_PR_SET_DUMPABLE: Final = 4
_PROGRESS_S: Final = 5.0
_BACKLOG: Final = 128
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXEC_SPARE: Final = 16  # threads beside those that run, so that refusals are still answered


class Bitong:
    """One service on one data folder. `open` it, use its parts, `close` it."""

    def __init__(
        self,
        settings: Settings,
        *,
        control: Control | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.folder = DataFolder(Path(settings.data_dir))
        self.folder.make()
        self.folder.lock()
        try:
            ensure_schema(settings.database_path)
            self.database = Database(settings.database_path)
        except BaseException:
            self.folder.unlock()
            raise
        self.authority = Authority(self.database, control.token if control else None)
        self.metrics = Metrics()
        self.sandbox = _sandbox(settings)
        self.executors = _executors(settings, self.sandbox)
        self.mirror = _mirror(settings)
        self.identity = RepositoryIdentity(
            fixed=settings.repository_id,
            repository_url=settings.repository_url,
            api_url=settings.forgejo_url,
            token=_reveal(settings.forgejo_token),
        )
        self.ingest = Ingest(
            self.database,
            self.mirror or _NoRepository(),
            branch=settings.repository_branch,
            tools_path=settings.tools_path,
            repository_id=self.identity,
            before=self.identity.resolve,
            progress=progress,
        )
        self.worker = Worker(self.ingest, interval_s=settings.poll_interval_s, looked=self._looked)
        self.execution = Execution(
            self.database,
            index=lambda: self.ingest.index,
            executors=self.executors,
            key=self.folder.key("parameters"),
            slots=Slots(in_all=settings.max_runs, per_actor=settings.max_runs_per_token),
            still_valid=self.authority.still_valid,
        )
        self._open_log()

    def start(self) -> None:
        """Close what a crash left open, and begin to look."""
        interrupted = recover(self.database)
        if interrupted:
            logger.warning("runs were interrupted by a crash", runs=interrupted)
        self.database.write(lambda transaction: transaction.append(self._started()))
        if self.mirror is not None:
            self.worker.start()

    def close(self) -> None:
        """End in order: no new looks, no open runs, then the database."""
        self.stop_looking()
        self.database.close()
        self.folder.unlock()

    def stop_looking(self) -> None:
        """No more looks; one that runs is cut short, since the next start looks again."""
        self.worker.stop_soon()
        if self.mirror is not None:
            self.mirror.close()
        self.worker.stop()

    def parts(self) -> Parts:
        """What the handlers work with."""
        settings = self.settings
        return Parts(
            database=self.database,
            authority=self.authority,
            execution=self.execution,
            ingest=self.ingest,
            worker=self.worker,
            receiver=Receiver(
                self.database,
                self.worker,
                secrets=settings.webhook_secrets(),
                branch=settings.repository_branch,
                repository_id=self.identity,
            ),
            metrics=self.metrics,
            public_url=settings.public_url,
            tracks_repository=self.mirror is not None,
            tools_path=settings.tools_path,
            sandbox_mode=self.sandbox.mode,
            max_body={"hooks": settings.max_hook_bytes, "params": settings.max_params_bytes},
            warn=self._warn,
            schema=tool_schema,
            openapi=lambda: document(settings.public_url),
        )

    def _looked(self, look: Look) -> None:
        self.metrics.looks.labels(look.outcome).inc()

    def _open_log(self) -> None:
        origin = self.settings.log_origin or f"bitong/{socket.gethostname()}"

        def work(transaction: Transaction) -> None:
            if transaction.log.size == 0:
                transaction.append(Fact("log.opened", SYSTEM, {"origin": origin}))

        self.database.write(work)

    def _started(self) -> Fact:
        settings = self.settings
        digests = {
            "shell_read_paths": _digest(list(settings.shell_read_paths)),
            "gatekeepers": _digest(sorted(settings.nodes)),
        }
        sandbox = "none, as root" if self.sandbox.mode == "none" and os.geteuid() == 0 else self.sandbox.mode
        facts = {"version": __version__, "sandbox": sandbox, "digests": digests}
        return Fact("service.started", SYSTEM, facts)

    def _warn(self, definition: Definition) -> list[Problem]:
        """What a registered definition needs that this instance lacks: shown, and refused at exec."""
        executor = self.executors.get(definition.executor)
        if executor is None:
            return [
                Problem(
                    "executor-not-available",
                    f"这里尚未启用执行器 {definition.executor}。",
                    f"The executor {definition.executor} is not available here.",
                    field="executor",
                )
            ]
        why = executor.unavailable(definition)
        return [] if why is None else [Problem("executor-not-available", why.zh, why.en, field="executor")]


class _NoRepository:
    """Stands where no repository is tracked; nobody asks it."""

    def look(self, **_: Any) -> Any:
        raise AssertionError("no repository is tracked")


def serve(settings: Settings) -> None:
    """Run the service until SIGTERM or SIGINT; returns when everything is recorded and closed."""
    logs.configure()
    refuse_unsafe(settings)
    sys.setswitchinterval(_SWITCH_S)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # a tool of our user may not read our environment or memory
    listener = _listen(settings)
    port = listener.getsockname()[1]
    progress = _ProgressLog()
    control = Control(f"http://{_loopback(settings.host)}:{port}", secrets.token_urlsafe(32))
    bitong = Bitong(settings, control=control, progress=progress)
    try:
        bitong.folder.announce(control)
        _run(bitong, listener)
    finally:
        bitong.folder.withdraw()
        bitong.close()
        listener.close()


def _run(bitong: Bitong, listener: socket.socket) -> None:
    settings = bitong.settings
    pools = Pools({"exec": settings.max_runs + _EXEC_SPARE, "hooks": 4, "reads": 8, "sync": 4})
    bitong.metrics.watch(
        {
            "runs_open": ("Runs that are open now", lambda: float(bitong.execution.running())),
            "tools": ("Tools that can run", lambda: float(len(bitong.ingest.index))),
            "log_entries": ("Entries in the log", lambda: float(bitong.database.log.size)),
            "database_bytes": ("Bytes of the database on disk", lambda: float(bitong.database.bytes())),
            "repository_trouble": (
                "1 while the repository cannot be read",
                lambda: float(bitong.ingest.trouble is not None),
            ),
        }
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(_LoopTrouble())
        bitong.start()
        logger.info("serving", version=__version__, host=settings.host, sandbox=bitong.sandbox.mode)
        if bitong.sandbox.mode == "none" and os.geteuid() == 0:
            logger.warning("shell tools run as root and without a sandbox")
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
        backlog=_BACKLOG,
        server_header=False,
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=settings.shutdown_grace_s + 10,
        timeout_keep_alive=30,
    )
    asyncio.run(_Server(config, bitong).serve(sockets=[listener]))
    pools.close()


class _LoopTrouble:
    """Says what the event loop meets, but not thousands of times a second: at RLIMIT_NOFILE it meets it for each try."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES):
            loop.default_exception_handler(context)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_S
            logger.warning("no more connections for now", error=os.strerror(error.errno or 0))


class _ProgressLog:
    """Says in the log, every few seconds, how far a long look is."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PROGRESS_S

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_S
            logger.info("looking at the repository", phase=progress.phase, done=progress.done, total=progress.total)


class _Server(uvicorn.Server):
    """Ends in the order the contract names: no new runs, a grace for those that run, then their end, recorded."""

    def __init__(self, config: uvicorn.Config, bitong: Bitong) -> None:
        super().__init__(config)
        self._bitong = bitong

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of handlers
        """SIGTERM or SIGINT came; a second one ends the grace. Not uvicorn's own, which would raise the signal again."""
        first = not self.should_exit
        self.should_exit = True
        self.force_exit = not first and sig == signal.SIGINT
        execution = self._bitong.execution
        execution.refuse_new()
        self._bitong.worker.stop_soon()
        threading.Thread(target=self._bitong.stop_looking, name="stop", daemon=True).start()
        grace = self._bitong.settings.shutdown_grace_s if first else 0
        timer = threading.Timer(grace, execution.cancel_all, args=("shutdown",))
        timer.daemon = True
        timer.start()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named, or asyncio would not turn Nagle off for what is accepted: 40 ms on each answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except (OSError, UnicodeError) as error:
        listener.close()
        if isinstance(error, socket.gaierror | UnicodeError):
            raise UsageError(
                Message("设置 host 不是可以监听的地址。", "The setting host is no address to listen on.")
            ) from None
        reason = os.strerror(error.errno or 0)
        raise UsageError(
            Message(
                f"无法监听 {settings.host}:{settings.port}：{reason}",
                f"Cannot listen on {settings.host}:{settings.port}: {reason}",
            )
        ) from None
    listener.listen(_BACKLOG)
    return listener


def _loopback(host: str) -> str:
    return "127.0.0.1" if host in ("", "0.0.0.0") else f"[{host}]" if ":" in host else host  # noqa: S104 - compared only


def _mirror(settings: Settings) -> Mirror | None:
    if settings.repository_url is None:
        return None
    mirror = Mirror(
        folder=Path(settings.data_dir) / "mirror.git",
        url=settings.repository_url,
        branch=settings.repository_branch,
        tools_path=settings.tools_path,
        username=settings.repository_username,
        token=_reveal(settings.repository_token),
        deadline_s=float(settings.fetch_timeout_s),
    )
    mirror.start()
    return mirror


def _sandbox(settings: Settings) -> Sandbox:
    return Sandbox(
        settings.shell_sandbox,
        read_paths=settings.shell_read_paths,
        network=settings.shell_network,
        tmp_bytes=settings.shell_tmp_bytes,
        shm_bytes=settings.shell_tmp_bytes,
    )


def _executors(settings: Settings, sandbox: Sandbox) -> Mapping[str, Executor]:
    nodes = {
        name: GatekeeperNode(
            url=node.url,
            token=_reveal(node.token),
            fields=AnswerFields.read(node.answer),
            insecure=node.insecure,
            argv=node.argv,
            cmd=node.cmd,
        )
        for name, node in settings.nodes.items()
    }
    return {"shell": ShellExecutor(sandbox), "gatekeeper": GatekeeperExecutor(nodes, settings.gatekeeper_default)}


def _reveal(secret: Any) -> str | None:
    return None if secret is None else secret.reveal()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


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
    return 0


if __name__ == "__main__":
    sys.exit(main())
