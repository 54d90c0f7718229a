"""A call that passed every check, from there until its run is recorded as ended: waiting in line, or running."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from service.domain.actors import Actor
from service.domain.calls import ExecRequest
from service.domain.confirmations import Confirmation
from service.domain.executors import Cancel, Executor
from service.domain.runs import Run
from service.domain.tools import ToolVersion
from service.execution.live import Tape
from service.store.keys import Key
from service.store.run_steps import Asked, Waiting


@dataclass(eq=False, slots=True)
class Ongoing:
    """One run under way. `ended` gives the Run once that is durable, or raises why there is none.

    `waiting`: its row, where it is durable already and has not begun. `confirmation`: the one that let it run.
    """

    asked: Asked
    request: ExecRequest
    actor: Actor
    executor: Executor
    parameters: Mapping[str, Any]
    key: Key | None = None
    waiting: Waiting | None = None
    confirmation: Confirmation | None = None
    cancel: Cancel = field(default_factory=Cancel)
    cancelled_by: str | None = None
    started: bool = False
    tape: Tape = field(default_factory=Tape)
    ended: Future[Run] = field(default_factory=Future)

    @property
    def version(self) -> ToolVersion:
        """What runs."""
        return self.asked.version

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.asked.run_id

    @property
    def who(self) -> str:
        """Its actor's name."""
        return self.asked.actor

    @property
    def size(self) -> int:
        """Bytes it holds while it waits."""
        return self.request.size

    @property
    def state(self) -> str:
        """`queued` or `started`, or how it ended."""
        if self.ended.done() and self.ended.exception() is None:
            return self.ended.result().state
        return "started" if self.started else "queued"

    @property
    def timeout_ms(self) -> int:
        """Its time limit."""
        return self.request.timeout_ms or self.version.definition.constraints.timeout_ms
