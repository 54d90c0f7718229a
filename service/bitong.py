"""One service on one data folder: where the parts meet (database, mirror, executors, worker, and what handlers work with)."""

import hashlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import structlog

from service import __version__, building
from service.domain.audit import SYSTEM, Fact
from service.domain.confirmations import Confirmation
from service.domain.definitions import Definition, Problem
from service.domain.history import Progress
from service.domain.runs import Run, without_output
from service.execution.attempts import Attempts
from service.execution.checks import Checks
from service.execution.confirm import Confirmations
from service.execution.execute import Execution
from service.execution.matching import Matching
from service.execution.ongoing import Ongoing
from service.execution.queue import Queue
from service.execution.recovery import recover
from service.execution.turns import Turns
from service.intake.definitions.schema import tool_schema
from service.intake.ingest import Ingest, Look
from service.intake.receive import Receiver
from service.intake.worker import Worker
from service.settings import Settings
from service.store import dictionary, tools
from service.store.checkpointing import Checkpoints
from service.store.database import Transaction
from service.store.folder import Control, DataFolder
from service.store.verifying import Verification
from service.web.auth import Authority
from service.web.feed import Feed, IndexChange
from service.web.metrics import Metrics
from service.web.openapi import document
from service.web.parts import Parts
from service.web.people import People, Sessions
from service.web.streams import Streams

logger = structlog.get_logger(__name__)

