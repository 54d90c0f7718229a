"""From a call to a receipt: resolve, check, ask first where that is due, run once, record (design.md, Two halves)."""

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from service.domain.actors import Actor
from service.domain.calls import ExecRequest
from service.domain.confirmations import Confirmation, needs_confirmation
from service.domain.index import Index
from service.domain.runs import OPEN, Commitment, Run, commit_parameters
from service.domain.times import uuid7
from service.domain.tools import NAME, ToolVersion
from service.errors import BitongError, Busy, CannotRecord, Conflict, Invalid, Message, NotFound, Unavailable
from service.execution.attempts import Changed
from service.execution.checks import Checks
from service.execution.confirm import Confirmations
from service.execution.limits import Refusals
from service.execution.ongoing import Ongoing
from service.execution.refuse import refuse
from service.execution.repeats import Repeats, reused
from service.execution.resolve import resolve, unknown_tool
from service.execution.turns import Turns, stopping
from service.store import history, keys, runs, tools
from service.store.database import Database
from service.store.run_steps import Asked

logger = structlog.get_logger(__name__)

_TRIES: Final = 5  # at a definition that changes under a call
_CANCEL_LOOKS, _CANCEL_AGAIN_S = 20, 0.05
_SWEEP_S: Final = 0.4  # a right that ended acts within a second (contract/http-api.md, Who may what)

Stand = Run | Ongoing | Confirmation  # how a call stands: ended or refused; under way; waiting for a yes


