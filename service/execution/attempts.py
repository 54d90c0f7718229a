"""The one attempt: recorded as started, made, recorded as ended, each durable before the next (contract/audit.md)."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from service.domain.actors import Actor
from service.domain.audit import AuditEntry
from service.domain.executors import Call, Outcome, ToolFile
from service.domain.runs import NOTHING, Run
from service.domain.times import later
from service.errors import CannotRecord, Conflict, Forbidden, Message
from service.execution.ongoing import Ongoing
from service.execution.receipts import ended_run, open_run
from service.store import keys, run_steps, tools
from service.store.database import Database, Transaction
from service.store.run_steps import Begun

logger = structlog.get_logger(__name__)

RETRY_RECORD_S: Final = 0.5

Standing = Callable[[str], Actor | None]


class Changed(Exception):
    """The version that was resolved is no longer the active one."""


class Attempts:
    """Makes attempts. `standing`: what an actor may now, or None once its right ended; `ttl_s`: how long a yes holds.

    `began`: told of every run once it is durable as started.
    """

    def __init__(
        self,
        database: Database,
        standing: Standing,
        ttl_s: float,
        began: Callable[[Run], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._standing = standing
        self._ttl_s = ttl_s
        self._began = began
        self._lock = threading.Lock()
        self._unrecorded = 0

    def run(self, ongoing: Ongoing, files: Sequence[ToolFile]) -> Run:
        """Run it and answer how it ended, once that is durable.

        Raises Changed, Conflict or keys.Taken before it began, and CannotRecord before (without facts) or after (with
        `run` and `outcome`).
        """
        with self._lock:
            if self._unrecorded:
                raise CannotRecord(_UNRECORDED)
        node = ongoing.executor.target(ongoing.version.definition)
        begun = self._database.write(lambda transaction: self._begin(transaction, ongoing, node))
        ongoing.started = True
        ongoing.tape.touch()
        self._began(open_run(begun.seq, ongoing.asked, "started", begun.created_at, begun.entry, node))
        outcome = self._attempt(ongoing, files)
        entry = self._record(begun, ongoing, outcome)
        return ended_run(begun, ongoing.asked, node, outcome, entry)

    def wait_until_recorded(self, seconds: float) -> None:
        """Before the end: wait for receipts that storage did not take yet."""
        end = time.monotonic() + seconds
        while self._unrecorded and time.monotonic() < end:
            time.sleep(RETRY_RECORD_S)

    def _begin(self, transaction: Transaction, ongoing: Ongoing, node: str | None) -> Begun:
        """In the transaction that writes `started`, all of it is looked at again."""
        if tools.active_version_id(transaction, ongoing.version.tool) != ongoing.version.id:
            raise Changed
        if self._standing(ongoing.who) is None:
            raise rights_ended() if ongoing.waiting is not None else Forbidden(_TOKEN_ENDED)
        asked = ongoing.confirmation
        if asked is not None and asked.answered_at and transaction.now >= later(asked.answered_at, self._ttl_s):
            raise Conflict(_STALE, code="confirmation-expired")
        if ongoing.cancel.asked() and ongoing.waiting is not None:
            raise cancelled(ongoing.cancelled_by)
        if ongoing.key is not None and ongoing.waiting is None:
            keys.claim(transaction, ongoing.key, ongoing.run_id)
        return run_steps.start(transaction, ongoing.asked, node, ongoing.waiting)

    def _attempt(self, ongoing: Ongoing, files: Sequence[ToolFile]) -> Outcome:
        """What goes wrong inside an executor is an outcome too: the run was recorded as started."""
        began = time.monotonic()
        try:
            outcome = ongoing.executor.run(_call(ongoing, files))
        except Exception as error:
            logger.exception("executor failed", run=ongoing.run_id, error=type(error).__name__)
            return _broken(error, int((time.monotonic() - began) * 1000))
        if outcome.state == "cancelled" and ongoing.cancelled_by is not None:
            by = ongoing.cancelled_by
            return replace(outcome, notes=(*outcome.notes, Message(f"由 {by} 取消。", f"Cancelled by {by}.")))
        return outcome

    def _record(self, begun: Begun, ongoing: Ongoing, outcome: Outcome) -> AuditEntry:
        """Write the receipt; where storage fails, keep it, start nothing new, and try until it is written."""

        def work(transaction: Transaction) -> AuditEntry:
            return run_steps.finish(transaction, begun.seq, begun.id, ongoing.who, outcome)

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
            return self._record(begun, ongoing, replace(_DID_NOT_FIT, duration_ms=outcome.duration_ms))

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


def _call(ongoing: Ongoing, files: Sequence[ToolFile]) -> Call:
    definition = ongoing.version.definition
    return Call(
        run_id=ongoing.run_id,
        definition=definition,
        parameters=ongoing.parameters,
        timeout_ms=ongoing.timeout_ms,
        max_output_bytes=definition.constraints.max_output_bytes,
        actor=ongoing.who,
        cancel=ongoing.cancel,
        files=files,
        on_output=ongoing.tape.write,
    )


def _broken(error: Exception, duration_ms: int) -> Outcome:
    name = type(error).__name__
    why = Message(f"执行器内部出错：{name}", f"The executor failed inside: {name}")
    return Outcome("failed", NOTHING, NOTHING, duration_ms, reason="did-not-start", why=why)


def rights_ended() -> Conflict:
    """The refusal of a call whose actor's right ended while it waited."""
    return Conflict(
        Message("等待期间令牌已失效，没有执行。", "The token ended while the call waited; it did not run."),
        code="rights-ended",
    )


def cancelled(by: str | None) -> Conflict:
    """The refusal of a call that was cancelled before it began, and by whom."""
    return Conflict(
        Message(f"开始之前已由 {by} 取消。", f"It was cancelled by {by} before it began."), code="cancelled"
    )


_TOKEN_ENDED: Final = Message("令牌已失效。", "The token has ended.")
_STALE: Final = Message(
    "确认之后等待太久，没有执行；请重新请求。", "It waited too long after it was approved and did not run; ask again."
)
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
