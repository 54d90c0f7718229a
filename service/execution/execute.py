"""From a call to a receipt: resolve, check, record as started, run, record how it ended (design.md, Two halves)."""

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from service.domain.actors import Actor
from service.domain.audit import AuditEntry
from service.domain.calls import ExecRequest
from service.domain.executors import Call, Cancel, Executor, Outcome, ToolFile
from service.domain.index import Index
from service.domain.parameters import fit
from service.domain.runs import NOTHING, Commitment, Run, commit_parameters
from service.domain.times import uuid7
from service.domain.tools import NAME, ToolVersion
from service.errors import BitongError, Busy, CannotRecord, Conflict, Forbidden, Invalid, Message, NotFound, Unavailable
from service.execution.limits import Refusals, Slots
from service.execution.receipts import ended_run, refused_run, within_bytes
from service.execution.resolve import check_demand, resolve
from service.store import history, runs, tools
from service.store.database import Database, Transaction

logger = structlog.get_logger(__name__)

RETRY_RECORD_S: Final = 0.5
_TRIES: Final = 5  # at a definition that changes under a call
_NO_CONFIRMATION: Final = Message(
    "这个工具需要确认；这一版本还没有确认功能。",
    "The tool asks for confirmation, which this version does not have yet.",
)


class Refused(Exception):
    """A call on a known tool that never started: why, and the run that says so."""

    def __init__(self, cause: BitongError, version: ToolVersion, run: Run | None) -> None:
        super().__init__(cause.message.en)
        self.cause = cause
        self.version = version
        self.run = run


class _Changed(Exception):
    """The version that was resolved is no longer the active one."""


