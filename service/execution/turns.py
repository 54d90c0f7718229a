"""Calls that passed every check: each runs at once or waits for its turn, once, and is told of to whoever waits for it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import structlog

from service.domain.actors import Actor
from service.domain.index import Index
from service.domain.runs import Run
from service.domain.tools import ToolVersion
from service.errors import BitongError, Conflict, Message, Unavailable
from service.execution.attempts import Attempts, Changed, Standing, cancelled, rights_ended
from service.execution.checks import Checks
from service.execution.ongoing import Ongoing
from service.execution.queue import Queue
from service.execution.receipts import open_run
from service.execution.refuse import refuse
from service.store import history, keys, run_steps, tools
from service.store.database import Database, Transaction
from service.store.run_steps import Waiting

logger = structlog.get_logger(__name__)

SPARE_S: Final = 10.0  # beyond its time limit, for a run's end and its record


class _Place:
    """A place in line that somebody holds."""

    def __init__(self, line_up: Callable[[Ongoing], Ongoing], size: int) -> None:
        self._line_up = line_up
        self.size = size
        self.taken = False

    def take(self, ongoing: Ongoing) -> Ongoing:
        """Stand there, with a row that is durable as `queued`."""
        self.taken = True
        return self._line_up(ongoing)


class Turns:
    """What is under way in this process. `max_wait_s`: how long a caller waits for an answer at most.

    `happened`: told of every run that stands in line, ended, or was refused after it had waited.
    """

    def __init__(
        self,
        database: Database,
        *,
        index: Callable[[], Index],
        standing: Standing,
        queue: Queue[Ongoing],
        attempts: Attempts,
        checks: Checks,
        runners: int,
        max_wait_s: float,
        happened: Callable[[Run], None],
    ) -> None:
        self._database = database
        self._index = index
        self._standing = standing
        self._queue = queue
        self._attempts = attempts
        self._checks = checks
        self._max_wait_s = max_wait_s
        self._happened = happened
        self._ongoing: dict[str, Ongoing] = {}
        self._lock = threading.Lock()
        self.stopping = False
        self._unwritten: list[tuple[Ongoing, BitongError]] = []
        self._runners = ThreadPoolExecutor(runners, thread_name_prefix="run")

    def launch(self, ongoing: Ongoing) -> Run | Ongoing:
        """Run it in this thread where a slot is free and the caller waits; else in its turn, in another.

        Raises what keeps it from beginning: Changed, Conflict, Busy, CannotRecord, keys.Taken.
        """
        short = ongoing.timeout_ms / 1000 + SPARE_S < self._max_wait_s
        if ongoing.request.wait and short and self._queue.enter(ongoing.who):
            with self._lock:
                self._ongoing[ongoing.run_id] = ongoing
            return self._perform(ongoing)
        return self.stand_in_line(ongoing)

    def stand_in_line(self, ongoing: Ongoing) -> Ongoing:
        """Make it durable as `queued`, then let turns decide. Raises Busy, CannotRecord, keys.Taken."""
        with self.place(ongoing.who, ongoing.size) as place:
            with self._lock:  # before there is a row that somebody could want to cancel
                self._ongoing[ongoing.run_id] = ongoing
            try:
                ongoing.waiting = self._database.write(lambda transaction: _queue_row(transaction, ongoing))
            except BaseException:
                with self._lock:
                    del self._ongoing[ongoing.run_id]
                raise
            return place.take(ongoing)

    @contextmanager
    def place(self, who: str, size: int) -> Iterator["_Place"]:
        """A place in line, given back unless it is taken. Raises Busy where there is none."""
        self._queue.reserve(who, size)
        place = _Place(self._line_up, size)
        try:
            yield place
        finally:
            if not place.taken:
                self._queue.forgo(who, size)

    def _line_up(self, ongoing: Ongoing) -> Ongoing:
        assert ongoing.waiting is not None
        with self._lock:
            self._ongoing[ongoing.run_id] = ongoing
        self._happened(open_run(ongoing.waiting.seq, ongoing.asked, "queued", ongoing.waiting.created_at))
        self._queue.put(ongoing)
        if self.stopping and self._queue.remove(ongoing):
            self.turn_away(ongoing, stopping("shutdown"))
        self._go_on()
        return ongoing

    def _go_on(self) -> None:
        """Start those whose turn it is."""
        for ongoing in self._queue.ready():
            self._runners.submit(self._take_turn, ongoing)

    def _take_turn(self, ongoing: Ongoing) -> None:
        try:
            self._perform(ongoing)
        except (Changed, history.FilesAbsent):
            self.turn_away(ongoing, self._why_changed(ongoing.version))
        except BitongError as error:
            if not ongoing.started:
                self.turn_away(ongoing, error)
        except Exception as error:
            logger.exception("a waiting call failed inside", run=ongoing.run_id, error=type(error).__name__)
            if not ongoing.started:
                self.turn_away(ongoing, BitongError(_INSIDE))

    def _perform(self, ongoing: Ongoing) -> Run:
        """Run a call that holds a slot, which is given back whatever happens."""
        try:
            if self.stopping:
                raise stopping("shutdown")
            run = self._attempts.run(ongoing, self._checks.files(ongoing.version, ongoing.executor))
        except BaseException as error:
            if ongoing.waiting is None or ongoing.started:
                self._over(ongoing, error)
            raise
        finally:
            self._queue.leave(ongoing.who)
            self._go_on()
        self._over(ongoing, run)
        return run

    def _over(self, ongoing: Ongoing, result: Run | BaseException) -> None:
        """Whoever waits for it is told."""
        with self._lock:
            self._ongoing.pop(ongoing.run_id, None)
        if isinstance(result, BaseException):
            ongoing.ended.set_exception(_about(result, ongoing))
        else:
            try:
                self._happened(result)
            finally:  # whoever waits is told, whatever those who listen do
                ongoing.ended.set_result(result)
        ongoing.tape.touch()

    def cancel(self, run_id: str, by: Actor) -> bool:
        """Ask a run to end, in line or running; False when it is not under way."""
        ongoing = self.under_way(run_id)
        if ongoing is None:
            return False
        ongoing.cancelled_by = by.name
        ongoing.cancel.ask()
        if self._queue.remove(ongoing):
            self.turn_away(ongoing, cancelled(by.name))
        return True

    def under_way(self, run_id: str) -> Ongoing | None:
        """The run, while it waits in line or runs in this process."""
        with self._lock:
            return self._ongoing.get(run_id)

    def running(self) -> int:
        """How many have begun and not ended."""
        with self._lock:
            return sum(ongoing.started for ongoing in self._ongoing.values())

    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._queue.waiting())

    def refuse_new(self) -> None:
        """Start no more: what waits in line is turned away; those that run go on."""
        self.stopping = True
        for ongoing in self._queue.waiting():
            if self._queue.remove(ongoing):
                self.turn_away(ongoing, stopping("shutdown"))

    def cancel_all(self, reason: str) -> None:
        """Ask every one that runs to end."""
        self.refuse_new()
        with self._lock:
            open_runs = list(self._ongoing.values())
        for ongoing in open_runs:
            ongoing.cancel.ask(reason)

    def close(self) -> None:
        """Wait for those that run."""
        self._runners.shutdown(wait=True)

    def sweep(self) -> None:
        """Turn away what waits in line in vain: a right that ended or a definition that changed acts before its turn."""
        self._write_refusals()
        index = self._index()
        for ongoing in self._queue.waiting():
            cause = self._in_vain(ongoing, index)
            if cause is not None and self._queue.remove(ongoing):
                self.turn_away(ongoing, cause)

    def turn_away(self, ongoing: Ongoing, cause: BitongError) -> None:
        """Refuse a call that waited; recorded, and then told to whoever waits for it.

        Where storage refuses, whoever waits is told that, and the refusal is kept until it is written.
        """
        try:
            self._over(ongoing, refuse(self._database, ongoing.asked, cause, waiting=ongoing.waiting))
        except BitongError as error:
            with self._lock:
                self._unwritten.append((ongoing, cause))
            ongoing.ended.set_exception(_about(error, ongoing))
            ongoing.tape.touch()

    def _write_refusals(self) -> None:
        """Those that storage did not take yet."""
        with self._lock:
            unwritten, self._unwritten = self._unwritten, []
        for ongoing, cause in unwritten:
            try:
                run = refuse(self._database, ongoing.asked, cause, waiting=ongoing.waiting)
            except BitongError:
                with self._lock:
                    self._unwritten.append((ongoing, cause))
                continue
            with self._lock:
                self._ongoing.pop(ongoing.run_id, None)
            self._happened(run)

    def _in_vain(self, ongoing: Ongoing, index: Index) -> Conflict | None:
        if self._standing(ongoing.who) is None:
            return rights_ended()
        tool = index.find(ongoing.version.tool, ongoing.actor)
        if tool is None or tool.state != "active" or tool.version is None or tool.version.id != ongoing.version.id:
            return self._why_changed(ongoing.version)
        return None

    def _why_changed(self, version: ToolVersion) -> Conflict:
        try:
            with self._database.read() as connection:
                tool = tools.tool(connection, version.tool)
        except BitongError:
            tool = None  # it is refused either way
        if tool is not None and tool.state == "orphaned":
            return Conflict(_ORPHANED, code="orphaned")
        return Conflict(_DEFINITION_CHANGED, code="definition-changed")


def _about(error: BaseException, ongoing: Ongoing) -> BaseException:
    """The failure, with what is known of the call it ended."""
    if isinstance(error, BitongError):
        error.facts.setdefault("version", ongoing.version)
        if ongoing.waiting is not None:
            error.facts.setdefault("run", ongoing.run_id)
    return error


def _queue_row(transaction: Transaction, ongoing: Ongoing) -> Waiting:
    if ongoing.key is not None:
        keys.claim(transaction, ongoing.key, ongoing.run_id)
    return run_steps.wait(transaction, ongoing.asked, "queued")


def stopping(code: str | None = None) -> Unavailable:
    """The refusal of a service that ends."""
    return Unavailable(Message("服务正在停止。", "The service is stopping."), code=code)


_INSIDE: Final = Message("内部出错，没有执行；见日志。", "Something went wrong inside; it did not run. See the log.")
_ORPHANED: Final = Message(
    "等待期间定义所在的提交离开了跟踪分支，没有执行。",
    "While it waited the definition's commit left the tracked branch; it did not run.",
)
_DEFINITION_CHANGED: Final = Message(
    "等待期间定义已变化或被移除，没有执行；请重新请求。",
    "While it waited the definition changed or was removed; it did not run. Ask again.",
)