class _Refused(Exception):
    """A call on a known tool that never started, and the run that says so."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.reason)
        self.run = run


class Execution:
    """Runs tools. Everything it needs is handed in.

    `index`: the registry now. `key`: hides secrets in commitments. `refused`: told of every run that was refused at once.
    """

    def __init__(
        self,
        database: Database,
        *,
        index: Callable[[], Index],
        key: bytes,
        checks: Checks,
        confirmations: Confirmations,
        turns: Turns,
        refused: Callable[[Run], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._index = index
        self._key = key
        self._checks = checks
        self.confirmations = confirmations
        self.turns = turns
        self._repeats = Repeats(database, key)
        self._refusals = Refusals()
        self._refused = refused
        self._stop_sweeping = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_on, name="sweep", daemon=True)

    def execute(self, request: ExecRequest, actor: Actor) -> Stand:
        """Run a tool, and answer how the call stands: once it ended, or at once where it waits or shall not be waited for.

        Raises NotFound, Busy, Unavailable or CannotRecord, of which no run tells.
        """
        try:
            return self._answer(request, actor)
        except _Refused as refusal:
            self._refused(refusal.run)
            return refusal.run

    def approve(self, confirmation_id: str, actor: Actor, reason: str | None) -> Stand:
        """Answer a question with yes: it runs. Raises as Confirmations.approve does, and what keeps it from running."""
        asked = self.confirmations.show(confirmation_id, actor)
        with self._database.read() as connection:
            version = tools.version_by_id(connection, asked.version_id)
        executor = self._checks.executor(version)
        # Before the yes is spent: what cannot run now, or has no place in line, leaves the question waiting.
        with self.turns.place(asked.actor, self.confirmations.weight(asked)) as place:
            approved = self.confirmations.approve(confirmation_id, actor, reason)
            request = ExecRequest(
                version.tool, approved.parameters, timeout_ms=approved.confirmation.timeout_ms, size=place.size
            )
            return place.take(
                Ongoing(
                    asked=approved.asked,
                    request=request,
                    actor=approved.asker,
                    executor=executor,
                    parameters=approved.parameters,
                    waiting=approved.waiting,
                    confirmation=approved.confirmation,
                )
            )

    def cancel(self, run_id: str, by: Actor) -> bool:
        """Ask a run to end, wherever it stands; False when it is over."""
        for _ in range(_CANCEL_LOOKS):
            if self.turns.cancel(run_id, by):
                return True
            if self.confirmations.withdraw(run_id, by):
                self._refusals.note(by.name)  # asking and taking back makes rows, and shall not do so without end
                return True
            with self._database.read() as connection:
                state = runs.state(connection, run_id)
            if state not in OPEN:
                return False
            time.sleep(_CANCEL_AGAIN_S)  # it was approved this moment, and does not stand in line yet
        return False

    # Its life.

    def start(self) -> None:
        """Begin to look after what waits; what ended while nobody looked ends now."""
        self.confirmations.sweep()
        self._sweeper.start()

    def refuse_new(self) -> None:
        """Start no more runs; those that run go on."""
        self._stop_sweeping.set()
        self.turns.refuse_new()

    def _sweep_on(self) -> None:
        while not self._stop_sweeping.wait(_SWEEP_S):
            try:
                self.turns.sweep()
                self.confirmations.sweep()
            except BitongError:
                continue  # storage: said where it failed; the next sweep tries again
            except Exception as error:
                logger.exception("a sweep failed inside", error=type(error).__name__)

    # From a call to how it stands.

    def _answer(self, request: ExecRequest, actor: Actor) -> Stand:
        for attempt in range(_TRIES + 1):
            # A call with a mistake beside its parameters is no repeat, and its refusal stands for none: once mended it
            # is the same call as far as a key can tell.
            if request.key is not None and not request.problems and (kept := self._kept(request, actor)) is not None:
                return kept
            # The Index in memory and the database differ for a moment: then what is in the database decides. A call that
            # arrives while a look publishes has waited for nothing: it runs what is active now.
            index = self._index() if attempt == 0 else self._index_of(request.tool)
            try:
                return self._execute(index, request, actor)
            except NotFound:
                if attempt > 0:
                    raise
            except (Changed, history.FilesAbsent, keys.Taken):
                continue
        raise Unavailable(Message("定义正在变化，请再试一次。", "The definition keeps changing; try again."))

    def _kept(self, request: ExecRequest, actor: Actor) -> Stand | None:
        """How the call stands that came with this key before, if one did. Rights come first."""
        if not NAME.match(request.tool) or not actor.sees(request.tool):
            raise unknown_tool()
        try:
            run = self._repeats.find(request, actor)
        except Conflict as error:
            version = resolve(self._index_of(request.tool), request, actor)
            raise self._refuse(request, actor, version, error) from None
        if run is None:
            return None
        if (ongoing := self.turns.under_way(run.id)) is not None:
            return ongoing
        if run.state == "awaiting_confirmation" and run.confirmation_id is not None:
            return self.confirmations.show(run.confirmation_id, actor)
        with self._database.read() as connection:  # it may have ended between the two looks
            return runs.run(connection, run.id)

    def _index_of(self, name: str) -> Index:
        """How one name stands in the database, which the Index in memory follows a moment later."""
        if not NAME.match(name):
            return Index([], 0)
        with self._database.read() as connection:
            tool = tools.tool(connection, name)
        return Index([tool] if tool is not None else [], 0)

    def _execute(self, index: Index, request: ExecRequest, actor: Actor) -> Stand:
        try:
            version = resolve(index, request, actor)
        except Conflict as error:
            raise self._refuse(request, actor, error.facts["version"], error) from None
        try:
            return self._run_version(request, actor, version)
        except (Busy, CannotRecord) as error:
            error.facts.setdefault("version", version)
            raise

    def _run_version(self, request: ExecRequest, actor: Actor, version: ToolVersion) -> Stand:
        self._refusals.check(actor.name)
        executor = self._checks.executor(version)
        try:
            parameters = self._checks.parameters(request, version, executor)
            asks = needs_confirmation(version.definition)
            ongoing = Ongoing(
                asked=self._asked(request, actor, version, parameters, confirmation_id=uuid7() if asks else None),
                request=request,
                actor=actor,
                executor=executor,
                parameters=parameters,
                key=self._repeats.key_of(request, actor, version),
            )
            if self.turns.stopping:
                raise stopping()
            return self.confirmations.ask(ongoing) if asks else self.turns.launch(ongoing)
        except (Invalid, Conflict) as error:
            raise self._refuse(request, actor, version, error) from None

    def _refuse(self, request: ExecRequest, actor: Actor, version: ToolVersion, cause: BitongError) -> _Refused:
        """Record a call that may not run; a key stands for its refusal too, unless that is what is wrong with it."""
        self._refusals.check(actor.name)
        self._refusals.note(actor.name)
        keyless = cause.code == reused().code or request.problems
        key = None if keyless else self._repeats.key_of(request, actor, version)
        return _Refused(refuse(self._database, self._asked(request, actor, version, request.params), cause, key=key))

    def _asked(
        self,
        request: ExecRequest,
        actor: Actor,
        version: ToolVersion,
        parameters: Mapping[str, Any],
        confirmation_id: str | None = None,
    ) -> Asked:
        key = self._repeats.key_of(request, actor, version)
        return Asked(
            run_id=uuid7(),
            version=version,
            actor=actor.name,
            commitment=self._commitment(version, parameters),
            match_id=request.match_id,
            confirmation_id=confirmation_id,
            key_hash=None if key is None else key.hash,
        )

    def _commitment(self, version: ToolVersion, parameters: Mapping[str, Any]) -> Commitment:
        return commit_parameters(version.definition, parameters, key=self._key, salt=secrets.token_bytes(16))