_SWITCH_S: Final = 0.0005  # between threads: a run's answer shall not wait five milliseconds for another's hashing
_PR_SET_DUMPABLE: Final = 4
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
        building.refuse_shown(settings)
        self.settings = settings
        self.folder = DataFolder(Path(settings.data_dir))
        self.folder.make()
        self.folder.lock()
        try:
            self.database = building.database(settings, self.folder)
        except BaseException:
            self.folder.unlock()
            raise
        self.sessions = Sessions(self.database, settings.session_hours)
        self.authority = Authority(self.database, self.sessions, control.token if control else None)
        self.retention = building.retention(settings, self.database)
        self.metrics = Metrics()
        self.feed = Feed()
        self.sandbox = building.sandbox(settings)
        self.identity = building.identity(settings)
        self.operations = building.operations(settings, self.folder)
        self.executors = building.executors(settings, self.sandbox, self.operations, self.identity.names)
        self.mirror = building.mirror(settings)
        self.ingest = Ingest(
            self.database,
            self.mirror or _NoRepository(),
            branch=settings.repository_branch,
            tools_path=settings.tools_path,
            repository_id=self.identity,
            operations=lambda: (self.operations.revision, self.operations.facts),
            before=self._before_look,
            progress=progress,
        )
        self.worker = Worker(self.ingest, interval_s=settings.poll_interval_s, looked=self._looked)
        self.attempts = Attempts(
            self.database, self.authority.standing, settings.confirmation_ttl_s, began=self._happened
        )
        self.execution = self._execution()
        self.matching = Matching(
            self.database,
            index=lambda: self.ingest.index,
            dictionary=lambda: dictionary.installed(self.folder.path),
            learn=settings.learn_intents,
            embeddings=building.embeddings(settings),
        )
        self._open_log()
        self.checkpoints = Checkpoints(self.database, self.folder)
        self.checkpoints.open()
        self.anchors = building.anchors(settings, self.folder, self.database, self.checkpoints)

    def _execution(self) -> Execution:
        settings = self.settings
        standing = self.authority.standing
        checks = Checks(self.database, self.executors)
        turns = Turns(
            self.database,
            index=lambda: self.ingest.index,
            standing=standing,
            queue=Queue[Ongoing](
                in_all=settings.max_runs, per_actor=settings.max_runs_per_token, places=settings.max_queue
            ),
            attempts=self.attempts,
            checks=checks,
            runners=settings.max_runs,
            max_wait_s=settings.max_wait_s,
            happened=self._happened,
        )
        return Execution(
            self.database,
            index=lambda: self.ingest.index,
            key=self.folder.key("parameters"),
            checks=checks,
            confirmations=Confirmations(
                self.database,
                standing,
                ttl_s=settings.confirmation_ttl_s,
                allow_self=settings.confirm_self,
                told=self._asked,
                happened=self._happened,
            ),
            turns=turns,
            refused=self._happened,
        )

    def start(self) -> None:
        """Close what a crash left open, and begin to look."""
        interrupted = recover(self.database)
        if interrupted:
            logger.warning("runs were interrupted by a crash", runs=interrupted)
        self._try_sandbox()
        self.database.write(lambda transaction: transaction.append(self._started()))
        self.execution.start()
        self.checkpoints.start()
        self.matching.start()
        self.retention.start()
        if self.anchors is not None:
            self.anchors.start()
        if self.mirror is not None:
            self.worker.start()
        else:
            logger.warning("repository_url is not set: no tool will be registered")

    def _try_sandbox(self) -> None:
        """The sandbox proves itself before its first tool (contract/executors.md, shell); what fails is said."""
        why = self.sandbox.unavailable()
        if why is not None:
            logger.warning("shell tools are refused", sandbox=self.sandbox.state, reason=why.en)
        elif self.sandbox.state == "none, as root":
            logger.warning("shell tools run as root and without a sandbox")

    def close(self) -> None:
        """End in order: no new looks, no open runs, then the database."""
        self.stop_looking()
        self.matching.stop()
        self.retention.stop()
        if self.anchors is not None:
            self.anchors.stop()
        self.checkpoints.stop()
        self.database.close()
        self.folder.unlock()

    def stop_looking(self) -> None:
        """No more looks; one that runs is cut short, since the next start looks again."""
        self.worker.stop_soon()
        self.operations.stop()
        if self.mirror is not None:
            self.mirror.close()
        self.worker.stop()

    def begin_to_end(self, *, at_once: bool) -> None:
        """SIGTERM came: no new runs, no looks; what runs has its grace, then it is ended and recorded."""
        self.execution.turns.stopping = True  # no more than this in a signal's handler: the thread may hold any lock
        threading.Thread(target=self._end, name="stop", daemon=True).start()
        grace = 0 if at_once else self.settings.shutdown_grace_s
        timer = threading.Timer(grace, self.execution.turns.cancel_all, args=("shutdown",))
        timer.daemon = True
        timer.start()

    def _end(self) -> None:
        self.worker.stop_soon()
        self.execution.refuse_new()
        self.stop_looking()

    def parts(self) -> Parts:
        """What the handlers work with."""
        settings = self.settings
        return Parts(
            database=self.database,
            authority=self.authority,
            people=People(self.sessions, building.forge(settings), settings.language, building.commits(settings)),
            execution=self.execution,
            matching=self.matching,
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
            shell_state=lambda: self.sandbox.state,
            max_body={"hooks": settings.max_hook_bytes, "params": settings.max_params_bytes},
            max_wait_s=settings.max_wait_s,
            streams=Streams(),
            feed=self.feed,
            checkpoint=self.checkpoints.covering,
            checkpoints=self.checkpoints,
            anchors=self.anchors,
            verification=Verification(self.database.path, lambda: self.checkpoints.keys),
            warn=self._warn,
            schema=tool_schema,
            openapi=lambda: document(settings.public_url),
        )

    def _happened(self, run: Run) -> None:
        """A run waits, began, ended, or was refused."""
        self.metrics.count(run)
        self.matching.ran(run)
        self.retention.ran(run)
        self.feed.publish("run", without_output(run))

    def _asked(self, confirmation: Confirmation) -> None:
        self.feed.publish("confirmation", replace(confirmation, params=None))

    def _before_look(self) -> None:
        """In the worker's thread: what a look has to know of the forge."""
        self.identity.resolve()
        self.operations.refresh()

    def _looked(self, look: Look) -> None:
        self.metrics.looks.labels(look.outcome).inc()
        self.matching.wake()
        self.feed.publish("sync", look)
        if not (look.registered or look.removed or look.rejected):
            return
        index = self.ingest.index
        self.feed.publish("index", IndexChange(index.revision, (*look.registered, *look.removed, *look.rejected)))
        for name in dict.fromkeys((*look.registered, *look.removed)):
            if (tool := index.get(name)) is not None:
                self.feed.publish("registration", tool)
        for name in look.rejected:
            with self.database.read() as connection:
                for rejection in tools.list_rejections(connection, before=None, limit=1, tool=name, current=True):
                    self.feed.publish("registration", rejection)

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
            "forgejo_operations": _digest(settings.forgejo_operations and list(settings.forgejo_operations)),
        }
        facts = {"version": __version__, "sandbox": self.sandbox.state, "digests": digests}
        return Fact("service.started", SYSTEM, facts)

    def _warn(self, definition: Definition) -> list[Problem]:
        """What a registered definition needs that this instance lacks: shown, and refused at exec."""
        executor = self.executors[definition.executor]
        lacks, refuses = executor.unavailable(definition), executor.refusal(definition)
        found = [] if lacks is None else [Problem("executor-not-available", lacks.zh, lacks.en, field="executor")]
        return found + ([] if refuses is None else [Problem("not-allowed", refuses.zh, refuses.en, field="method")])


class _NoRepository:
    """Stands where no repository is tracked; nobody asks it."""

    def look(self, **_: Any) -> Any:
        raise AssertionError("no repository is tracked")


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