class Execution:
    """Runs tools. One thread a call; everything it needs is handed in.

    `index`: the registry now. `executors`: by name. `key`: hides secrets in commitments. `still_valid`: whether an
    actor's right to run has not ended meanwhile.
    """

    def __init__(
        self,
        database: Database,
        *,
        index: Callable[[], Index],
        executors: Mapping[str, Executor],
        key: bytes,
        slots: Slots,
        still_valid: Callable[[Actor], bool],
    ) -> None:
        self._database = database
        self._index = index
        self._executors = executors
        self._key = key
        self._slots = slots
        self._refusals = Refusals()
        self._still_valid = still_valid
        self._open: dict[str, Cancel] = {}
        self._lock = threading.Lock()
        self._unrecorded = 0
        self._stopping = False

    def execute(self, request: ExecRequest, actor: Actor) -> Run:
        """Run a tool and answer how it ended, once that is durable.

        Raises Refused (409, 422 on a known tool; a run says so), NotFound, Busy, Unavailable or CannotRecord.
        """
        try:
            return self._execute(self._index(), request, actor)
        except (_Changed, NotFound, history.FilesAbsent):
            pass  # The Index in memory and the database differ for a moment: what is in the database decides.
        for _ in range(_TRIES):
            try:
                return self._execute(self._index_of(request.tool), request, actor)
            except (_Changed, history.FilesAbsent):
                continue  # A call that arrives while a look publishes has waited for nothing: it runs what is active now.
        raise Unavailable(Message("定义正在变化，请再试一次。", "The definition keeps changing; try again."))

    def _index_of(self, name: str) -> Index:
        """How one name stands in the database, which the Index in memory follows a moment later."""
        if not NAME.match(name):
            return Index([], 0)
        with self._database.read() as connection:
            tool = tools.tool(connection, name)
        return Index([tool] if tool is not None else [], 0)

    def _execute(self, index: Index, request: ExecRequest, actor: Actor) -> Run:
        try:
            version = resolve(index, request, actor)
        except Conflict as error:
            raise self._refuse(request, actor, error.facts["version"], error) from None
        try:
            return self._run_version(request, actor, version)
        except (Busy, CannotRecord) as error:
            error.facts.setdefault("version", version)
            raise

    def _run_version(self, request: ExecRequest, actor: Actor, version: ToolVersion) -> Run:
        self._refusals.check(actor.name)
        executor = self._executor(version)
        try:
            parameters = self._check(request, version, executor)
            files = self._files(version) if executor.uses_files else []
        except (Invalid, Conflict) as error:
            raise self._refuse(request, actor, version, error) from None
        if self._stopping:
            raise Unavailable(_STOPPING)
        with self._slots.hold(actor.name):
            return self._run(request, actor, version, executor, parameters, files)

    def cancel_all(self, reason: str) -> None:
        """Ask every open run to end, and start no more."""
        self._stopping = True
        with self._lock:
            open_runs = list(self._open.values())
        for cancel in open_runs:
            cancel.ask(reason)

    def refuse_new(self) -> None:
        """Start no more runs; those that run go on."""
        self._stopping = True

    def running(self) -> int:
        """How many runs are open in this process."""
        with self._lock:
            return len(self._open)

    # Before it starts.

    def _executor(self, version: ToolVersion) -> Executor:
        definition = version.definition
        if definition.constraints.require_confirm:
            raise Unavailable(_NO_CONFIRMATION, facts={"version": version})
        executor = self._executors.get(definition.executor)
        if executor is None:
            name = definition.executor
            message = Message(f"这一版本还没有执行器 {name}。", f"This version does not have the executor {name} yet.")
            raise Unavailable(message, facts={"version": version})
        if (why := executor.unavailable(definition)) is not None:
            raise Unavailable(why, facts={"version": version})
        return executor

    def _check(self, request: ExecRequest, version: ToolVersion, executor: Executor) -> dict[str, Any]:
        check_demand(version, request)
        parameters, problems = fit(version.definition.params_schema, request.params)
        problems = problems or executor.check(version.definition, parameters)
        if problems:
            raise Invalid(
                Message("参数不符合定义，见 problems。", "The parameters do not fit the definition; see problems."),
                facts={"problems": [problem.as_json() for problem in problems]},
            )
        return parameters

    def _files(self, version: ToolVersion) -> list[ToolFile]:
        """The folder as the commit holds it. Raises Conflict where the store has other bytes: they do not run (X40)."""
        try:
            return history.files(self._database, version.tool.encode(), version.tree)
        except history.FilesAbsent:
            raise
        except history.FilesChanged:
            logger.exception("a stored file was changed", tool=version.tool, commit=version.commit)
            raise Conflict(
                Message(
                    "保存的工具文件与提交不一致，拒绝执行。请用 bitong audit verify 检查。",
                    "A stored file of the tool is not what the commit holds; it does not run. Check with bitong audit verify.",
                ),
                code="store-changed",
            ) from None

    def _refuse(self, request: ExecRequest, actor: Actor, version: ToolVersion, cause: BitongError) -> Refused:
        self._refusals.check(actor.name)
        self._refusals.note(actor.name)
        commitment = self._commitment(version, request.params)
        problems = within_bytes(cause.facts.get("problems", []))
        begun, _ = self._database.write(
            lambda transaction: runs.refuse(
                transaction,
                run_id=uuid7(),
                version=version,
                actor=actor.name,
                digest=commitment.digest,
                code=cause.code,
                problems=problems,
                match_id=request.match_id,
            )
        )
        run = refused_run(begun, version, actor, commitment, cause.code, problems, request.match_id)
        return Refused(cause, version, run)

    def _commitment(self, version: ToolVersion, parameters: Mapping[str, Any]) -> Commitment:
        return commit_parameters(version.definition, parameters, key=self._key, salt=secrets.token_bytes(16))

    # The run itself.

    def _run(
        self,
        request: ExecRequest,
        actor: Actor,
        version: ToolVersion,
        executor: Executor,
        parameters: Mapping[str, Any],
        files: Sequence[ToolFile],
    ) -> Run:
        commitment = self._commitment(version, parameters)
        node = executor.target(version.definition)
        run_id = uuid7()
        cancel = Cancel()
        with self._lock:
            if self._unrecorded:
                raise CannotRecord(_UNRECORDED)
            if self._stopping:
                raise Unavailable(_STOPPING)
            self._open[run_id] = cancel
        try:
            begun = self._start(request, actor, version, run_id, commitment, node)
            outcome = self._attempt(executor, self._call(request, actor, version, parameters, files, run_id, cancel))
            entry = self._record(begun, actor, outcome)
        finally:
            with self._lock:
                self._open.pop(run_id, None)
        return ended_run(begun, version, actor, node, commitment, outcome, entry, request.match_id)

    def _start(
        self,
        request: ExecRequest,
        actor: Actor,
        version: ToolVersion,
        run_id: str,
        commitment: Commitment,
        node: str | None,
    ) -> runs.Begun:
        def work(transaction: Transaction) -> runs.Begun:
            self._look_again(transaction, version, actor)
            return runs.start(
                transaction,
                run_id=run_id,
                version=version,
                actor=actor.name,
                node=node,
                commitment=commitment,
                match_id=request.match_id,
            )

        return self._database.write(work)

    def _look_again(self, transaction: Transaction, version: ToolVersion, actor: Actor) -> None:
        """In the transaction that writes `started`: the version is still the active one, the actor still may."""
        if tools.active_version_id(transaction, version.tool) != version.id:
            raise _Changed
        if not self._still_valid(actor):
            raise Forbidden(Message("令牌已失效。", "The token has ended."))

    def _call(
        self,
        request: ExecRequest,
        actor: Actor,
        version: ToolVersion,
        parameters: Mapping[str, Any],
        files: Sequence[ToolFile],
        run_id: str,
        cancel: Cancel,
    ) -> Call:
        limits = version.definition.constraints

        return Call(
            run_id=run_id,
            definition=version.definition,
            parameters=parameters,
            timeout_ms=request.timeout_ms or limits.timeout_ms,
            max_output_bytes=limits.max_output_bytes,
            actor=actor.name,
            cancel=cancel,
            files=files,
        )

    def _attempt(self, executor: Executor, call: Call) -> Outcome:
        """The one attempt. What goes wrong inside an executor is an outcome too: the run was recorded as started."""
        began = time.monotonic()
        try:
            return executor.run(call)
        except Exception as error:
            logger.exception("executor failed", run=call.run_id, error=type(error).__name__)
            return Outcome(
                state="failed",
                stdout=NOTHING,
                stderr=NOTHING,
                duration_ms=int((time.monotonic() - began) * 1000),
                reason="did-not-start",
                why=Message(
                    f"执行器内部出错：{type(error).__name__}", f"The executor failed inside: {type(error).__name__}"
                ),
            )

    def _record(self, begun: runs.Begun, actor: Actor, outcome: Outcome) -> AuditEntry:
        """Write the receipt; where storage fails, keep it, start nothing new, and try until it is written."""

        def work(transaction: Transaction) -> AuditEntry:
            return runs.finish(transaction, begun.seq, begun.id, actor.name, outcome)

        try:
            return self._database.write(work, urgent=True)
        except CannotRecord:
            with self._lock:
                self._unrecorded += 1
            threading.Thread(target=self._retry, args=(work,), name="receipt", daemon=True).start()
            raise CannotRecord(_RAN_UNRECORDED, facts={"run": begun.id, "outcome": outcome}) from None
        except Exception:
            # Whatever a far side said that no row can hold: the run still gets its end.
            logger.exception("a receipt did not fit", run=begun.id)
            if outcome.why is _DID_NOT_FIT.why:
                raise CannotRecord(_RAN_UNRECORDED, facts={"run": begun.id}) from None
            return self._record(begun, actor, replace(_DID_NOT_FIT, duration_ms=outcome.duration_ms))

    def wait_until_recorded(self, seconds: float) -> None:
        """Before the end: wait for receipts that storage did not take yet."""
        end = time.monotonic() + seconds
        while self._unrecorded and time.monotonic() < end:
            time.sleep(RETRY_RECORD_S)

    def _retry(self, work: Callable[[Transaction], AuditEntry]) -> None:
        while True:
            time.sleep(RETRY_RECORD_S)
            try:
                self._database.write(work, urgent=True)
            except CannotRecord:
                continue
            with self._lock:
                self._unrecorded -= 1
            return


_UNRECORDED: Final = Message(
    "先前一次运行的回执尚未写入，在此之前不开始新的运行。请检查磁盘。",
    "The receipt of an earlier run is not written yet; nothing new starts before it is. Check the disk.",
)
_RAN_UNRECORDED: Final = Message(
    "工具已经运行，但回执还未能写入；会继续尝试写入。",
    "The tool ran, but its receipt could not be written yet; writing it is tried again.",
)
_DID_NOT_FIT: Final = Outcome(
    state="unknown",
    stdout=NOTHING,
    stderr=NOTHING,
    duration_ms=0,
    reason="bad-answer",
    why=Message("回答无法记录。", "What was answered cannot be recorded."),
    totals="received",
)
_STOPPING: Final = Message("服务正在停止。", "The service is stopping.")
