"""Asking first: a question is recorded, one transaction decides it, and what waited too long ends (contract/http-api.md)."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from service.domain.actors import Actor
from service.domain.audit import SYSTEM
from service.domain.confirmations import (
    REASON_CHARACTERS,
    REFUSED_BY,
    WAITING_PER_ACTOR,
    Confirmation,
    OpenQuestion,
    bounded,
    holds_secret,
    may_answer,
    may_see,
    without_secrets,
)
from service.domain.runs import Run
from service.domain.times import later, now
from service.errors import Conflict, Forbidden, Message, NotFound
from service.execution.attempts import Standing, cancelled
from service.execution.limits import busy
from service.execution.ongoing import Ongoing
from service.execution.receipts import open_run
from service.store import confirmations as rows
from service.store import keys, run_steps, runs, tools
from service.store.database import Database, Transaction
from service.store.run_steps import Asked, Waiting

Ending = tuple[str, str, str | None]  # a question's state, by whom, and why

RETRY_AFTER_S: Final = 60  # for one who has too many questions waiting


@dataclass(frozen=True, slots=True)
class Approved:
    """A question that was answered yes: its run, now queued, and the parameters it was asked with."""

    confirmation: Confirmation
    asked: Asked
    waiting: Waiting
    asker: Actor
    parameters: Mapping[str, Any]


class Confirmations:
    """Questions and answers. `ttl_s`: how long one waits; `allow_self`: whether asker and answerer may be one.

    `told`: of every question asked or ended; `happened`: of every run that waits for one, or was refused by its end.
    Parameters that hold a secret are kept here, in memory only: with the service they are gone, and the question expires.
    """

    def __init__(
        self,
        database: Database,
        standing: Standing,
        *,
        ttl_s: int,
        allow_self: bool,
        told: Callable[[Confirmation], None] = lambda _: None,
        happened: Callable[[Run], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._standing = standing
        self._ttl_s = ttl_s
        self._allow_self = allow_self
        self._told = told
        self._happened = happened
        self._lock = threading.Lock()
        self._secrets: dict[str, Mapping[str, Any]] = {}
        self._some_wait = True  # until a sweep finds that none does

    def ask(self, call: Ongoing) -> Confirmation:
        """Record the question and its waiting run. Raises Busy for an actor with too many, keys.Taken."""
        question = self._question(call)
        if question.params is None:
            with self._lock:
                self._secrets[question.id] = call.parameters

        def work(transaction: Transaction) -> tuple[Confirmation, Waiting]:
            if rows.waiting_of(transaction.connection, call.who) >= WAITING_PER_ACTOR:
                raise busy(RETRY_AFTER_S)
            if call.key is not None:
                keys.claim(transaction, call.key, call.run_id)
            waiting = run_steps.wait(transaction, call.asked, "awaiting_confirmation")
            expires_at = later(transaction.now, self._ttl_s)
            asked = replace(question, asked_at=transaction.now, expires_at=expires_at)
            rows.ask(transaction, asked)
            return asked, waiting

        try:
            asked, waiting = self._database.write(work)
        except BaseException:
            self._forget(question.id)
            raise
        self._some_wait = True
        self._happened(open_run(waiting.seq, call.asked, "awaiting_confirmation", waiting.created_at))
        self._told(asked)
        return asked

    def _question(self, call: Ongoing) -> Confirmation:
        definition, asked = call.version.definition, call.asked
        assert asked.confirmation_id is not None
        asked_at = now()  # until it is written: a row's times are its transaction's
        return Confirmation(
            id=asked.confirmation_id,
            state="waiting",
            run=asked.run_id,
            tool=call.version.tool,
            version_id=call.version.id,
            version=call.version.number,
            commit=call.version.commit,
            sha256=call.version.sha256,
            params_digest=asked.commitment.digest.hex(),
            params=None if holds_secret(definition, call.parameters) else call.parameters,
            preview=bounded(call.executor.preview(definition, without_secrets(definition, call.parameters))),
            timeout_ms=call.request.timeout_ms,
            actor=call.who,
            asked_at=asked_at,
            expires_at=later(asked_at, self._ttl_s),
        )

    def show(self, confirmation_id: str, actor: Actor) -> Confirmation:
        """One, as far as this actor may see it. Raises NotFound."""
        with self._database.read() as connection:
            found = rows.confirmation(connection, confirmation_id)
        if found is None or not may_see(actor, found):
            raise _unknown()
        return found

    def weight(self, asked: Confirmation) -> int:
        """Bytes, about, that its call holds while it waits in line."""
        return len(json.dumps(asked.params if asked.params is not None else self._secrets.get(asked.id, {})))

    def approve(self, confirmation_id: str, actor: Actor, reason: str | None) -> Approved:
        """Answer yes; what waited is queued from then on.

        Raises NotFound, Forbidden, or Conflict: answered before, expired, or dropped because what it asked about changed.
        """
        decided = self._decide(confirmation_id, actor, "approved", reason)
        parameters = decided.confirmation.params
        if parameters is None:
            parameters = self._forget(confirmation_id)
        assert parameters is not None
        assert decided.asker is not None
        return Approved(decided.answered, decided.asked, decided.waiting, decided.asker, parameters)

    def reject(self, confirmation_id: str, actor: Actor, reason: str | None) -> Confirmation:
        """Answer no; what waited is refused. Raises as `approve` does."""
        return self._decide(confirmation_id, actor, "rejected", reason).answered

    def withdraw(self, run_id: str, by: Actor) -> bool:
        """End the question of a waiting run that somebody cancelled; False when none waits."""

        def work(transaction: Transaction) -> str | None:
            asked = rows.of_run(transaction.connection, run_id)
            if asked is None or asked.state != "waiting":
                return None
            _end(transaction, asked, "dropped", by.name, "cancelled", cancelled(by.name))
            return asked.id

        dropped = self._database.write(work)
        if dropped is not None:
            self._ended(dropped)
        return dropped is not None

    def sweep(self) -> None:
        """End what has expired, and what asked about something that is no longer so. Cheap while nothing waits."""
        if not self._some_wait:
            return
        with self._database.read() as connection:
            waiting = rows.waiting(connection)
            left = rows.left_behind(connection)
        ending = [asked.id for asked in waiting if self._ending(asked, changed=asked.id in left) is not None]
        for confirmation_id in ending:
            if self._database.write(partial(self._sweep_one, confirmation_id)):
                self._ended(confirmation_id)
        if not waiting:
            self._some_wait = False
            with self._database.read() as connection:  # one may have been asked between
                self._some_wait = bool(rows.waiting(connection))

    def _sweep_one(self, confirmation_id: str, transaction: Transaction) -> bool:
        """Whether it was this that ended it."""
        asked = rows.confirmation(transaction.connection, confirmation_id)
        if asked is None or asked.state != "waiting":
            return False
        ending = self._ending(asked, changed=_changed(transaction, asked), moment=transaction.now)
        if ending is not None:
            _end(transaction, asked, *ending)
        return ending is not None

    def _ending(self, asked: Confirmation | OpenQuestion, *, changed: bool, moment: str | None = None) -> Ending | None:
        """State, by whom and why, where a waiting one has to end by itself."""
        if (moment or self._database.moment()) >= asked.expires_at:
            return "expired", SYSTEM, "expired"
        if asked.in_memory and asked.id not in self._secrets:
            return "expired", SYSTEM, "restart"  # its secrets were in memory only (cases.md C4)
        asker = self._standing(asked.actor)
        if asker is None or not asker.may("exec") or not asker.sees(asked.tool):
            return "dropped", SYSTEM, "rights-ended"
        return ("dropped", SYSTEM, "definition-changed") if changed else None

    def _decide(self, confirmation_id: str, actor: Actor, state: str, reason: str | None) -> "_Decided":
        """One transaction decides; what it found ended is committed as such before the answerer is told."""

        def work(transaction: Transaction) -> "_Decided":
            asked = rows.confirmation(transaction.connection, confirmation_id)
            if asked is None or not may_see(actor, asked):
                raise _unknown()
            if self._standing(actor.name) is None:
                raise Forbidden(Message("令牌已失效。", "The token has ended."))
            if not may_answer(actor, asked, allow_self=self._allow_self):
                raise Forbidden(_FOUR_EYES, code="self-confirmation")
            if asked.state != "waiting":
                raise _too_late(asked)
            ending = self._ending(asked, changed=_changed(transaction, asked), moment=transaction.now)
            if ending is None:
                ending = (state, actor.name, reason and reason[:REASON_CHARACTERS])
            call, waiting = _end(transaction, asked, *ending)
            answered = rows.confirmation(transaction.connection, asked.id)
            assert answered is not None
            return _Decided(asked, answered, call, waiting, self._standing(asked.actor))

        decided = self._database.write(work)
        if decided.answered.state == "approved":
            self._told(decided.answered)
        else:
            self._ended(confirmation_id)
        if decided.answered.state != state:
            raise _too_late(decided.answered)
        return decided

    def _ended(self, confirmation_id: str) -> None:
        """One ended without a yes: its secrets are forgotten, and who listens is told."""
        self._forget(confirmation_id)
        with self._database.read() as connection:
            asked = rows.confirmation(connection, confirmation_id)
            run = None if asked is None else runs.run(connection, asked.run)
        if asked is not None and run is not None and asked.state != "waiting":
            self._told(asked)
            self._happened(run)

    def _forget(self, confirmation_id: str) -> Mapping[str, Any] | None:
        with self._lock:
            return self._secrets.pop(confirmation_id, None)


@dataclass(frozen=True, slots=True)
class _Decided:
    """What a transaction decided: the question as it was, and as it is now."""

    confirmation: Confirmation
    answered: Confirmation
    asked: Asked
    waiting: Waiting
    asker: Actor | None


def _changed(transaction: Transaction, asked: Confirmation) -> bool:
    return tools.active_version_id(transaction, asked.tool) != asked.version_id


def _end(
    transaction: Transaction,
    asked: Confirmation,
    state: str,
    by: str,
    reason: str | None,
    cause: Conflict | None = None,
) -> tuple[Asked, Waiting]:
    """Write how it ended, and what that means for its run: queued, or refused, for this cause where one is given."""
    run = runs.run(transaction.connection, asked.run)
    assert run is not None
    call, waiting = _asked(transaction, run), Waiting(run.seq, run.created_at)
    rows.answer(transaction, asked, state, by, reason)
    if state == "approved":
        run_steps.move(transaction, run.seq, "queued")
        return call, waiting
    code = REFUSED_BY[state] if cause is None else cause.code
    message = REFUSALS[state] if cause is None else cause.message
    run_steps.refuse(transaction, call, code=code, message=message, problems=[], waiting=waiting)
    return call, waiting


def _asked(transaction: Transaction, run: Run) -> Asked:
    commitment = runs.commitment(transaction.connection, run.seq)
    assert commitment is not None
    return Asked(run.id, run.version, run.actor, commitment, run.match_id, run.confirmation_id, run.key_hash)


def _unknown() -> NotFound:
    return NotFound(Message("没有这个确认请求。", "There is no such confirmation."), code="unknown-confirmation")


def _too_late(asked: Confirmation) -> Conflict:
    """What the answerer is told of one that ended before: as it was answered, or why it had to end."""
    if asked.state == "dropped" and asked.reason == "definition-changed":
        return Conflict(REFUSALS["dropped"], code="definition-changed")
    if asked.state == "dropped" and asked.reason == "rights-ended":
        return Conflict(_RIGHTS, code="rights-ended")
    zh, en = _STATES[asked.state]
    return Conflict(Message(f"这个确认请求{zh}。", f"The confirmation {en}."), code=f"confirmation-{asked.state}")


REFUSALS: Final[Mapping[str, Message]] = {
    "rejected": Message("确认被拒绝，没有执行。", "The confirmation was rejected; it did not run."),
    "expired": Message("无人及时确认，没有执行；请重新请求。", "Nobody confirmed in time; it did not run. Ask again."),
    "dropped": Message(
        "确认前定义已变化、被移除，或请求者的权限已结束，没有执行；请重新请求。",
        "The definition changed or went, or the asker's right ended, before it was confirmed; it did not run. Ask again.",
    ),
}
_FOUR_EYES: Final = Message(
    "这里须由另一人确认（confirm_self = false）。", "Somebody else has to confirm here (confirm_self = false)."
)
_RIGHTS: Final = Message("请求者的权限已结束，没有执行。", "The asker's right has ended; it did not run.")
_STATES: Final[Mapping[str, Sequence[str]]] = {
    "approved": ("已被批准", "was approved already"),
    "rejected": ("已被拒绝", "was rejected already"),
    "expired": ("已过期", "has expired"),
    "dropped": ("已作废", "was dropped"),
}
